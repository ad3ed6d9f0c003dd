/// \file
/// Rows offered to `send`: columns in Arrow's layout, or an array of row structs.
#pragma once

#include <mgi/device/layout.hpp>

namespace mgi::device {

/// Characters of one value.
struct Text {
    char const* data = nullptr;
    u32 size = 0;
};

/// A String or Binary value inside a row struct (Schema::row_bytes counts 16 bytes for it).
struct RowBytes {
    char const* data = nullptr;
    u64 size = 0;
};

/// Where the characters of a value lie: so many bytes behind the column's `bytes`, or at that address where it has none.
struct TextSpan {
    u64 begin = 0;
    u64 size = 0;
};

/// How an offered column's values lie.
enum class InputEncoding : u8 { Plain, Offsets32, Offsets64, Views, Spans };

/// One column of an offered batch; pointers in the memory of the caller's device.
struct ColumnView {
    void const* values = nullptr;  ///< fixed-width values, bits, offsets, views or spans
    u8 const* validity = nullptr;  ///< a bit a row, null where all are valid
    char const* bytes =
        nullptr;  ///< characters, for offsets, spans, and views that have no buffers
    char const* const* buffers = nullptr;  ///< data buffers, for views
    u64 offset = 0;                        ///< first row in the above
    InputEncoding encoding = InputEncoding::Plain;
};

MGI_HD inline bool bit_at(u8 const* bits, u64 index) {
    return ((bits[index >> 3] >> (index & 7)) & 1) != 0;
}

/// Characters of a column's value, whatever it holds in place of a null.
[[nodiscard]] MGI_HD inline Text view_text(ColumnView const& view, u64 row) {
    // Sizes past 32 bits stay past what a segment holds, so that such a row is refused, not cut.
    auto const size_of = [](u64 size) { return u32(min_of<u64>(size, 0xffffffffu)); };
    u64 const at = view.offset + row;
    switch (view.encoding) {
        case InputEncoding::Views: {
            StringView16 const& value = static_cast<StringView16 const*>(view.values)[at];
            if (value.length <= StringView16::kInline) return {value.text, value.length};
            char const* const base =
                view.buffers == nullptr ? view.bytes : view.buffers[value.ref.buffer];
            return {base + value.ref.offset, value.length};
        }
        case InputEncoding::Offsets32: {
            std::int32_t const* offsets = static_cast<std::int32_t const*>(view.values) + at;
            return {view.bytes + offsets[0], u32(offsets[1] - offsets[0])};
        }
        case InputEncoding::Spans: {
            TextSpan const& span = static_cast<TextSpan const*>(view.values)[at];
            u64 const begin = reinterpret_cast<u64>(view.bytes) + span.begin;
            return {reinterpret_cast<char const*>(begin), size_of(span.size)};
        }
        default: {
            std::int64_t const* offsets = static_cast<std::int64_t const*>(view.values) + at;
            return {view.bytes + offsets[0], size_of(u64(offsets[1] - offsets[0]))};
        }
    }
}

/// `count` rows, either column by column or as structs `row_stride` bytes apart.
struct Batch {
    ColumnView const* columns = nullptr;
    char const* rows = nullptr;
    u32 row_stride = 0;
    u64 count = 0;

    /// Address of a fixed-width value, and the distance to the next row's.
    [[nodiscard]] MGI_HD char const* fixed(ColumnLayout const& layout, u32 column, u64 row) const {
        if (rows != nullptr) return rows + row * row_stride + layout.row_offset;
        ColumnView const& view = columns[column];
        return static_cast<char const*>(view.values) + (view.offset + row) * layout.width;
    }
    [[nodiscard]] MGI_HD u32 fixed_stride(ColumnLayout const& layout) const {
        return rows != nullptr ? row_stride : layout.width;
    }
    [[nodiscard]] MGI_HD bool all_valid(u32 column) const {
        return rows != nullptr || columns[column].validity == nullptr;
    }
    [[nodiscard]] MGI_HD bool valid(u32 column, u64 row) const {
        return all_valid(column) || bit_at(columns[column].validity, columns[column].offset + row);
    }
    [[nodiscard]] MGI_HD bool bit(ColumnLayout const& layout, u32 column, u64 row) const {
        if (rows != nullptr) return rows[row * row_stride + layout.row_offset] != 0;
        ColumnView const& view = columns[column];
        return bit_at(static_cast<u8 const*>(view.values), view.offset + row);
    }
    /// Characters of a String or Binary value; nothing for a null.
    [[nodiscard]] MGI_HD Text text(ColumnLayout const& layout, u32 column, u64 row) const {
        if (rows != nullptr) {
            RowBytes value;
            memcpy(&value, rows + row * row_stride + layout.row_offset, sizeof(value));
            return {value.data, u32(min_of<u64>(value.size, 0xffffffffu))};
        }
        if (!valid(column, row)) return {};
        return view_text(columns[column], row);
    }
};

}  // namespace mgi::device
