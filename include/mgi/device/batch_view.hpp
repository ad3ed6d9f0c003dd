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

/// How an offered column's values lie.
enum class InputEncoding : u8 { Plain, Offsets32, Offsets64, Views };

/// One column of an offered batch; pointers in the memory of the caller's device.
struct ColumnView {
    void const* values = nullptr;          ///< fixed-width values, bits, offsets or views
    u8 const* validity = nullptr;          ///< a bit a row, null where all are valid
    char const* bytes = nullptr;           ///< characters, for offsets
    char const* const* buffers = nullptr;  ///< data buffers, for views
    u64 offset = 0;                        ///< first row in the above
    InputEncoding encoding = InputEncoding::Plain;
};

MGI_HD inline bool bit_at(u8 const* bits, u64 index) {
    return ((bits[index >> 3] >> (index & 7)) & 1) != 0;
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
            return {value.data, size_of(value.size)};
        }
        if (!valid(column, row)) return {};
        ColumnView const& view = columns[column];
        u64 const at = view.offset + row;
        if (view.encoding == InputEncoding::Views) {
            StringView16 const& value = static_cast<StringView16 const*>(view.values)[at];
            if (value.length <= StringView16::kInline) return {value.text, value.length};
            return {view.buffers[value.ref.buffer] + value.ref.offset, value.length};
        }
        if (view.encoding == InputEncoding::Offsets32) {
            std::int32_t const* offsets = static_cast<std::int32_t const*>(view.values) + at;
            return {view.bytes + offsets[0], u32(offsets[1] - offsets[0])};
        }
        std::int64_t const* offsets = static_cast<std::int64_t const*>(view.values) + at;
        return {view.bytes + offsets[0], size_of(u64(offsets[1] - offsets[0]))};
    }

private:
    /// Sizes past 32 bits stay past what a segment holds, so that such a row is refused, not cut.
    [[nodiscard]] MGI_HD static u32 size_of(u64 size) {
        return u32(min_of<u64>(size, 0xffffffffu));
    }
};

}  // namespace mgi::device
