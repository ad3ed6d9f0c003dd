// Operators of GPUs over texts and long decimals.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "operators/gpu_operators_bed.hpp"
#include "support/expect_error.hpp"

namespace mgi::operators::on_gpu {
namespace {

class GpuTypes : public GpuOperators {};

using Long = __int128;

Long power_of_ten(int digits) {
    Long power = 1;
    for (int digit = 0; digit < digits; ++digit) power *= 10;
    return power;
}

class GpuDecimals : public GpuTypes {
protected:
    // A result by key, of which there are so many, in turn; nulls are left out.
    std::map<i64, Long> of(std::vector<Long> const& values, Aggregate const& wanted,
                           std::size_t groups = 3, bool last_is_null = false) {
        std::vector<i64> keys;
        std::vector<std::uint8_t> valid(values.size() / 8 + 1, 0xff);
        for (std::size_t i = 0; i < values.size(); ++i) {
            keys.push_back(i64(i % groups));
            if (last_is_null && i % groups == groups - 1)
                valid[i / 8] &= std::uint8_t(~(1u << (i % 8)));
        }
        std::size_t const parts_with_rows = endpoint_count() == 1 ? 1 : 2;
        std::vector<GpuTable> parts(endpoint_count());
        for (std::size_t p = 0; p < parts_with_rows; ++p) {
            std::size_t const first = values.size() * p / parts_with_rows;
            GpuTable& part = parts[p];
            part.schema = Schema{{"key", int64()}, {"x", decimal128(38, 2), last_is_null}};
            part.rows = i64(values.size() * (p + 1) / parts_with_rows - first);
            part.columns = {{keys.data() + first}, {values.data() + first}};
            if (last_is_null) {
                part.columns[1] = {values.data(), valid.data(), i64(first)};
            }
            part.gpu = -1;
        }
        auto const operation = this->operation("group_by");
        std::map<i64, Long> found;
        for (GpuTable const& result : group_by_on(*operation, parts, {"key"}, {wanted})) {
            auto const* const key = static_cast<i64 const*>(result.columns[0].values);
            auto const* const value = static_cast<Long const*>(result.columns[1].values);
            RecordBatch const batch = batch_of_result(result);
            for (i64 row = 0; row < result.rows; ++row) {
                if (batch.is_valid(1, row)) found[key[row]] = value[row];
            }
            EXPECT_EQ(result.schema[1].type, decimal128(38, 2));
        }
        return found;
    }
};

TEST_P(GpuDecimals, SumsOfMoreThanAWord) {
    Long const power = power_of_ten(30);
    std::vector<Long> values;
    std::map<i64, Long> expected;
    for (int i = 0; i < 1000; ++i) {
        values.push_back((i * i % 777 - 300) * power + i);
        expected[i % 3] += values.back();
    }
    EXPECT_TRUE(of(values, {F::Sum, "x", "sum"}) == expected);
    // Of more than 38 digits, in two words and in three.
    for (auto const& [rows, value] : {std::pair{3, 55'000'000}, {100, 40'000'000}}) {
        test::expect_error(
            ErrorCode::InvalidArgument, {"a sum of column 'x' does not fit 38 digits"}, [&] {
                of(std::vector<Long>(std::size_t(rows), value * power), {F::Sum, "x", "sum"}, 1);
            });
    }
}

// Sums of some rows need more than 128 bits, those of a group do not.
TEST_P(GpuDecimals, SumsDoNotDependOnTheOrder) {
    Long const most = power_of_ten(38) - 1;
    std::vector<Long> values;
    std::map<i64, Long> expected;
    for (int i = 0; i < 600; ++i) {
        values.push_back((i < 300 ? most : -most) + i % 7);
        expected[i % 3] += i % 7;
    }
    EXPECT_TRUE(of(values, {F::Sum, "x", "sum"}) == expected);
    std::reverse(values.begin(), values.end());
    expected.erase(2);
    expected[0] = expected[1] = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
        if (i % 3 != 2) expected[i64(i % 3)] += values[i];
    }
    EXPECT_TRUE(of(values, {F::Sum, "x", "sum"}, 3, true) == expected);
}

// From just longer than a word to as long as can be; some differ in their lower words alone.
TEST_P(GpuDecimals, ExtremesOfMoreThanAWord) {
    for (int const digits : {3, 15, 19, 24, 30, 37}) {
        for (int const rows : {2400, 12}) {
            SCOPED_TRACE(std::to_string(digits) + " digits, " + std::to_string(rows) + " rows");
            std::vector<Long> values;
            std::map<i64, Long> least;
            std::map<i64, Long> most;
            for (int i = 0; i < rows; ++i) {
                int const some = int(device::murmur3_mix(u64(i)) % 19) - 9;
                values.push_back(some * power_of_ten(digits) + i * 7919 % 1009 - 500);
                auto const before = least.find(i % 3);
                bool const first = before == least.end();
                if (first || values.back() < before->second) least[i % 3] = values.back();
                if (first || values.back() > most[i % 3]) most[i % 3] = values.back();
            }
            EXPECT_TRUE(of(values, {F::Min, "x", "min"}) == least);
            EXPECT_TRUE(of(values, {F::First, "x", "any"}) == least);
            EXPECT_TRUE(of(values, {F::Max, "x", "max"}) == most);
            most.erase(2);
            EXPECT_TRUE(of(values, {F::Max, "x", "max"}, 3, true) == most);
        }
    }
}

// More than a segment holds that knows of none.
TEST_P(GpuTypes, SendsLongTextsThroughAChannel) {
    Schema const schema{{"key", int32()}, {"long", string(), true}};
    options_.by_reference = false;
    std::vector<GpuTable> parts(endpoint_count());
    std::string const text(300'000, 'y');
    std::vector<std::int32_t> const keys{1, 2, 3};
    std::vector<std::int32_t> const offsets{0, 5, 300'000, 300'000};
    parts[0].schema = schema;
    parts[0].rows = 3;
    parts[0].gpu = -1;
    parts[0].columns = {{keys.data()},
                        {offsets.data(), nullptr, 0, Encoding::Offsets32,
                         reinterpret_cast<std::byte const*>(text.data())}};
    auto const operation = this->operation("exchange");
    std::map<std::int32_t, std::size_t> sizes;
    for (GpuTable const& result : exchange_on(*operation, parts, {"key"})) {
        RecordBatch const batch = batch_of_result(result);
        for (i64 row = 0; row < batch.rows; ++row) {
            sizes[batch.values<std::int32_t>(0)[row]] = batch.string_at(1, row).size();
        }
    }
    EXPECT_EQ(sizes, (std::map<std::int32_t, std::size_t>{{1, 5}, {2, 299'995}, {3, 0}}));
}

TEST_P(GpuTypes, CountsDifferentValuesBesideLongKeys) {
    Schema const schema{{"s", string(), true},
                        {"d", decimal128(20, 2)},
                        {"k", int32(), true},
                        {"x", int64(), true},
                        {"b", fixed_size_binary(20)}};
    PlainTable const table = random_table(schema, 3000, 9, 31);
    std::vector<Aggregate> const wanted{{F::CountDistinct, "k", "of a key"},
                                        {F::CountDistinct, "x", "xs"},
                                        {F::CountDistinct, "b", "bs"}};
    expect_groups(table, {"s", "k"}, wanted);
    expect_groups(table, {"d", "k"}, wanted);
    expect_groups(table, {"b", "s", "k"}, {{F::CountDistinct, "k", "of a key"}});
}

// Half seconds against seconds, and hundredths against integers.
TEST_P(GpuTypes, JoinsKeysOfOtherUnits) {
    constexpr i64 kRows = 600;
    std::vector<i64> ticks;
    std::vector<Long> cents;
    std::vector<i64> numbers;
    std::vector<i64> seconds;
    std::vector<std::int32_t> ones;
    std::set<std::pair<i64, i64>> expected;
    for (i64 i = 0; i < kRows; ++i) {
        ticks.push_back(500'000'000 * (i - 200));
        cents.push_back(100 * (i % 7) + (i % 11 == 0 ? 1 : 0));
        numbers.push_back(i);
        seconds.push_back(i / 2 - 150);
        ones.push_back(std::int32_t(i % 5));
    }
    for (i64 i = 0; i < kRows; ++i) {
        for (i64 j = 0; j < kRows; ++j) {
            bool const same = ticks[std::size_t(i)] == 1'000'000'000 * seconds[std::size_t(j)] &&
                              cents[std::size_t(i)] == 100 * ones[std::size_t(j)];
            if (same) expected.emplace(i, j);
        }
    }
    ASSERT_GT(expected.size(), 20u);
    auto const parts_of = [&](Schema const& schema, std::vector<void const*> const& columns) {
        GpuTable whole{schema, kRows, {}, -1, nullptr};
        for (void const* column : columns) whole.columns.push_back({column});
        std::vector<GpuTable> parts(endpoint_count());
        parts[0] = whole.slice(0, endpoint_count() == 1 ? kRows : 150);
        if (endpoint_count() > 1) parts[1] = whole.slice(150, kRows - 150);
        return parts;
    };
    auto const left =
        parts_of(Schema{{"t", timestamp(TimeUnit::Nano)}, {"d", decimal128(20, 2)}, {"i", int64()}},
                 {ticks.data(), cents.data(), numbers.data()});
    auto const right =
        parts_of(Schema{{"t", timestamp(TimeUnit::Second)}, {"n", int32()}, {"j", int64()}},
                 {seconds.data(), ones.data(), numbers.data()});
    for (JoinKind const kind : {JoinKind::Inner, JoinKind::Anti}) {
        bool const pairs = kind == JoinKind::Inner;
        for (Broadcast const broadcast : test::broadcasts_of(kind, endpoint_count())) {
            SCOPED_TRACE(std::string(name_of(kind)) + " " + name_of(broadcast));
            JoinSpec const spec{{"t", "d"}, {"t", "n"}, {"t", "i"}, {}, kind, broadcast};
            auto const operation = this->operation("join");
            std::set<std::pair<i64, i64>> found;
            for (GpuTable const& result : join_on(*operation, left, right, spec)) {
                ASSERT_EQ(result.schema.size(), pairs ? 4u : 2u);
                EXPECT_EQ(result.schema[0].type, timestamp(TimeUnit::Nano));
                auto const column = [&](std::size_t c) {
                    return static_cast<i64 const*>(result.columns[c].values);
                };
                for (i64 row = 0; row < result.rows; ++row) {
                    i64 const i = column(1)[row];
                    EXPECT_EQ(column(0)[row], ticks[std::size_t(i)]);
                    EXPECT_TRUE(found.emplace(i, pairs ? column(3)[row] : 0).second);
                }
            }
            if (pairs) {
                EXPECT_EQ(found, expected);
                continue;
            }
            EXPECT_EQ(found.size(), std::size_t(kRows) - expected.size());
            for (auto const& [i, j] : expected) EXPECT_EQ(found.count({i, 0}), 0u) << j;
        }
    }
}

TEST_P(GpuTypes, GroupsAndJoinsByTexts) {
    Schema const schema{{"s", string(), true},
                        {"n", int16(), true},
                        {"t", binary()},
                        {"x", int32(), true},
                        {"y", string(), true}};
    for (u64 const values : {5u, 400u}) {
        PlainTable const left = random_table(schema, 2000, values, 21);
        PlainTable right = random_table(schema, 700, values, 22);
        right.schema = Schema{{"s2", string(), true},
                              {"n2", int64(), true},
                              {"t2", binary()},
                              {"x2", int32(), true},
                              {"y2", string(), true}};
        expect_groups(left, {"s"}, every_aggregate("x"));
        expect_groups(left, {"s", "n"}, {{F::Count, "y", "n2"}, {F::Max, "x", "max"}});
        expect_groups(left, {"t", "s"}, {{F::Count, "", "rows"}});
        expect_joined(left, right, {{"t", "n"}, {"t2", "n2"}, {"s", "x", "y"}, {"y2", "t2"}});
        if (values == 400) expect_joined(left, right, {{"s"}, {"s2"}, {"y", "s"}, {"s2"}});
    }
}

std::string name_of_shape(::testing::TestParamInfo<std::tuple<u32, u32>> const& of) {
    return std::to_string(std::get<0>(of.param)) + "Endpoints" +
           std::to_string(std::get<1>(of.param)) + "Threads";
}

INSTANTIATE_TEST_SUITE_P(EndpointsAndThreads, GpuTypes,
                         ::testing::Values(std::tuple{1u, 1u}, std::tuple{1u, 2u},
                                           std::tuple{3u, 1u}, std::tuple{3u, 2u}),
                         name_of_shape);
INSTANTIATE_TEST_SUITE_P(EndpointsAndThreads, GpuDecimals,
                         ::testing::Values(std::tuple{1u, 1u}, std::tuple{1u, 2u},
                                           std::tuple{3u, 1u}, std::tuple{3u, 2u}),
                         name_of_shape);

}  // namespace
}  // namespace mgi::operators::on_gpu
