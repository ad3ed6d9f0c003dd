/// \file
/// Values as bytes, by which they are told apart.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include <mgi/batch.hpp>

#include "core/arrow_room.hpp"

namespace mgi::arrow {

/// The values of one column.
class Values {
public:
    Values(RecordBatch const& batch, std::size_t column)
        : batch_(batch),
          column_(batch.columns[column]),
          c_(column),
          type_(batch.schema[column].type) {}

    /// A valid one.
    [[nodiscard]] std::string_view at(std::int64_t row) const {
        if (type_.is_variable()) return batch_.string_at(c_, row);
        if (type_.id == TypeId::Bool) return batch_.bool_at(c_, row) ? "1" : "0";
        std::size_t const width = type_.row_width();
        auto const* const values = static_cast<char const*>(column_.values);
        return {values + std::size_t(column_.offset + row) * width, width};
    }

private:
    RecordBatch const& batch_;
    Column const& column_;
    std::size_t const c_;
    Type const& type_;
};

/// A column of such values, text behind Offsets64.
Column column_of(std::vector<std::string_view> const& values, Type const& type, Room& room);

}  // namespace mgi::arrow
