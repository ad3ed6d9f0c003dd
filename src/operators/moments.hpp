// Sums that a variance is made of, on CPU devices and on GPUs. One source for g++ and nvcc.
#pragma once

#include <cmath>
#include <limits>

#include <mgi/device/config.hpp>

namespace mgi::operators {

// Of differences from a pivot, which lies among the values: so what is far from 0 loses no digits, as a sum of squares
// would. The variance errs by 2^-53 about 1 + d * d / variance times, and by what sums err, d being how far the pivot is
// from the mean.
struct Moments {
    static constexpr device::u64 kFew = 16;

    device::u64 count = 0;
    double pivot = 0;
    double sum = 0;
    double squares = 0;

    [[nodiscard]] MGI_HD double mean() const { return pivot + sum / double(count); }
    // The same sums around another pivot (Chan, Golub and LeVeque, 1979).
    [[nodiscard]] MGI_HD Moments around(double other) const {
        double const shift = pivot - other;
        auto const values = double(count);
        return {count, other, sum + values * shift, squares + shift * (2 * sum + values * shift)};
    }
    // Whenever there are twice as many values the pivot becomes their mean. So d * d is at most the variance in the end,
    // even if the first value is far from all others.
    MGI_HD void add(double value) {
        if (count == 0) pivot = value;
        double const difference = value - pivot;
        ++count;
        sum += difference;
        squares += difference * difference;
        if (count >= kFew && (count & (count - 1)) == 0) *this = around(mean());
    }
    MGI_HD void add(Moments const& other) {
        if (other.count == 0) return;
        Moments const few = count < other.count ? *this : other;
        Moments const many = count < other.count ? other : *this;
        Moments const same = few.count == 0 ? few : few.around(many.pivot);
        *this = {many.count + same.count, many.pivot, many.sum + same.sum,
                 many.squares + same.squares};
        *this = around(mean());
    }
    // Of a sample, two values or more. Not finite values, and squares past float64, make it NaN.
    [[nodiscard]] MGI_HD double variance() const {
        auto const values = double(count);
        double const found = (squares - sum * sum / values) / (values - 1);
        if (found < 0) return 0;  // rounding, where all values are nearly the same
        return found <= std::numeric_limits<double>::max()
                   ? found
                   : std::numeric_limits<double>::quiet_NaN();
    }
};

}  // namespace mgi::operators
