/// \file
/// Routing by range: the splitters of a channel, and which destination's range a row's keys fall into.
#pragma once

#include <mgi/device/order.hpp>

namespace mgi::device {

/// A splitter's value of one key.
struct SplitterValue {
    u64 word = 0;   ///< as `order_word`
    u64 low = 0;    ///< of a decimal
    u64 high = 0;   ///< of a decimal
    u32 begin = 0;  ///< of texts and fixed-size binary: where its bytes begin
    u32 size = 0;   ///< and how many they are; kNull of a null
    static constexpr u32 kNull = 0xffffffffu;

    MGI_HD friend constexpr bool operator==(SplitterValue const&, SplitterValue const&) = default;
};

/// The splitters of a Range channel, in order. Destination i gets the rows that are at or behind splitter i - 1
/// and before splitter i.
struct RangeTable {
    KeyOrder const* keys = nullptr;
    SplitterValue const* values = nullptr;  ///< splitter by splitter, of each its keys
    char const* bytes = nullptr;            ///< of texts and fixed-size binary
    u32 key_count = 0;
    u32 count = 0;
    u32 byte_count = 0;
    bool any_null = false;  ///< in a splitter's first key

    [[nodiscard]] MGI_HD SplitterValue const& value(u32 splitter, u32 key) const {
        return values[u64(splitter) * key_count + key];
    }
    [[nodiscard]] MGI_HD OrderedValue ordered(u32 splitter, u32 key) const {
        SplitterValue const& stored = value(splitter, key);
        bool const null = stored.size == SplitterValue::kNull;
        return {stored.word, stored.low, stored.high,
                Text{bytes + stored.begin, null ? 0 : stored.size}, null};
    }
    /// Splitters whose first word is below this one, or, with `or_equal`, not above it.
    [[nodiscard]] MGI_HD u32 below(u64 word, bool or_equal) const {
        u32 first = 0;
        for (u32 left = count; left != 0;) {
            u32 const half = left / 2;
            u64 const middle = value(first + half, 0).word;
            bool const is_below = middle < word || (or_equal && middle == word);
            first = is_below ? first + half + 1 : first;
            left = is_below ? left - half - 1 : half;
        }
        return first;
    }
    /// As `compare_values`, of a row and a splitter.
    [[nodiscard]] MGI_HD int compare(Batch const& batch, ColumnLayout const* columns, u64 row,
                                     u32 splitter) const {
        for (u32 k = 0; k < key_count; ++k) {
            OrderedValue const mine = ordered_value(batch, keys[k], columns[keys[k].column], row);
            int const order = compare_values(keys[k], mine, ordered(splitter, k));
            if (order != 0) return order;
        }
        return 0;
    }
    /// The same of two splitters.
    [[nodiscard]] MGI_HD int compare(u32 a, u32 b) const {
        for (u32 k = 0; k < key_count; ++k) {
            int const order = compare_values(keys[k], ordered(a, k), ordered(b, k));
            if (order != 0) return order;
        }
        return 0;
    }
    /// Splitters that a row is at or behind: the index of its destination.
    [[nodiscard]] MGI_HD u32 destination(Batch const& batch, ColumnLayout const* columns,
                                         u64 row) const {
        u64 const word = order_word(batch, keys[0], columns[keys[0].column], row);
        u32 last = below(word, true);
        u32 first = below(word, false);
        while (first != last) {
            u32 const middle = first + (last - first) / 2;
            if (compare(batch, columns, row, middle) >= 0) {
                first = middle + 1;
            } else {
                last = middle;
            }
        }
        return first;
    }
};

/// Writes every row's destination, by the words of its only key, which hide nothing.
template <class WordAt>
MGI_HD void find_ranges_by(Group const& group, RangeTable const& range, u32 rows,
                           WordAt const& word_at, u16* part) {
    u64 const flip = range.keys[0].descending ? ~u64(0) : 0;
    for (u32 i = group.thread; i < rows; i += group.threads) {
        part[i] = u16(range.below(word_at(i) ^ flip, true));
    }
}

/// Writes every row's destination. `rows` counts from `first` in the batch.
MGI_HD inline void find_ranges(Group const& group, RangeTable const& range, Batch const& batch,
                               ColumnLayout const* columns, u64 first, u32 rows, u16* part) {
    KeyOrder const key = range.keys[0];
    ColumnLayout const& layout = columns[key.column];
    bool const by_words = range.key_count == 1 && !range.any_null && !key.may_hide_more() &&
                          batch.all_valid(key.column);
    if (by_words && key.kind == OrderKind::Signed) {
        char const* const at = batch.fixed(layout, key.column, first);
        u32 const stride = batch.fixed_stride(layout);
        auto const word_at = [at, stride, width = key.width](u32 i) {
            return u64(load_signed(at + u64(i) * stride, width)) ^ kSignBit;
        };
        return find_ranges_by(group, range, rows, word_at, part);
    }
    if (by_words) {
        for (u32 i = group.thread; i < rows; i += group.threads) {
            part[i] = u16(range.below(order_word(batch, key, layout, first + i), true));
        }
        return;
    }
    for (u32 i = group.thread; i < rows; i += group.threads) {
        part[i] = u16(range.destination(batch, columns, first + i));
    }
}

}  // namespace mgi::device
