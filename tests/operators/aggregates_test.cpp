/// \file
/// Variances, different values, any values and extremes of a group-by on CPU devices, where it matters: nulls, NaN,
/// values far from 0, skew, groups of one row. What random queries have of them is in group_by_test.cpp.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <map>

#include "operators/reference.hpp"
#include "support/expect_error.hpp"

namespace mgi::test {
namespace {

using F = AggregateFunction;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Endpoints, groups of each, and whether memory is shared.
struct Place {
    std::size_t endpoints = 1;
    std::uint32_t groups = 1;
    bool by_reference = true;
};

class Aggregates : public ::testing::TestWithParam<Place> {
protected:
    std::vector<Row> group(Schema const& schema, std::vector<Row> const& rows,
                           std::vector<std::string> const& keys,
                           std::vector<Aggregate> const& aggregates) {
        Random random(5);
        Cluster cluster(GetParam().endpoints);
        OperatorOptions options;
        options.groups = GetParam().groups;
        options.by_reference = GetParam().by_reference;
        auto const result = group_by(cluster.runtime, cluster.endpoints,
                                     deal(schema, rows, cluster.endpoints.size(), random), keys,
                                     aggregates, options, &report);
        result_schema = result[0].schema;
        return rows_of(result);
    }
    void expect_as_plain(Schema const& schema, std::vector<Row> const& rows,
                         std::vector<std::string> const& keys,
                         std::vector<Aggregate> const& aggregates) {
        auto const got = group(schema, rows, keys, aggregates);
        EXPECT_TRUE(same_groups(result_schema, got,
                                reference_group_by(schema, rows, keys, aggregates), keys.size()));
    }

    Schema result_schema;
    OperatorReport report;
};

INSTANTIATE_TEST_SUITE_P(Places, Aggregates,
                         ::testing::Values(Place{1, 1, true}, Place{1, 3, true}, Place{3, 2, true},
                                           Place{2, 2, false}),
                         [](auto const& of) {
                             return std::to_string(of.param.endpoints) + "Endpoints" +
                                    std::to_string(of.param.groups) + "Groups" +
                                    (of.param.by_reference ? "" : "Copied");
                         });

double double_in(Row const& row, std::size_t column) {
    double value = 0;
    std::memcpy(&value, row[column]->data(), sizeof(value));
    return value;
}

/// A key that half of the rows have among `keys` others.
std::int64_t skewed(std::size_t i, std::int64_t keys) {
    return i % 2 == 0 ? -1 : static_cast<std::int64_t>(i) % keys;
}

TEST_P(Aggregates, VariancesFarFromZero) {
    Random random(6);
    Schema const schema{
        {"key", int64()}, {"x", float64()}, {"n", int64()}, {"d", decimal128(30, 3)}};
    std::vector<Row> rows;
    for (std::size_t i = 0; i < 20'000; ++i) {
        auto const step = static_cast<std::int64_t>(random.below(4096));
        // Multiples of 2^-10, which float64 has beside 1e9.
        rows.push_back({cell(skewed(i, 700)), cell(1e9 + static_cast<double>(step) / 1024),
                        cell(1'000'000'000'000 + step),
                        cell(static_cast<__int128>(1'000'000'000'000) + step)});
    }
    std::vector<Aggregate> const wanted{{F::Variance, "x", "x"},
                                        {F::StdDev, "n", "n"},
                                        {F::Variance, "d", "d"},
                                        {F::StdDev, "x", "deviation"}};
    auto const expected = reference_group_by(schema, rows, {"key"}, wanted);
    std::map<std::string, Row> by_key;
    for (Row const& row : expected) by_key[*row[0]] = row;
    auto const got = group(schema, rows, {"key"}, wanted);
    ASSERT_EQ(got.size(), expected.size());
    for (Row const& row : got) {
        for (std::size_t c = 1; c < 5; ++c) {
            double const right = double_in(by_key.at(*row[0]), c);
            EXPECT_NEAR(double_in(row, c), right, 1e-11 * right);
        }
    }
}

TEST_P(Aggregates, VariancesOfOddGroups) {
    Schema const schema{{"key", int64()}, {"x", float64(), true}};
    auto const row = [](std::int64_t key, Cell const& value) { return Row{cell(key), value}; };
    std::vector<Row> const rows{
        row(1, cell(5.0)),                               // one value
        row(2, std::nullopt),     row(2, std::nullopt),  // none
        row(3, cell(5.0)),        row(3, std::nullopt),  // one value and a null
        row(4, cell(1e9)),        row(4, cell(1e9)),       row(4, cell(1e9)),  // all the same
        row(5, cell(1.0)),        row(5, cell(kNan)),      row(5, cell(2.0)),
        row(6, cell(1.0)),        row(6, cell(kInfinity)), row(6, cell(2.0)),
        row(7, cell(1e300)),      row(7, cell(-1e300)),  // leaves float64
        row(8, cell(kNan)),                              // one value as well
        row(9, cell(-kInfinity)), row(9, cell(kInfinity))};
    std::vector<Aggregate> const wanted{{F::Variance, "x", "var"}, {F::StdDev, "x", "std"}};
    expect_as_plain(schema, rows, {"key"}, wanted);
    for (Row const& got : group(schema, rows, {"key"}, wanted)) {
        std::int64_t key = 0;
        std::memcpy(&key, got[0]->data(), sizeof(key));
        EXPECT_EQ(got[1].has_value(), (key >= 4 && key != 8)) << key;
        if (key == 4) {
            EXPECT_EQ(double_in(got, 1), 0.0);
        }
        if (key > 4 && key != 8) {
            EXPECT_TRUE(std::isnan(double_in(got, 1))) << key;
        }
    }
}

TEST_P(Aggregates, DifferentValuesOfEachType) {
    Random random(8);
    for (Type const& type :
         {boolean(), int8(), uint64(), float32(), float64(), date32(), decimal128(12, 2),
          decimal128(38, 4), string(), binary(), fixed_size_binary(3), fixed_size_binary(20)}) {
        for (bool const nullable : {false, true}) {
            SCOPED_TRACE(type.to_string() + (nullable ? "?" : ""));
            Schema const schema{{"key", string(), nullable}, {"x", type, nullable}};
            CellPool const keys(schema[0], 30, random);
            CellPool const values(schema[1], 40, random);
            std::vector<Row> rows;
            for (std::size_t i = 0; i < 2000; ++i) {
                bool const hot = i % 2 == 0;
                rows.push_back({hot ? Cell("hot") : keys.pick(random), values.pick(random)});
            }
            expect_as_plain(schema, rows, {"key"},
                            {{F::CountDistinct, "x", "values"},
                             {F::First, "x", "any"},
                             {F::Min, "x", "least"},
                             {F::Max, "x", "most"}});
            expect_as_plain(schema, rows, {"key"}, {{F::CountDistinct, "x", "values"}});
        }
    }
}

TEST_P(Aggregates, NansAreOneValueAndSoAreZeros) {
    double const other_nan = std::copysign(std::nan("7"), -1.0);
    Schema const schema{{"key", int64()}, {"x", float64(), true}};
    std::vector<Row> rows;
    for (double const value : {kNan, other_nan, 0.0, -0.0, 1.0, kInfinity, -kInfinity}) {
        for (std::int64_t const key : {1, 2}) rows.push_back({cell(key), cell(value)});
    }
    rows.push_back({cell(std::int64_t{3}), std::nullopt});
    auto const got = group(schema, rows, {"key"}, {{F::CountDistinct, "x", "n"}});
    ASSERT_EQ(got.size(), 3U);
    for (Row const& row : got) {
        bool const none = row[0] == cell(std::int64_t{3});
        EXPECT_EQ(row[1], cell(std::int64_t{none ? 0 : 5}));
    }
}

TEST_P(Aggregates, SeveralColumnsBesideOthers) {
    Random random(9);
    Schema const schema{{"key", int32(), true},
                        {"a", int16(), true},
                        {"b", string(), true},
                        {"c", float64()},
                        {"d", decimal128(9, 1), true}};
    std::vector<Row> rows;
    for (std::size_t i = 0; i < 8000; ++i) {
        Row row{cell(static_cast<std::int32_t>(skewed(i, 900)))};
        if (random.one_in(50)) row[0] = std::nullopt;
        for (std::size_t c = 1; c < schema.size(); ++c)
            row.push_back(small_cell(schema[c], random));
        rows.push_back(row);
    }
    std::vector<Aggregate> const wanted{
        {F::CountDistinct, "a", "as"}, {F::Sum, "a", "sum"},
        {F::CountDistinct, "b", "bs"}, {F::Count, "", "rows"},
        {F::CountDistinct, "c", "c"},  {F::First, "b", "any"},
        {F::CountDistinct, "a", "a2"}, {F::CountDistinct, "key", "keys"},
        {F::StdDev, "d", "std"}};
    expect_as_plain(schema, rows, {"key"}, wanted);
    expect_as_plain(schema, rows, {"key", "a"}, wanted);
    expect_as_plain(schema, rows, {"key"}, {{F::CountDistinct, "key", "keys"}});
    expect_as_plain(schema, {}, {"key"}, wanted);
    expect_as_plain(schema, {rows[0]}, {"key"}, wanted);
}

// Sums that leave 64 bits begin again; the pairs do not.
TEST_P(Aggregates, BesideAWideSum) {
    std::int64_t const most = std::numeric_limits<std::int64_t>::max();
    std::vector<Row> rows;
    for (std::int64_t i = 0; i < 40; ++i) {
        rows.push_back({cell(i % 2), cell(i % 4 < 2 ? most - i : i - most)});
    }
    expect_as_plain(numbered_schema(), rows, {"key"},
                    {{F::Sum, "value", "sum"}, {F::CountDistinct, "value", "n"}});
}

// Only what differs goes to another endpoint.
TEST_P(Aggregates, SaysWhatMoved) {
    std::vector<Row> rows;
    for (std::size_t i = 0; i < 20'000; ++i) {
        rows.push_back(
            {cell(static_cast<std::int64_t>(i % 10)), cell(static_cast<std::int64_t>(i % 3))});
    }
    (void)group(numbered_schema(), rows, {"key"}, {{F::CountDistinct, "value", "n"}});
    EXPECT_EQ(report.channels.size(), 4U);
    EXPECT_GE(report.rows, 30U);
    EXPECT_LE(report.rows, 30U * GetParam().endpoints * GetParam().groups * 4);
}

TEST_P(Aggregates, TypesOfResults) {
    Schema const schema{{"key", int64()},
                        {"t", string(), true},
                        {"d", decimal128(9, 1)},
                        {"b", fixed_size_binary(3)}};
    (void)group(schema, {}, {"key"},
                {{F::Variance, "d", "var"},
                 {F::First, "t", "t"},
                 {F::CountDistinct, "t", "n"},
                 {F::Max, "b", "b"}});
    Schema const expected{{"key", int64()},
                          {"var", float64(), true},
                          {"t", string(), true},
                          {"n", int64()},
                          {"b", fixed_size_binary(3)}};
    EXPECT_EQ(result_schema, expected) << result_schema.to_string();
}

TEST_P(Aggregates, SaysWhatItCannotTake) {
    Schema const schema{{"key", int64()}, {"t", string()}};
    expect_error(ErrorCode::InvalidArgument,
                 {"group_by", "var of column 't'", "string", "integers, floats and decimals"},
                 [&] { group(schema, {}, {"key"}, {{F::Variance, "t", "v"}}); });
    expect_error(ErrorCode::InvalidArgument, {"count_distinct needs a column", "'n'"},
                 [&] { group(schema, {}, {"key"}, {{F::CountDistinct, "", "n"}}); });
}

// Pairs count against the limit of what tables may take.
TEST(AggregatesLimit, HoldsForPairs) {
    std::vector<Row> const rows = numbered_rows(200'000, 7);
    Random random(3);
    Cluster cluster(2);
    auto const parts = deal(numbered_schema(), rows, 2, random);
    OperatorOptions options;
    options.receive_limit = std::uint64_t{1} << 20;
    std::vector<Aggregate> const wanted{{F::CountDistinct, "value", "n"}};
    expect_error(ErrorCode::OutOfMemory, {"group_by", "receive_limit"}, [&] {
        group_by(cluster.runtime, cluster.endpoints, parts, {"key"}, wanted, options);
    });
}

// Those of one column are there while the next one's are made.
TEST(AggregatesLimit, HoldsForPairsOfSeveralColumns) {
    Schema const schema{{"key", int64()}, {"a", int64()}, {"b", int64()}};
    std::vector<Row> rows;
    for (std::int64_t i = 0; i < 60'000; ++i) rows.push_back({cell(i % 7), cell(i), cell(i)});
    Random random(4);
    Cluster cluster(1);
    auto const parts = deal(schema, rows, 1, random);
    OperatorOptions options;
    options.groups = 1;
    OperatorReport report;
    // How many group-bys there were: each has two channels.
    auto const made = [&](std::vector<Aggregate> const& wanted, bool& fits) {
        report = {};
        fits = true;
        try {
            group_by(cluster.runtime, cluster.endpoints, parts, {"key"}, wanted, options, &report);
        } catch (Error const& error) {
            EXPECT_EQ(error.code(), ErrorCode::OutOfMemory) << error.what();
            fits = false;
        }
        return report.channels.size() / 2;
    };
    std::vector<Aggregate> wanted{{F::CountDistinct, "a", "as"}};
    bool fits = false;
    for (options.receive_limit = 1U << 18; !fits; options.receive_limit += 1U << 18) {
        ASSERT_LT(options.receive_limit, 1U << 28);
        (void)made(wanted, fits);
    }
    wanted.push_back({F::CountDistinct, "b", "bs"});
    EXPECT_EQ(made(wanted, fits), 1);
    EXPECT_FALSE(fits);
    options.receive_limit *= 3;
    EXPECT_EQ(made(wanted, fits), 3);
    EXPECT_TRUE(fits);
}

}  // namespace
}  // namespace mgi::test
