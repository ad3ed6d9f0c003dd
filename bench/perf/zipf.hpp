/// \file
/// Numbers by Zipf's law, for skewed keys.
#pragma once

#include <cstdint>
#include <random>

namespace mgi::perf {

/// Draws ranks 1..n with probability proportional to rank^-theta, exactly and in constant time
/// whatever n: rejection-inversion (W. Hoermann, G. Derflinger, "Rejection-inversion to generate
/// variates from monotone discrete distributions", 1996).
class Zipf {
public:
    /// n >= 1, theta > 0.
    Zipf(std::uint64_t n, double theta);

    std::uint64_t operator()(std::mt19937_64& random) const;

private:
    /// Integral of x^-theta, and its inverse.
    [[nodiscard]] double area(double x) const;
    [[nodiscard]] double area_inverse(double y) const;

    double n_;
    double theta_;
    double low_;      ///< area under the first bar's start
    double high_;     ///< area at the end of the last bar
    double squeeze_;  ///< draws closer than this to their rank need no test
};

}  // namespace mgi::perf
