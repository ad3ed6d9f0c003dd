/// \file
/// Where the columns of a segment lie: bit regions first, fixed-width columns at fixed offsets, the
/// bytes of long strings last (DESIGN section 5, "Columns in a segment").
#pragma once

#include <mgi/device/config.hpp>

namespace mgi::device {

/// How a column's values are stored in a segment.
enum class Storage : u8 {
    Fixed,  ///< `width` bytes a row
    Bits,   ///< one bit a row
    Views,  ///< a 16-byte Arrow view a row; characters past 12 in the bytes region
};

/// How a key column's values are read for hashing or modulo.
enum class KeyKind : u8 { Bool, Signed, Unsigned, Float, Bytes, Text };

struct ColumnLayout {
    Storage storage = Storage::Fixed;
    KeyKind key = KeyKind::Signed;
    u32 width = 0;               ///< bytes of a value; 0 for Bits
    u32 stride = 0;              ///< bytes from row to row in the segment
    u32 offset = 0;              ///< bytes from the segment's start to row 0
    u32 validity = kNoValidity;  ///< bytes to the validity words, if the column is nullable
    u32 row_offset = 0;          ///< bytes from a row struct's start
    static constexpr u32 kNoValidity = 0xffffffffu;

    [[nodiscard]] MGI_HD bool nullable() const { return validity != kNoValidity; }
};

/// Layout of every segment of a channel. Rows of 64 share a bit word, so that chunks never share one.
struct SegmentLayout {
    ColumnLayout const* columns = nullptr;
    u32 column_count = 0;
    u32 rows = 0;                ///< capacity in rows
    u32 units = 0;               ///< capacity of the bytes region
    u32 unit_shift = 4;          ///< log2 of a unit's bytes; see Ticket
    u32 bytes_offset = 0;        ///< bytes to the bytes region
    u32 bit_bytes = 0;           ///< bytes of the bit regions, from the segment's start
    u32 row_bytes = 0;           ///< bytes of a row struct
    u32 size = 0;                ///< bytes of a segment
    bool rows_together = false;  ///< rows lie as structs, not column by column
    bool has_views = false;

    [[nodiscard]] MGI_HD u64 bytes_of(u32 unit_count) const {
        return u64(unit_count) << unit_shift;
    }
    /// Units that so many bytes take.
    [[nodiscard]] MGI_HD u32 units_of(u64 bytes) const {
        return u32((bytes + (u64(1) << unit_shift) - 1) >> unit_shift);
    }
};

/// An Arrow string or binary view.
struct StringView16 {
    static constexpr u32 kInline = 12;
    u32 length = 0;
    union {
        char text[kInline];
        struct {
            char prefix[4];
            u32 buffer;
            u32 offset;
        } ref;
    };
    MGI_HD StringView16() : text{} {}
};
static_assert(sizeof(StringView16) == 16);

}  // namespace mgi::device
