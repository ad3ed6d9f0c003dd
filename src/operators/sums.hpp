// Sums that do not depend on the order of what is added: of floats nearly, of integers exactly.
#pragma once

#include <atomic>
#include <cmath>

#include "operators/text.hpp"

namespace mgi::operators {

// A sum of doubles and what rounding has taken from it (Neumaier, 1974; the error of each addition by Knuth's TwoSum). It errs
// by 2^-53 of its value, and by n * n * 2^-106 of the sum of absolute values.
struct FloatSum {
    double sum = 0;
    double lost = 0;

    void add(double value) {
        double const before = sum;
        double const next = before + value;
        sum = next;
        // The compiler stores it here, and not together with what is lost, for which the group's next value would have to wait.
        std::atomic_signal_fence(std::memory_order_acq_rel);
        double const added = next - before;
        lost += (before - (next - added)) + (value - added);
    }
    void add(FloatSum const& other) {
        add(other.sum);
        lost += other.lost;
    }
    // An infinite sum has lost NaN.
    [[nodiscard]] double value() const {
        double const all = sum + lost;
        return std::isfinite(all) ? all : sum;
    }
};

// A sum of up to 2^64 integers of 128 bits, in two's complement.
struct LongSum {
    u64 low = 0;
    u64 middle = 0;
    i64 high = 0;

    void add(i128 value) { add({u64(value), u64(value >> 64), value < 0 ? -1 : 0}); }
    void add(LongSum const& other) {
        u128 const first = u128{low} + other.low;
        u128 const second = u128{middle} + other.middle + u64(first >> 64);
        low = u64(first);
        middle = u64(second);
        high = i64(u64(high) + u64(other.high) + u64(second >> 64));
    }
    // Its lower 128 bits, which are the sum if it fits them.
    [[nodiscard]] i128 lower() const { return i128{i64(middle)} << 64 | low; }
    [[nodiscard]] bool fits_lower() const { return high == i64(middle) >> 63; }
    [[nodiscard]] double value() const {
        // Of two parts with different signs the smaller would be lost.
        if (fits_lower()) return double(lower());
        return std::ldexp(double(high), 128) + double(u128{middle} << 64 | low);
    }
};

}  // namespace mgi::operators
