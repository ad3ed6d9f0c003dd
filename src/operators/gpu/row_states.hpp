// The least and the greatest of values longer than a word: texts, binaries and long decimals. A state is one word all the same: the
// value's front above the number of the row that has it. So it takes one atomic operation, and most rows end at the comparison of
// fronts; only where these are equal the values are looked at, of which the named row's lies anywhere in the memory. Characters
// move once, when results are written. One source for g++ and nvcc.
//
// Fronts are found before rows are folded: a kernel that reads its rows in order and does nothing else has more of them on their way.
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

// The first byte that differs, of words that do.
MGI_HD inline u32 first_difference(u64 a, u64 b) {
    return u32(cuda::std::countr_zero(a ^ b)) / 8;
}

// device::compare_bytes by words.
MGI_HD inline int compare_by_words(device::Text a, device::Text b) {
    u32 const common = device::min_of(a.size, b.size);
    for (u32 first = 0; first < common; first += 8) {
        u32 const bytes = device::min_of(common - first, 8u);
        u64 const x = load_some(a.data + first, bytes);
        u64 const y = load_some(b.data + first, bytes);
        if (x == y) continue;
        u32 const shift = 8 * first_difference(x, y);
        return u8(x >> shift) < u8(y >> shift) ? -1 : 1;
    }
    return a.size == b.size ? 0 : a.size < b.size ? -1 : 1;
}

// Whether a row's value comes before another one's as the state wants them. Both are in the place's memory.
MGI_HD inline bool comes_before(State const& state, ColumnView const* part, u32 row, u32 other) {
    ColumnView const& view = part[state.column];
    int order = 0;
    if (state.is_decimal()) {
        u64 const* const values = static_cast<u64 const*>(view.values) + 2 * view.offset;
        u64 const* const a = values + 2 * u64{row};
        u64 const* const b = values + 2 * u64{other};
        if (a[1] != b[1]) {
            order = i64(a[1]) < i64(b[1]) ? -1 : 1;
        } else if (a[0] != b[0]) {
            order = a[0] < b[0] ? -1 : 1;
        }
    } else {
        order = compare_by_words(bytes_of(state, view, row), bytes_of(state, view, other));
    }
    return state.fold == Fold::MaxRow ? order > 0 : order < 0;
}

// Puts the row that a word names, if any, in place of the one that a state names, where its value comes before that one's.
MGI_HD inline void fold_named_row(State const& state, u64* at, ColumnView const* part, u64 mine) {
    if (mine == kNoRow) return;
    auto const is_before = [&](u64 found) {
        u32 const front = u32(mine >> 32);
        u32 const other = u32(found >> 32);
        if (front != other || found == kNoRow) return front <= other;
        return comes_before(state, part, u32(mine), u32(found));
    };
    auto word = shared_word(at);
    u64 found = word.load(device::relaxed);
    while (is_before(found) && !word.compare_exchange_weak(found, mine, device::relaxed)) {
    }
}

// The same of a row that has a value.
MGI_HD inline void fold_row_of(State const& state, u64* at, ColumnView const* part, u64 row) {
    u32 const front = state.fronts[row];
    fold_named_row(state, at, part, u64{state.fold == Fold::MaxRow ? ~front : front} << 32 | row);
}

// Finds how many first bytes all values of a column share, which fronts leave out: with the first value, unless many rows before it are
// null.
class FindCommon {
public:
    static constexpr u32 kMostNulls = 64;

    // `common` is lowered.
    MGI_HD void operator()(device::Group const& group, device::Shared&, State state,
                           ColumnView const* part, u64 rows, u32* common) const {
        ColumnView const view = part[state.column];
        u32 pivot = 0;
        while (pivot < kMostNulls && pivot < rows && !is_valid(view, pivot)) ++pivot;
        bool const there = pivot < kMostNulls && pivot < rows;
        device::Text const first = there ? bytes_of(state, view, pivot) : device::Text();
        u32 shared = first.size;
        u64 const step = u64{group.threads} * group.blocks;
        u64 i = u64{group.block} * group.threads + group.thread;
        for (; shared != 0 && i < rows; i += step) {
            if (is_valid(view, i)) shared = shared_with(first, bytes_of(state, view, i), shared);
        }
        auto word = shared_word(common);
        if (shared < word.load(device::relaxed)) word.fetch_min(shared, device::relaxed);
    }

private:
    MGI_HD static u32 shared_with(device::Text a, device::Text b, u32 most) {
        most = device::min_of(most, b.size);
        for (u32 w = 0; w < words_of(most); ++w) {
            u64 const x = load_word_of(a.data, most, w);
            u64 const y = load_word_of(b.data, most, w);
            if (x != y) return 8 * w + first_difference(x, y);
        }
        return most;
    }
};

// Writes 32 bits of each value that order as the values do, but for what they leave out.
class WriteFronts {
public:
    // `common`: first bytes that are left out; null of decimals.
    MGI_HD void operator()(device::Group const& group, device::Shared&, State state,
                           ColumnView const* part, u64 rows, u32 const* common, u32* fronts) const {
        ColumnView const view = part[state.column];
        u32 const skip = common == nullptr ? 0 : *common;
        u64 const step = u64{group.threads} * group.blocks;
        u64 i = u64{group.block} * group.threads + group.thread;
        for (; i < rows; i += step) {
            fronts[i] = is_valid(view, i) ? front_of(state, view, i, skip) : 0;
        }
    }

private:
    MGI_HD static u32 front_of(State const& state, ColumnView const& view, u64 row, u32 skip) {
        if (state.is_decimal()) {
            u64 const* const value = static_cast<u64 const*>(view.values) + 2 * (view.offset + row);
            u64 const bits = state.shift >= 64
                                 ? u64(i64(value[1]) >> (state.shift - 64))
                                 : value[1] << (64 - state.shift) | value[0] >> state.shift;
            return u32(bits) ^ 0x80000000u;
        }
        device::Text const bytes = bytes_of(state, view, row);
        skip = device::min_of(skip, bytes.size);
        u32 const size = device::min_of(bytes.size - skip, 4u);
        u32 const word = u32(load_some(bytes.data + skip, size));
        return word << 24 | (word << 8 & 0xff0000) | (word >> 8 & 0xff00) | word >> 24;
    }
};

}  // namespace mgi::operators::on_gpu
