// Sums that a variance is made of: how exact they are, whatever the values, their order, and how groups meet.
#include <gtest/gtest.h>

#include <cmath>

#include "operators/moments.hpp"

namespace mgi::operators {
namespace {

TEST(Moments, ShiftWithoutLoss) {
    Moments one;
    Moments other;
    Moments all;
    for (int i = 0; i < 1000; ++i) {
        double const value = 1e9 + i % 7;
        (i % 3 == 0 ? one : other).add(value);
        all.add(value);
    }
    double const variance = all.variance();
    other.add(one);
    EXPECT_EQ(other.count, 1000U);
    EXPECT_NEAR(other.variance(), variance, 1e-12);
    EXPECT_NEAR(other.around(1e9 + 3).variance(), variance, 1e-12);
    Moments none;
    none.add(all);
    EXPECT_EQ(none.variance(), variance);
    none.add(Moments());
    EXPECT_EQ(none.variance(), variance);
}

// The first value is far from all the others.
TEST(Moments, StandAPivotThatIsAnOutlier) {
    Moments moments;
    moments.add(-1e9);
    constexpr int kOthers = 100'000;
    for (int i = 0; i < kOthers; ++i) moments.add(i % 2);
    // Of the others, whose mean is 1/2, and the outlier, which lies so far from that.
    long double const n = kOthers;
    long double const far = 1e9L + 0.5L;
    long double const expected = (n / 4 + far * far * n / (n + 1)) / n;
    EXPECT_NEAR(moments.variance(), static_cast<double>(expected),
                1e-10 * static_cast<double>(expected));
}

// Groups of very different sizes meet, the outlier's last or first.
TEST(Moments, MeetAnOutlier) {
    Moments outlier;
    outlier.add(-1e9);
    Moments many;
    constexpr int kOthers = 100'000;
    for (int i = 0; i < kOthers; ++i) many.add(i % 2);
    Moments first = outlier;
    first.add(many);
    many.add(outlier);
    long double const n = kOthers;
    long double const far = 1e9L + 0.5L;
    long double const expected = (n / 4 + far * far * n / (n + 1)) / n;
    EXPECT_NEAR(many.variance() / double(expected), 1, 1e-12);
    EXPECT_NEAR(first.variance() / double(expected), 1, 1e-12);
}

TEST(Moments, AreNoneOfValuesThatAreNotFinite) {
    for (double const value : {double(NAN), double(INFINITY)}) {
        for (int place = 0; place < 40; place += 13) {
            Moments moments;
            for (int i = 0; i < 40; ++i) moments.add(i == place ? value : 1.0);
            EXPECT_TRUE(std::isnan(moments.variance())) << value << " at " << place;
        }
    }
    Moments same;
    for (int i = 0; i < 40; ++i) same.add(0.1);
    EXPECT_EQ(same.variance(), 0);
}

}  // namespace
}  // namespace mgi::operators
