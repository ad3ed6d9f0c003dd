// How two columns of a join's key are compared whose values count in units of other sizes: exactly, at the edges of their types.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <limits>
#include <optional>

#include "core/arrow_format.hpp"
#include "operators/key_pairs.hpp"

namespace mgi::operators {
namespace key_pairs_test {
namespace {

using std::int64_t;
using Long = __int128;
using Widest = std::array<std::uint64_t, 4>;

constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();
constexpr int64_t kMost = std::numeric_limits<int64_t>::max();

Type widest(int precision, int scale) {
    return arrow::type_of_format("d:" + std::to_string(precision) + "," + std::to_string(scale) +
                                 ",256");
}

Long tens(int digits) {
    Long power = 1;
    for (int d = 0; d < digits; ++d) power *= 10;
    return power;
}

// What `value` of type `from` is as one of type `to`, which must be the coarser.
template <class To, class From>
std::optional<To> converted(Type const& from, Type const& to, From value) {
    auto const pair = pair_keys(from, to);
    if (!pair || !pair->left || pair->right) {
        ADD_FAILURE() << from.to_string() << " does not become " << to.to_string();
        return std::nullopt;
    }
    // The same whichever side it is.
    auto const turned = pair_keys(to, from);
    EXPECT_TRUE(turned && turned->right == pair->left && !turned->left);
    EXPECT_EQ(pair->left->from, sizeof(From));
    EXPECT_EQ(pair->left->to, sizeof(To));
    To result;
    char at[sizeof(From)];
    std::memcpy(at, &value, sizeof(value));
    if (!pair->left->convert(at, reinterpret_cast<char*>(&result))) return std::nullopt;
    return result;
}

TEST(KeyPairs, TimesOfOtherUnits) {
    Type const s = timestamp(TimeUnit::Second);
    Type const ns = timestamp(TimeUnit::Nano);
    EXPECT_EQ(converted<int64_t>(ns, s, int64_t{5'000'000'000}), 5);
    EXPECT_EQ(converted<int64_t>(ns, s, int64_t{5'000'000'001}), std::nullopt);
    // Before 1970.
    EXPECT_EQ(converted<int64_t>(ns, s, int64_t{-5'000'000'000}), -5);
    EXPECT_EQ(converted<int64_t>(ns, s, int64_t{-1}), std::nullopt);
    EXPECT_EQ(converted<int64_t>(ns, s, kLeast), std::nullopt);
    EXPECT_EQ(converted<int64_t>(ns, s, kMost), std::nullopt);
    EXPECT_EQ(converted<int64_t>(timestamp(TimeUnit::Milli), s, kLeast + 808), kLeast / 1000);
    // Days: negative ones, too, and those that leave a date32.
    EXPECT_EQ(converted<std::int32_t>(s, date32(), int64_t{-86'400}), -1);
    EXPECT_EQ(converted<std::int32_t>(s, date32(), int64_t{-86'399}), std::nullopt);
    EXPECT_EQ(converted<std::int32_t>(ns, date32(), int64_t{86'400'000'000'000}), 1);
    EXPECT_EQ(converted<std::int32_t>(s, date32(), int64_t{86'400} << 31), std::nullopt);
    EXPECT_EQ(converted<std::int32_t>(s, date32(), -(int64_t{86'400} << 31)),
              std::numeric_limits<std::int32_t>::min());
    EXPECT_EQ(converted<std::int32_t>(date64(), date32(), int64_t{-86'400'000}), -1);
    EXPECT_EQ(converted<int64_t>(date64(), s, int64_t{86'400'000}), 86'400);
    EXPECT_EQ(converted<int64_t>(timestamp(TimeUnit::Nano, "UTC"),
                                 timestamp(TimeUnit::Micro, "Asia/Tokyo"), int64_t{7000}),
              7);
    EXPECT_EQ(
        converted<int64_t>(duration(TimeUnit::Micro), duration(TimeUnit::Milli), int64_t{-3000}),
        -3);
    EXPECT_EQ(converted<std::int32_t>(time_of_day(TimeUnit::Nano), time_of_day(TimeUnit::Second),
                                      int64_t{86'399'000'000'000}),
              86'399);
}

TEST(KeyPairs, DecimalsOfOtherScales) {
    Long const most = tens(38) - 1;
    EXPECT_TRUE(converted<Long>(decimal128(38, 2), decimal128(38, 0), most) == std::nullopt);
    EXPECT_TRUE(converted<Long>(decimal128(38, 2), decimal128(38, 0), most - 99) ==
                (most - 99) / 100);
    EXPECT_TRUE(converted<Long>(decimal128(38, 38), decimal128(38, 1), -tens(37)) == Long{-1});
    EXPECT_TRUE(converted<Long>(decimal128(38, 37), decimal128(38, 0), tens(37) * 7) == Long{7});
    EXPECT_TRUE(converted<Long>(decimal128(38, 20), decimal128(38, -30), Long{0}) == Long{0});
    EXPECT_TRUE(converted<Long>(decimal128(38, 20), decimal128(38, -30), most) == std::nullopt);
    // A remainder in the lower words alone, and in the upper.
    EXPECT_TRUE(converted<Long>(decimal128(38, 9), decimal128(38, 0), tens(37) + 1) ==
                std::nullopt);
    EXPECT_TRUE(converted<Long>(decimal128(38, 30), decimal128(38, 0), tens(29)) == std::nullopt);
}

TEST(KeyPairs, DecimalsAndIntegers) {
    EXPECT_EQ(converted<int64_t>(decimal128(20, 2), int64(), Long{kLeast} * 100), kLeast);
    EXPECT_EQ(converted<int64_t>(decimal128(38, 0), int64(), Long{kLeast} - 1), std::nullopt);
    EXPECT_EQ(converted<std::int8_t>(decimal128(5, 2), int8(), Long{-12'800}), -128);
    EXPECT_EQ(converted<std::int8_t>(decimal128(5, 2), int8(), Long{12'800}), std::nullopt);
    EXPECT_EQ(converted<std::uint8_t>(decimal128(5, 2), uint8(), Long{25'500}), 255);
    EXPECT_EQ(converted<std::uint8_t>(decimal128(5, 2), uint8(), Long{25'600}), std::nullopt);
    EXPECT_EQ(converted<std::uint8_t>(decimal128(5, 2), uint8(), Long{-100}), std::nullopt);
    EXPECT_EQ(converted<std::uint64_t>(decimal128(22, 1), uint64(), Long{~std::uint64_t{0}} * 10),
              ~std::uint64_t{0});
    // What counts in hundreds is coarser than an integer.
    EXPECT_TRUE(converted<Long>(int64(), decimal128(5, -2), int64_t{-700}) == Long{-7});
    EXPECT_TRUE(converted<Long>(int64(), decimal128(5, -2), int64_t{701}) == std::nullopt);
    EXPECT_TRUE(converted<Long>(uint64(), decimal128(30, -1), std::uint64_t{10} << 60) ==
                Long{1} << 60);
}

TEST(KeyPairs, DecimalsOfMoreDigits) {
    Widest const all{~0ULL, ~0ULL, ~0ULL, ~0ULL};  // -1
    EXPECT_TRUE(converted<Long>(widest(60, 2), decimal128(38, 2), all) == Long{-1});
    EXPECT_TRUE(converted<Long>(widest(60, 2), decimal128(38, 2), Widest{0, 0, 1, 0}) ==
                std::nullopt);
    EXPECT_EQ(converted<int64_t>(widest(60, 0), int64(), all), -1);
    // 10^19 * 2^128 has a divisor of 2^128.
    Widest const large{0, 0, 10'000'000'000'000'000'000ULL, 0};
    EXPECT_EQ(converted<Widest>(widest(76, 19), widest(76, 0), large), (Widest{0, 0, 1, 0}));
    EXPECT_EQ(converted<Widest>(widest(76, 20), widest(76, 0), large), std::nullopt);
    EXPECT_EQ(converted<Widest>(decimal128(38, 2), widest(60, 0), Long{-300}),
              (Widest{~2ULL, ~0ULL, ~0ULL, ~0ULL}));
}

TEST(KeyPairs, NothingIsConvertedThatCountsAlike) {
    for (auto const& [a, b] :
         {std::pair{int8(), uint64()},
          {float32(), float64()},
          {decimal128(5, 2), decimal128(38, 2)},
          {widest(50, 2), widest(76, 2)},
          {timestamp(TimeUnit::Milli), date64()},
          {timestamp(TimeUnit::Nano, "UTC"), timestamp(TimeUnit::Nano, "Asia/Tokyo")},
          {string(), string()}}) {
        auto const pair = pair_keys(a, b);
        ASSERT_TRUE(pair) << a.to_string() << " " << b.to_string();
        EXPECT_FALSE(pair->left || pair->right) << a.to_string() << " " << b.to_string();
    }
}

TEST(KeyPairs, OthersAreNeverEqual) {
    Type const at = timestamp(TimeUnit::Second);
    for (auto const& [a, b] : {std::pair{at, int64()},
                               {at, timestamp(TimeUnit::Second, "UTC")},
                               {date32(), timestamp(TimeUnit::Second, "UTC")},
                               {date32(), int32()},
                               {at, duration(TimeUnit::Second)},
                               {at, time_of_day(TimeUnit::Micro)},
                               {decimal128(5, 2), float64()},
                               {int64(), float64()},
                               {int64(), boolean()},
                               {widest(50, 2), fixed_size_binary(32)},
                               {string(), binary()}}) {
        EXPECT_FALSE(pair_keys(a, b)) << a.to_string() << " " << b.to_string();
        EXPECT_FALSE(pair_keys(b, a)) << a.to_string() << " " << b.to_string();
    }
}

}  // namespace
}  // namespace key_pairs_test
}  // namespace mgi::operators
