/// \file
/// The order of keys, as ORDER BY has it: integers, dates and decimals by value, false before true, NaN behind all other
/// floats and -0.0 like 0.0, texts and binary by their bytes; nulls first or last, whatever the direction.
#pragma once

#include <mgi/device/batch_view.hpp>
#include <mgi/device/hash.hpp>

namespace mgi::device {

enum class OrderKind : u8 { Bool, Signed, Unsigned, Float, Decimal, Bytes, Text };

/// A key column and its order.
struct KeyOrder {
    u32 column = 0;
    u32 width = 0;  ///< bytes of a value, of fixed-width columns
    OrderKind kind = OrderKind::Signed;
    bool descending = false;
    bool nulls_first = false;

    /// What stands in place of a null's word. Values may have the same word.
    [[nodiscard]] MGI_HD u64 null_word() const { return nulls_first ? 0 : ~u64(0); }
    /// Whether values that have this word may differ.
    [[nodiscard]] MGI_HD bool hides_more(u64 word) const {
        switch (kind) {
            case OrderKind::Decimal: return word == 0 || word == ~u64(0);
            case OrderKind::Bytes: return width > 8;
            case OrderKind::Text: return true;
            default: return false;
        }
    }
    /// Whether values may differ that have some word in common.
    [[nodiscard]] MGI_HD bool may_hide_more() const { return hides_more(0); }
};

/// A key's value as it is compared: by its word, and by the rest where the word hides more.
struct OrderedValue {
    u64 word = 0;
    u64 low = 0;  ///< of a decimal: its lower half
    u64 high = 0;
    Text text;  ///< of texts and fixed-size binary: all bytes
    bool null = false;
};

inline constexpr u64 kSignBit = 0x8000000000000000ULL;

/// The first 8 characters, as a number that orders like them; zeros behind fewer.
MGI_HD inline u64 first_characters(Text text) {
#if !defined(__CUDA_ARCH__)
    if (text.size >= 8) {
        u64 word;
        memcpy(&word, text.data, 8);
        return __builtin_bswap64(word);
    }
#endif
    u64 word = 0;
    u32 const count = min_of(text.size, 8u);
    for (u32 i = 0; i < count; ++i) word |= u64(u8(text.data[i])) << (56 - 8 * i);
    return word;
}

/// A decimal's word: its value where that fits 64 bits, else the least or the greatest word.
MGI_HD inline u64 decimal_word(u64 low, u64 high) {
    if (high == (low >> 63 != 0 ? ~u64(0) : 0)) return low ^ kSignBit;
    return high >> 63 != 0 ? 0 : ~u64(0);
}

/// A double's bits, as a number that orders like it.
MGI_HD inline u64 float_word(u64 bits) {
    return bits >> 63 != 0 ? ~bits : bits | kSignBit;
}

/// Bytes of a fixed-size binary value.
MGI_HD inline Text fixed_bytes(Batch const& batch, KeyOrder const& order,
                               ColumnLayout const& layout, u64 row) {
    return {batch.fixed(layout, order.column, row), order.width};
}

/// A number that orders rows by one key, but for what it hides.
MGI_HD inline u64 order_word(Batch const& batch, KeyOrder const& order, ColumnLayout const& layout,
                             u64 row) {
    u32 const column = order.column;
    if (!batch.valid(column, row)) return order.null_word();
    u64 word = 0;
    switch (order.kind) {
        case OrderKind::Bool: word = batch.bit(layout, column, row) ? 1 : 0; break;
        case OrderKind::Signed:
            word = u64(load_signed(batch.fixed(layout, column, row), order.width)) ^ kSignBit;
            break;
        case OrderKind::Unsigned:
            word = load_unsigned(batch.fixed(layout, column, row), order.width);
            break;
        case OrderKind::Float:
            word = float_word(load_float(batch.fixed(layout, column, row), order.width));
            break;
        case OrderKind::Decimal: {
            char const* const at = batch.fixed(layout, column, row);
            word = decimal_word(load_value<u64>(at), load_value<u64>(at + 8));
            break;
        }
        case OrderKind::Bytes:
            word = first_characters(fixed_bytes(batch, order, layout, row));
            break;
        case OrderKind::Text: word = first_characters(batch.text(layout, column, row)); break;
    }
    return order.descending ? ~word : word;
}

/// The whole of it.
MGI_HD inline OrderedValue ordered_value(Batch const& batch, KeyOrder const& order,
                                         ColumnLayout const& layout, u64 row) {
    OrderedValue value;
    value.word = order_word(batch, order, layout, row);
    value.null = !batch.valid(order.column, row);
    if (value.null) return value;
    if (order.kind == OrderKind::Decimal) {
        char const* const at = batch.fixed(layout, order.column, row);
        value.low = load_value<u64>(at);
        value.high = load_value<u64>(at + 8);
    } else if (order.kind == OrderKind::Bytes) {
        value.text = fixed_bytes(batch, order, layout, row);
    } else if (order.kind == OrderKind::Text) {
        value.text = batch.text(layout, order.column, row);
    }
    return value;
}

/// Below 0, 0 or above it, as the first comes before the second, is equal to it or behind it.
MGI_HD inline int compare_bytes(Text a, Text b) {
    u32 const common = min_of(a.size, b.size);
#if defined(__CUDA_ARCH__)
    for (u32 i = 0; i < common; ++i) {
        if (a.data[i] != b.data[i]) return u8(a.data[i]) < u8(b.data[i]) ? -1 : 1;
    }
#else
    if (common != 0) {  // an empty text may have no address
        if (int const difference = __builtin_memcmp(a.data, b.data, common)) return difference;
    }
#endif
    return a.size == b.size ? 0 : a.size < b.size ? -1 : 1;
}

/// The same of two values of one key.
MGI_HD inline int compare_values(KeyOrder const& order, OrderedValue const& a,
                                 OrderedValue const& b) {
    if (a.null || b.null) {
        if (a.null == b.null) return 0;
        return a.null == order.nulls_first ? -1 : 1;
    }
    if (a.word != b.word) return a.word < b.word ? -1 : 1;
    if (!order.hides_more(a.word)) return 0;
    int difference = 0;
    if (order.kind == OrderKind::Decimal) {
        if (a.high != b.high) {
            difference = i64(a.high) < i64(b.high) ? -1 : 1;
        } else if (a.low != b.low) {
            difference = a.low < b.low ? -1 : 1;
        }
    } else {
        difference = compare_bytes(a.text, b.text);
    }
    return order.descending ? -difference : difference;
}

}  // namespace mgi::device
