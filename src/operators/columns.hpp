// Columns as the operators read them, wherever they lie: in a table, or in a received segment.
#pragma once

#include <vector>

#include <mgi/batch.hpp>
#include <mgi/device/receive.hpp>

#include "operators/text.hpp"

namespace mgi::operators {

using device::ColumnView;

// Rows of a batch's column from `first` on. Borrows from the column.
inline ColumnView view_of(Column const& column, i64 first) {
    ColumnView view;
    view.values = column.values;
    view.validity = column.validity;
    view.bytes = reinterpret_cast<char const*>(column.bytes);
    view.buffers = reinterpret_cast<char const* const*>(column.buffers.data());
    view.offset = static_cast<u64>(column.offset + first);
    view.encoding = static_cast<device::InputEncoding>(column.encoding);
    return view;
}
static_assert(u8(device::InputEncoding::Plain) == u8(Encoding::Plain) &&
              u8(device::InputEncoding::Offsets32) == u8(Encoding::Offsets32) &&
              u8(device::InputEncoding::Offsets64) == u8(Encoding::Offsets64) &&
              u8(device::InputEncoding::Views) == u8(Encoding::Views));

// The columns of a received batch; borrows from the segment and from itself, so it stays in place.
class ReceivedColumns {
public:
    ReceivedColumns() = default;
    ReceivedColumns(ReceivedColumns const&) = delete;
    ReceivedColumns& operator=(ReceivedColumns const&) = delete;

    void aim(device::ReceivedBatch const& batch) {
        auto const& layout = *batch.layout;
        views_.resize(layout.column_count);
        bytes_ = batch.segment + layout.bytes_offset;
        for (u32 c = 0; c < layout.column_count; ++c) {
            auto const& column = layout.columns[c];
            ColumnView& view = views_[c];
            view = {};
            view.values = batch.segment + column.offset;
            view.offset = batch.row;
            if (column.nullable()) {
                view.validity = reinterpret_cast<u8 const*>(batch.segment) + column.validity;
            }
            if (column.storage == device::Storage::Views) {
                view.encoding = device::InputEncoding::Views;
                view.buffers = &bytes_;
            }
        }
    }
    // Whoever reads rows moves the views past them.
    [[nodiscard]] ColumnView* data() { return views_.data(); }

private:
    std::vector<ColumnView> views_;
    char const* bytes_ = nullptr;
};

inline bool valid_at(ColumnView const& view, u64 row) {
    return view.validity == nullptr || device::bit_at(view.validity, view.offset + row);
}

inline bool bit_at(ColumnView const& view, u64 row) {
    return device::bit_at(static_cast<u8 const*>(view.values), view.offset + row);
}

// First value of a fixed-width column.
template <class T>
T const* values_of(ColumnView const& view) {
    return static_cast<T const*>(view.values) + view.offset;
}

// A value that may lie at any address: Arrow recommends alignment, it does not promise it.
template <class T>
T load(T const* at) {
    T value;
    std::memcpy(&value, at, sizeof(T));
    return value;
}

// What an Arrow view can say of a text's size.
inline constexpr i64 kLongestText = 0x7fffffff;
// Throws Error(InvalidArgument).
[[noreturn]] void refuse_text(i64 size);

// Characters of a valid row. Throws Error(InvalidArgument) for more than `kLongestText` of them.
inline Text text_at(ColumnView const& view, u64 row) {
    Text const text = device::view_text(view, row);
    if (text.size > kLongestText) refuse_text(text.size);
    return text;
}

// Texts of a column as rows of a table hold them.
class RowTexts {
public:
    // `in_place`: the column holds RowText already, whose characters stayed where they were. To be told
    // how many rows there are, one or more, makes it faster.
    RowTexts(ColumnView const& view, bool in_place, u32 rows = 0)
        : view_(view),
          in_place_(in_place),
          end_(rows == 0 ? nullptr : characters_end(view, rows)) {}

    // Of a valid row.
    [[nodiscard]] RowText operator[](u64 row) const {
        u64 const at = view_.offset + row;
        if (in_place_) {
            return RowText::at(static_cast<char const*>(view_.values) + at * sizeof(RowText));
        }
        if (view_.encoding == device::InputEncoding::Views) {
            return {static_cast<device::StringView16 const*>(view_.values)[at], view_.buffers};
        }
        Text const text = text_at(view_, row);
        if (end_ == nullptr || end_ - text.data < i64{RowText::kInline}) return RowText(text);
        return RowText::with_others_behind(text);
    }
    // An empty text of a null.
    [[nodiscard]] RowText or_none(u64 row) const {
        return valid_at(view_, row) ? (*this)[row] : RowText();
    }

private:
    // Where the characters of the rows end, if they lie one after the other.
    static char const* characters_end(ColumnView const& view, u32 rows) {
        if (view.encoding == device::InputEncoding::Offsets32) {
            return view.bytes + static_cast<std::int32_t const*>(view.values)[view.offset + rows];
        }
        if (view.encoding == device::InputEncoding::Offsets64) {
            return view.bytes + static_cast<i64 const*>(view.values)[view.offset + rows];
        }
        return nullptr;
    }

    ColumnView const view_;
    bool const in_place_;
    char const* const end_;
};

}  // namespace mgi::operators
