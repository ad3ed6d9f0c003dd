// Operators of GPUs over texts and long decimals.
#include <gtest/gtest.h>

#include "operators/gpu_operators_bed.hpp"
#include "support/expect_error.hpp"

namespace mgi::operators::on_gpu {
namespace {

class GpuTypes : public GpuOperators {};

TEST_P(GpuTypes, SumsDecimalsOfMoreThanAWord) {
    using Long = __int128;
    Long power = 1;
    for (int digit = 0; digit < 30; ++digit) power *= 10;
    auto const sums_of = [&](std::vector<Long> const& values,
                             std::vector<Aggregate> const& wanted) {
        auto const memory = std::make_shared<std::vector<Long>>(values);
        std::vector<std::int64_t> keys;
        for (std::size_t i = 0; i < values.size(); ++i) keys.push_back(i64(i % 2));
        GpuTable table;
        table.schema = Schema{{"key", int64()}, {"x", decimal128(38, 2)}};
        table.rows = i64(values.size());
        table.columns = {{keys.data()}, {memory->data()}};
        table.gpu = -1;
        std::vector<GpuTable> parts(endpoint_count());
        parts[0] = table;
        auto const operation = this->operation("group_by");
        std::map<i64, Long> sums;
        for (GpuTable const& result : group_by_on(*operation, parts, {"key"}, wanted)) {
            auto const* const key = static_cast<i64 const*>(result.columns[0].values);
            auto const* const sum = static_cast<Long const*>(result.columns[1].values);
            for (i64 row = 0; row < result.rows; ++row) sums[key[row]] = sum[row];
            EXPECT_EQ(result.schema[1].type, decimal128(38, 2));
        }
        return sums;
    };
    std::vector<Long> values;
    std::map<i64, Long> expected;
    for (int i = 0; i < 1000; ++i) {
        values.push_back((i * i % 777 - 300) * power + i);
        expected[i % 2] += values.back();
    }
    EXPECT_TRUE(sums_of(values, {{F::Sum, "x", "sum"}}) == expected);
    test::expect_error(ErrorCode::InvalidArgument, {"min of column 'x'", "64 bits"},
                       [&] { sums_of(values, {{F::Min, "x", "min"}}); });
    // Of more than 38 digits: what fits two words is found out, what might not is refused before.
    test::expect_error(
        ErrorCode::InvalidArgument, {"a sum of column 'x' does not fit 38 digits"},
        [&] { sums_of(std::vector<Long>(3, 55'000'000 * power), {{F::Sum, "x", "sum"}}); });
    test::expect_error(ErrorCode::InvalidArgument, {"'x' might not fit 38 digits"}, [&] {
        sums_of(std::vector<Long>(100, 40'000'000 * power), {{F::Sum, "x", "sum"}});
    });
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

INSTANTIATE_TEST_SUITE_P(EndpointsAndThreads, GpuTypes,
                         ::testing::Values(std::tuple{1u, 1u}, std::tuple{1u, 2u},
                                           std::tuple{3u, 1u}, std::tuple{3u, 2u}),
                         [](auto const& of) {
                             return std::to_string(std::get<0>(of.param)) + "Endpoints" +
                                    std::to_string(std::get<1>(of.param)) + "Threads";
                         });

}  // namespace
}  // namespace mgi::operators::on_gpu
