// Sums whose partial ones are larger than they are, in every order, and as groups meet.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "operators/sums.hpp"

namespace mgi::operators {
namespace sums_test {
namespace {

constexpr i128 kMost128 = static_cast<i128>(~u128{0} >> 1);
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Of each order, and of each way to cut it in two.
template <class Sum, class Value, std::size_t kCount, class Check>
void in_all_orders(std::array<Value, kCount> values, Check const& check) {
    std::sort(values.begin(), values.end());
    do {
        for (std::size_t cut = 0; cut <= kCount; ++cut) {
            Sum first;
            Sum second;
            for (std::size_t i = 0; i < kCount; ++i) (i < cut ? first : second).add(values[i]);
            first.add(second);
            check(first);
        }
    } while (std::next_permutation(values.begin(), values.end()));
}

TEST(FloatSums, DoNotDependOnTheOrder) {
    in_all_orders<FloatSum>(std::array{1e16, 1.0, -1e16},
                            [](FloatSum const& sum) { EXPECT_EQ(sum.value(), 1.0); });
    in_all_orders<FloatSum>(std::array{1e100, 3.0, -1e100, 0.25, 1e15},
                            [](FloatSum const& sum) { EXPECT_EQ(sum.value(), 1e15 + 3.25); });
}

TEST(FloatSums, KeepInfinities) {
    in_all_orders<FloatSum>(std::array{kInfinity, 1.0, 1e300},
                            [](FloatSum const& sum) { EXPECT_EQ(sum.value(), kInfinity); });
    in_all_orders<FloatSum>(std::array{-kInfinity, -kInfinity, 1.0},
                            [](FloatSum const& sum) { EXPECT_EQ(sum.value(), -kInfinity); });
    in_all_orders<FloatSum>(std::array{-kInfinity, 2.0, kInfinity},
                            [](FloatSum const& sum) { EXPECT_TRUE(std::isnan(sum.value())); });
    FloatSum nan;
    nan.add(std::nan(""));
    nan.add(1.0);
    EXPECT_TRUE(std::isnan(nan.value()));
    FloatSum most;
    most.add(std::numeric_limits<double>::max());
    most.add(-std::numeric_limits<double>::max());
    most.add(1.5);
    EXPECT_EQ(most.value(), 1.5);
}

TEST(LongSums, HoldWhatLeaves128Bits) {
    in_all_orders<LongSum>(std::array<i128, 4>{kMost128, kMost128, -kMost128, 5},
                           [](LongSum const& sum) {
                               EXPECT_FALSE(sum.fits_lower());
                               EXPECT_NEAR(sum.value() / std::ldexp(1.0, 127), 1, 1e-15);
                           });
    in_all_orders<LongSum>(std::array<i128, 5>{kMost128, kMost128, -kMost128, -kMost128, -7},
                           [](LongSum const& sum) {
                               EXPECT_TRUE(sum.fits_lower());
                               EXPECT_TRUE(sum.lower() == -7);
                               EXPECT_EQ(sum.value(), -7.0);
                           });
    LongSum least;
    for (int i = 0; i < 4; ++i) least.add(-kMost128 - 1);
    EXPECT_FALSE(least.fits_lower());
    EXPECT_EQ(least.value(), -std::ldexp(1.0, 129));
}

}  // namespace
}  // namespace sums_test
}  // namespace mgi::operators
