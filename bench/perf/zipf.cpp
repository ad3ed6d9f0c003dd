#include "perf/zipf.hpp"

#include <algorithm>
#include <cmath>

namespace mgi::perf {

Zipf::Zipf(std::uint64_t n, double theta) : n_(double(n)), theta_(theta) {
    low_ = area(1.5) - 1;
    high_ = area(n_ + 0.5);
    squeeze_ = 2 - area_inverse(area(2.5) - std::pow(2.0, -theta_));
}

double Zipf::area(double x) const {
    double const log_x = std::log(x);
    double const t = (1 - theta_) * log_x;
    // (x^(1 - theta) - 1) / (1 - theta), which tends to log(x) as theta does to 1.
    return std::abs(t) < 1e-8 ? log_x * (1 + t / 2) : std::expm1(t) / (1 - theta_);
}

double Zipf::area_inverse(double y) const {
    double const t = std::max(y * (1 - theta_), -1.0);
    return std::abs(t) < 1e-8 ? std::exp(y * (1 - t / 2)) : std::exp(y * (std::log1p(t) / t));
}

std::uint64_t Zipf::operator()(std::mt19937_64& random) const {
    std::uniform_real_distribution<double> uniform(0, 1);
    for (;;) {
        double const y = high_ + uniform(random) * (low_ - high_);
        double const x = area_inverse(y);
        double const rank = std::clamp(std::floor(x + 0.5), 1.0, n_);
        if (rank - x <= squeeze_ || y >= area(rank + 0.5) - std::pow(rank, -theta_)) {
            return std::uint64_t(rank);
        }
    }
}

}  // namespace mgi::perf
