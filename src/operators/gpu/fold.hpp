// Aggregates as words of a group, and how values are folded into them. One source for g++ and nvcc.
#pragma once

#include "operators/gpu/columns.hpp"
#include "operators/moments.hpp"

namespace mgi::operators::on_gpu {

enum class Fold : u8 {
    CountRows,
    CountValid,
    Sum,            // integers whose sum is known to fit 64 bits
    SumWide,        // integers and decimals; two words, low and high
    SumLong,        // decimals whose sum may leave two words: three, lowest first
    SumLongOfMany,  // of such sums, whose words are in three columns
    SumFloat,       // the bits of a double
    Min,            // words that order as the values do, see ordered_word
    Max,
    Moments,        // four words, those of Moments
    MomentsOfMany,  // of moments, whose words are in four columns
    MinRow,         // of values longer than a word: which row has it, see row_states.hpp
    MaxRow,
};

// One state of a group.
struct State {
    Fold fold = Fold::CountRows;
    ValueKind value;
    u32 column = 0;  // among the columns of a row; of those that have several the first
    u32 place = 0;   // its first word among a group's states
    u32 bytes = 0;   // of MinRow and MaxRow: of a value of fixed size
    u32 shift =
        0;  // and of a decimal: how many of its lower bits its front leaves out, of others 0
    u32 const* fronts = nullptr;  // and by row of the part

    [[nodiscard]] MGI_HD bool is_decimal() const { return shift != 0; }
};

inline constexpr u32 kMostStates = 32;

// What some states are: kernels have fewer registers without.
enum class StateKinds : u8 {
    Common,
    Rare,  // moments, or sums of long decimals or of three words
    Rows,  // those that name rows; some may be rare
};

struct States {
    State all[kMostStates];
    u32 count = 0;
    u32 words = 0;
    StateKinds kinds = StateKinds::Common;
};

// A state that names no row yet.
inline constexpr u64 kNoRow = ~u64{0};

// A pivot of no value; a NaN that stands for no value either.
inline constexpr u64 kNoPivot = ~u64{0};
inline constexpr u32 kMomentWords = 4;
inline constexpr u32 kLongSumWords = 3;

MGI_HD constexpr bool is_moments(Fold fold) {
    return fold == Fold::Moments || fold == Fold::MomentsOfMany;
}
MGI_HD constexpr bool is_long_sum(Fold fold) {
    return fold == Fold::SumLong || fold == Fold::SumLongOfMany;
}
MGI_HD constexpr bool names_row(Fold fold) {
    return fold == Fold::MinRow || fold == Fold::MaxRow;
}
MGI_HD constexpr u32 words_of(Fold fold) {
    if (is_moments(fold)) return kMomentWords;
    return is_long_sum(fold) ? kLongSumWords : fold == Fold::SumWide ? 2 : 1;
}
MGI_HD constexpr u64 empty_word(Fold fold, u32 word) {
    if (is_moments(fold)) return word == 1 ? kNoPivot : 0;
    if (names_row(fold)) return kNoRow;
    if (fold == Fold::Min) return 0x7fffffffffffffffULL;
    if (fold == Fold::Max) return 0x8000000000000000ULL;
    return 0;
}

MGI_HD inline u64 bits_of(double value) {
    u64 bits;
    memcpy(&bits, &value, 8);
    return bits;
}
MGI_HD inline double double_of(u64 bits) {
    double value;
    memcpy(&value, &bits, 8);
    return value;
}

// Of a number of 128 bits.
MGI_HD inline double number_of(u64 low, u64 high) {
    // What fits 64 bits would be lost as a small rest of two large numbers.
    if (high == (low >> 63 != 0 ? ~u64{0} : 0)) return double(i64(low));
    return double(i64(high)) * 18446744073709551616.0 + double(low);
}

// And of 192.
MGI_HD inline double number_of(u64 low, u64 middle, u64 high) {
    if (high == (middle >> 63 != 0 ? ~u64{0} : 0)) return number_of(low, middle);
    double const upper = double(i64(high)) * 18446744073709551616.0 + double(middle);
    return upper * 18446744073709551616.0 + double(low);
}

// An integer, a float or a decimal's digits.
MGI_HD inline double number_of(ColumnView const& view, ValueKind kind, u64 row) {
    if (kind.kind == KeyKind::Float) return load_double(view, kind.width, row);
    if (kind.kind == KeyKind::Bytes) {
        return number_of(load_any_word(view, kind, row), load_upper(view, row));
    }
    u64 const word = load_word(view, kind, row);
    return kind.kind == KeyKind::Unsigned ? double(word) : double(i64(word));
}

// An i64 that orders as the value does; a NaN is greater than every other value, as in DuckDB.
MGI_HD inline i64 ordered_word(ColumnView const& view, ValueKind kind, u64 row) {
    if (kind.kind == KeyKind::Float) {
        double const value = load_double(view, kind.width, row);
        if (value != value) return 0x7fffffffffffffffLL;
        i64 const bits = i64(bits_of(value));
        return bits ^ i64(u64(bits >> 63) >> 1);
    }
    u64 const word = load_word(view, kind, row);
    bool const flip = kind.kind == KeyKind::Unsigned;
    return i64(flip ? word ^ 0x8000000000000000ULL : word);
}
// Back: an integer as it is, a float as the bits of a double.
MGI_HD inline u64 from_ordered(i64 word, KeyKind kind) {
    if (kind == KeyKind::Unsigned) return u64(word) ^ 0x8000000000000000ULL;
    if (kind != KeyKind::Float) return u64(word);
    if (word == 0x7fffffffffffffffLL) return 0x7ff8000000000000ULL;
    return u64(word ^ i64(u64(word >> 63) >> 1));
}

MGI_HD inline void add_double(u64* at, double value) {
#if defined(__CUDA_ARCH__)
    atomicAdd(reinterpret_cast<double*>(at), value);
#else
    auto word = shared_word(at);
    u64 found = word.load(device::relaxed);
    while (!word.compare_exchange_weak(found, bits_of(double_of(found) + value), device::relaxed)) {
    }
#endif
}

// Adds to a sum of 128 bits. The high word is seldom touched: what it gains when the low one runs over a
// negative number loses again.
MGI_HD inline void add_wide(u64* low, u64* high, u64 add_low, u64 add_high) {
    u64 const before = shared_word(low).fetch_add(add_low, device::relaxed);
    u64 const carry = before + add_low < before ? 1 : 0;
    if (add_high + carry != 0) shared_word(high).fetch_add(add_high + carry, device::relaxed);
}

// Adds to a sum of 192 bits, whose words are `step` apart.
MGI_HD inline void add_long(u64* at, u64 step, u64 low, u64 middle, u64 high) {
    u64 const before = shared_word(at).fetch_add(low, device::relaxed);
    u64 const carry = before + low < before ? 1 : 0;
    u64 const more = middle + carry;
    if (more < middle) ++high;
    if (more != 0) {
        u64 const found = shared_word(at + step).fetch_add(more, device::relaxed);
        if (found + more < found) ++high;
    }
    if (high != 0) shared_word(at + 2 * step).fetch_add(high, device::relaxed);
}

MGI_HD inline void raise_to(u64* at, i64 value) {
    auto word = shared_word(reinterpret_cast<i64*>(at));
    if (word.load(device::relaxed) < value) word.fetch_max(value, device::relaxed);
}
MGI_HD inline void lower_to(u64* at, i64 value) {
    auto word = shared_word(reinterpret_cast<i64*>(at));
    if (value < word.load(device::relaxed)) word.fetch_min(value, device::relaxed);
}

// Moments as words that are `step` apart.
MGI_HD inline Moments load_moments(u64 const* at, u64 step) {
    return {at[0], double_of(at[step]), double_of(at[2 * step]), double_of(at[3 * step])};
}
// Adds to a group's moments. The mean of what comes first is their pivot, which then stays: all else are sums.
MGI_HD inline void add_moments(u64* at, u64 step, Moments const& more) {
    if (more.count == 0) return;
    auto pivot = shared_word(at + step);
    u64 found = pivot.load(device::relaxed);
    if (found == kNoPivot) {
        double const mean = more.mean();
        u64 const mine = mean == mean ? bits_of(mean) : 0x7ff8000000000000ULL;  // a NaN
        if (pivot.compare_exchange_strong(found, mine, device::relaxed)) found = mine;
    }
    Moments const same = more.around(double_of(found));
    shared_word(at).fetch_add(same.count, device::relaxed);
    if (same.sum != 0) add_double(at + 2 * step, same.sum);
    if (same.squares != 0) add_double(at + 3 * step, same.squares);
}

// A word of a state that travels in columns of its own.
MGI_HD inline u64 word_of(ColumnView const& view, u64 row) {
    return static_cast<u64 const*>(view.values)[view.offset + row];
}

MGI_HD inline void fold_moments(State const& state, u64* at, u64 step, ColumnView const* views,
                                u64 row) {
    if (state.fold == Fold::Moments) {
        double const value = number_of(views[state.column], state.value, row);
        return add_moments(at, step, {1, value, 0, 0});
    }
    auto const word = [&](u32 w) { return word_of(views[state.column + w], row); };
    add_moments(at, step, {word(0), double_of(word(1)), double_of(word(2)), double_of(word(3))});
}

MGI_HD inline void fold_long_sum(State const& state, u64* at, u64 step, ColumnView const* views,
                                 u64 row) {
    ColumnView const& view = views[state.column];
    if (state.fold == Fold::SumLong) {
        u64 const upper = load_upper(view, row);
        u64 const sign = upper >> 63 != 0 ? ~u64{0} : 0;
        return add_long(at, step, load_any_word(view, state.value, row), upper, sign);
    }
    add_long(at, step, word_of(view, row), word_of(views[state.column + 1], row),
             word_of(views[state.column + 2], row));
}

// Folds a row's value into a state whose words are `step` apart, and which names no row.
template <bool kRare>
MGI_HD inline void fold_value(State const& state, u64* at, u64 step, ColumnView const* views,
                              u64 row) {
    if (state.fold == Fold::CountRows) {
        shared_word(at).fetch_add(u64{1}, device::relaxed);
        return;
    }
    ColumnView const& view = views[state.column];
    if (!is_valid(view, row)) return;
    if constexpr (kRare) {
        if (is_moments(state.fold)) return fold_moments(state, at, step, views, row);
        if (is_long_sum(state.fold)) return fold_long_sum(state, at, step, views, row);
    }
    switch (state.fold) {
        case Fold::CountValid: shared_word(at).fetch_add(u64{1}, device::relaxed); break;
        case Fold::Sum:
            shared_word(at).fetch_add(load_word(view, state.value, row), device::relaxed);
            break;
        case Fold::SumWide: {
            if constexpr (kRare) {
                if (state.value.kind == KeyKind::Bytes) {
                    u64 const value = load_any_word(view, state.value, row);
                    return add_wide(at, at + step, value, load_upper(view, row));
                }
            }
            u64 const value = load_word(view, state.value, row);
            bool const negative = state.value.kind == KeyKind::Signed && value >> 63 != 0;
            add_wide(at, at + step, value, negative ? ~u64{0} : 0);
            break;
        }
        case Fold::SumFloat: add_double(at, load_double(view, state.value.width, row)); break;
        case Fold::Min: lower_to(at, ordered_word(view, state.value, row)); break;
        default: raise_to(at, ordered_word(view, state.value, row));
    }
}

// Folds a state of other rows, which names none, into one; the words of `from` are `step` apart, nobody else touches them.
template <bool kRare>
MGI_HD inline void fold_state(Fold fold, u64* to, u64 const* from, u64 step) {
    if constexpr (kRare) {
        if (is_moments(fold)) return add_moments(to, 1, load_moments(from, step));
        if (is_long_sum(fold)) return add_long(to, 1, from[0], from[step], from[2 * step]);
    }
    u64 const word = *from;
    switch (fold) {
        case Fold::SumWide: add_wide(to, to + 1, word, from[step]); break;
        case Fold::SumFloat:
            if (word != 0) add_double(to, double_of(word));
            break;
        case Fold::Min: lower_to(to, i64(word)); break;
        case Fold::Max: raise_to(to, i64(word)); break;
        default:
            if (word != 0) shared_word(to).fetch_add(word, device::relaxed);
    }
}

}  // namespace mgi::operators::on_gpu
