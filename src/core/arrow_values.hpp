/// \file
/// Values as bytes, by which they are told apart.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include <mgi/batch.hpp>
#include <mgi/device/batch_view.hpp>
#include <mgi/device/layout.hpp>

#include "core/arrow_room.hpp"

namespace mgi::arrow {

/// The values of one column of a batch, which must live as long.
class Values {
public:
    Values(RecordBatch const& batch, std::size_t column)
        : batch_(batch), column_(batch.columns[column]), c_(column) {
        Type const& type = batch.schema[column].type;
        if (type.is_variable()) {
            kind_ = column_.encoding == Encoding::Views ? Kind::Views : Kind::Offsets;
        } else {
            kind_ = type.id == TypeId::Bool ? Kind::Bits : Kind::Fixed;
        }
        width_ = type.row_width();
    }

    [[nodiscard]] bool is_valid(std::int64_t row) const {
        return column_.validity == nullptr ||
               device::bit_at(column_.validity, std::uint64_t(column_.offset + row));
    }
    /// A valid one.
    [[nodiscard]] std::string_view at(std::int64_t row) const {
        switch (kind_) {
            case Kind::Views: return view_at(column_.offset + row);
            case Kind::Offsets: return batch_.string_at(c_, row);
            case Kind::Bits: return batch_.bool_at(c_, row) ? "1" : "0";
            default: break;
        }
        auto const* const values = static_cast<char const*>(column_.values);
        return {values + std::size_t(column_.offset + row) * width_, width_};
    }

private:
    enum class Kind : std::uint8_t { Views, Offsets, Bits, Fixed };

    [[nodiscard]] std::string_view view_at(std::int64_t at) const {
        device::StringView16 const& view =
            static_cast<device::StringView16 const*>(column_.values)[at];
        if (view.length <= device::StringView16::kInline) return {view.text, view.length};
        std::byte const* const text = column_.buffers[view.ref.buffer] + view.ref.offset;
        return {reinterpret_cast<char const*>(text), view.length};
    }

    RecordBatch const& batch_;
    Column const& column_;
    std::size_t c_;
    Kind kind_ = Kind::Fixed;
    std::size_t width_ = 0;
};

/// A column of such values, text behind Offsets64.
Column column_of(std::vector<std::string_view> const& values, Type const& type, Room& room);

}  // namespace mgi::arrow
