// The least and the greatest of values longer than a word: texts, binaries and long decimals. A state is one word all the same: the
// value's front above the number of the row that has it. So it takes one atomic operation, and most rows end at the comparison of
// fronts; only where these are equal the values are looked at, of which the named row's lies anywhere in the memory. Characters
// move once, when results are written. One source for g++ and nvcc.
#pragma once

#include <cuda/std/bit>

#include "operators/gpu/fold.hpp"

namespace mgi::operators::on_gpu {

// All bytes of a text, or of a fixed-size binary.
MGI_HD inline device::Text bytes_of(State const& state, ColumnView const& view, u64 row) {
    if (state.value.kind == KeyKind::Text) return device::view_text(view, row);
    auto const* const values = static_cast<char const*>(view.values);
    return {values + (view.offset + row) * state.bytes, state.bytes};
}

// Of bytes as numbers without a sign: below 0, 0 or above it, as the first comes before the second, is equal to it or behind it.
// device::compare_bytes by words.
MGI_HD inline int compare_words_of(device::Text a, device::Text b) {
    u32 const common = device::min_of(a.size, b.size);
    for (u32 w = 0; w < words_of(common); ++w) {
        u64 const x = load_word_of(a.data, common, w);
        u64 const y = load_word_of(b.data, common, w);
        if (x == y) continue;
        u32 const shift = u32(cuda::std::countr_zero(x ^ y)) & ~7u;  // the first byte that differs
        return u8(x >> shift) < u8(y >> shift) ? -1 : 1;
    }
    return a.size == b.size ? 0 : a.size < b.size ? -1 : 1;
}

MGI_HD inline int compare_rows(State const& state, ColumnView const& view, u64 a, u64 b) {
    if (!state.is_decimal()) {
        return compare_words_of(bytes_of(state, view, a), bytes_of(state, view, b));
    }
    u64 const* const values = static_cast<u64 const*>(view.values) + 2 * view.offset;
    u64 const x = values[2 * a + 1];
    u64 const y = values[2 * b + 1];
    if (x != y) return i64(x) < i64(y) ? -1 : 1;
    u64 const low = values[2 * a];
    u64 const other = values[2 * b];
    return low == other ? 0 : low < other ? -1 : 1;
}

// 32 bits that order as the values do, but for what they leave out.
MGI_HD inline u32 front_of(State const& state, ColumnView const& view, u64 row) {
    if (!state.is_decimal()) {
        device::Text const bytes = bytes_of(state, view, row);
        u32 const word = u32(load_some(bytes.data, device::min_of(bytes.size, 4u)));
        return word << 24 | (word << 8 & 0xff0000) | (word >> 8 & 0xff00) | word >> 24;
    }
    u64 const* const value = static_cast<u64 const*>(view.values) + 2 * (view.offset + row);
    u64 const bits = state.shift >= 64 ? u64(i64(value[1]) >> (state.shift - 64))
                                       : value[1] << (64 - state.shift) | value[0] >> state.shift;
    return u32(bits) ^ 0x80000000u;
}

// Puts a row that a word names, if any, in place of the one that a state names, where its value comes before that one's.
MGI_HD inline void fold_named_row(State const& state, u64* at, ColumnView const& view, u64 mine) {
    if (mine == kNoRow) return;
    auto const is_before = [&](u64 found) {
        if (found == kNoRow) return true;
        u32 const front = u32(mine >> 32);
        u32 const other = u32(found >> 32);
        if (front != other) return front < other;
        int const order = compare_rows(state, view, u32(mine), u32(found));
        return state.fold == Fold::MaxRow ? order > 0 : order < 0;
    };
    auto word = shared_word(at);
    u64 found = word.load(device::relaxed);
    while (is_before(found) && !word.compare_exchange_weak(found, mine, device::relaxed)) {
    }
}

// The same of a row of a part.
MGI_HD inline void fold_row_of(State const& state, u64* at, ColumnView const* part, u64 row) {
    ColumnView const view = part[state.column];
    if (!is_valid(view, row)) return;
    u32 const front = front_of(state, view, row);
    u64 const mine = u64{state.fold == Fold::MaxRow ? ~front : front} << 32 | row;
    fold_named_row(state, at, view, mine);
}

}  // namespace mgi::operators::on_gpu
