/// \file
/// Group-by against the reference: random keys, aggregates, endpoints, groups and segments.
#include <gtest/gtest.h>

#include <limits>

#include "operators/reference.hpp"
#include "support/cases.hpp"
#include "support/expect_error.hpp"
#include "support/hang_guard.hpp"

namespace mgi::test {
namespace {

std::vector<Type> value_types() {
    return {int8(),
            int16(),
            int32(),
            int64(),
            uint8(),
            uint16(),
            uint32(),
            uint64(),
            float32(),
            float64(),
            date32(),
            decimal128(12, 2),
            boolean(),
            decimal128(38, 4),
            string(),
            binary(),
            fixed_size_binary(5),
            fixed_size_binary(16)};
}

bool can_sum(Type const& type) {
    return type.is_integer() || type.id == TypeId::Float32 || type.id == TypeId::Float64 ||
           type.id == TypeId::Decimal128;
}

/// A random query and its data.
struct Query {
    Schema schema;
    std::vector<Row> rows;
    std::vector<std::string> keys;
    std::vector<Aggregate> aggregates;
};

Query random_query(Random& random) {
    Query query;
    std::vector<Field> fields = random_schema(random, 3).fields();
    std::size_t const key_count = fields.size();
    for (Field const& field : fields) query.keys.push_back(field.name);
    std::size_t const values = random.below(4);
    for (std::size_t v = 0; v < values; ++v) {
        auto const types = value_types();
        fields.push_back(
            {"v" + std::to_string(v), types[random.below(types.size())], random.one_in(2)});
    }
    query.schema = Schema(fields);
    std::size_t const count = std::vector<std::size_t>{0, 1, 50, 3000, 12000}[random.below(5)];
    std::size_t const distinct = std::vector<std::size_t>{1, 3, 40, 6000}[random.below(4)];
    std::vector<CellPool> pools;
    for (std::size_t k = 0; k < key_count; ++k) pools.emplace_back(fields[k], distinct, random);
    for (std::size_t r = 0; r < count / (kSanitized ? 4 : 1); ++r) {
        Row row;
        for (CellPool const& pool : pools) row.push_back(pool.pick(random));
        for (std::size_t v = key_count; v < fields.size(); ++v) {
            row.push_back(small_cell(fields[v], random));
        }
        query.rows.push_back(std::move(row));
    }
    std::size_t const aggregates = random.below(6);
    for (std::size_t a = 0; a < aggregates; ++a) {
        Aggregate aggregate;
        aggregate.name = "a" + std::to_string(a);
        if (values != 0 && !random.one_in(5)) {
            bool const of_key = random.one_in(8);
            std::size_t const at =
                of_key ? random.below(key_count) : key_count + random.below(values);
            Field const& field = fields[at];
            aggregate.column = field.name;
            // Keys are too large to be added up.
            bool const sums = can_sum(field.type) && !of_key;
            auto const any = static_cast<AggregateFunction>(random.below(9));
            bool const adds = any == AggregateFunction::Sum || any == AggregateFunction::Avg ||
                              any == AggregateFunction::Variance ||
                              any == AggregateFunction::StdDev;
            aggregate.function = adds && !sums ? AggregateFunction::Max : any;
        }
        query.aggregates.push_back(aggregate);
    }
    return query;
}

OperatorOptions random_options(Random& random, bool long_rows) {
    OperatorOptions options;
    options.groups = static_cast<std::uint32_t>(random.below(4));
    options.by_reference = random.one_in(2);
    if (random.one_in(2)) options.segment_bytes = long_rows ? 1U << 14 : 1U << 12;
    return options;
}

class GroupByProperty : public ::testing::TestWithParam<int> {};

TEST_P(GroupByProperty, MatchesTheReference) {
    Random random(7000 + static_cast<std::uint64_t>(GetParam()));
    for (int round = 0; round < (kSanitized ? 3 : 8); ++round) {
        Query const query = random_query(random);
        Cluster cluster(1 + random.below(4));
        OperatorOptions const options = random_options(random, true);
        auto const parts = deal(query.schema, query.rows, cluster.endpoints.size(), random);
        auto const result = group_by(cluster.runtime, cluster.endpoints, parts, query.keys,
                                     query.aggregates, options);
        ASSERT_EQ(result.size(), cluster.endpoints.size());
        ASSERT_TRUE(
            same_groups(result[0].schema, rows_of(result),
                        reference_group_by(query.schema, query.rows, query.keys, query.aggregates),
                        query.keys.size()))
            << "round " << round << " of " << query.schema.to_string();
    }
}

INSTANTIATE_TEST_SUITE_P(Seeds, GroupByProperty, ::testing::Range(0, test::seeds(12)));

/// Rows (key, value).
std::vector<Row> pairs(std::vector<std::pair<std::int64_t, std::int64_t>> const& values) {
    std::vector<Row> rows;
    for (auto const& [key, value] : values) rows.push_back({cell(key), cell(value)});
    return rows;
}

std::vector<Table> run(std::size_t endpoints, Schema const& schema, std::vector<Row> const& rows,
                       std::vector<Aggregate> const& aggregates, OperatorOptions options = {},
                       OperatorReport* report = nullptr) {
    Random random(3);
    Cluster cluster(endpoints);
    return group_by(cluster.runtime, cluster.endpoints, deal(schema, rows, endpoints, random),
                    {schema[0].name}, aggregates, options, report);
}

TEST(GroupBy, FoldsBeforeSendingWhereThatReduces) {
    OperatorReport report;
    auto const rows = numbered_rows(20000, 50);
    auto const result =
        run(2, numbered_schema(), rows, {{AggregateFunction::Sum, "value", "sum"}}, {}, &report);
    EXPECT_EQ(rows_of(result).size(), 50U);
    // Each group of an endpoint sends each group once, and no row as it is.
    EXPECT_LE(report.rows, 50U * 2 * 8);
    ASSERT_EQ(report.channels.size(), 2U);
    EXPECT_EQ(report.channels[0].rows, 0U);
    EXPECT_EQ(report.plans.size(), 2U);
    EXPECT_GT(report.seconds, 0);
    EXPECT_GT(report.bytes, 0U);
}

TEST(GroupBy, PassesRowsOnWhereItDoesNot) {
    OperatorReport report;
    std::size_t const count = 200'000;
    OperatorOptions options;
    options.groups = 1;
    auto const result =
        run(1, numbered_schema(), numbered_rows(count, static_cast<std::int64_t>(count)),
            {{AggregateFunction::Sum, "value", "sum"}}, options, &report);
    EXPECT_EQ(rows_of(result).size(), count);
    ASSERT_EQ(report.channels.size(), 2U);
    EXPECT_GT(report.channels[0].rows, count / 2);
}

TEST(GroupBy, ManyMoreGroupsThanCores) {
    OperatorOptions options;
    options.groups = 7;
    auto const rows = numbered_rows(30000, 9000);
    std::vector<Aggregate> const aggregates{{AggregateFunction::Sum, "value", "sum"},
                                            {AggregateFunction::Count, "", "n"},
                                            {AggregateFunction::Min, "value", "low"}};
    auto const result = run(3, numbered_schema(), rows, aggregates, options);
    EXPECT_TRUE(same_groups(result[0].schema, rows_of(result),
                            reference_group_by(numbered_schema(), rows, {"key"}, aggregates), 1));
}

TEST(GroupBy, TablesCountAgainstTheLimit) {
    std::int64_t const groups = 200'000;
    auto const rows = numbered_rows(static_cast<std::size_t>(groups), groups);
    OperatorOptions options;
    options.groups = 1;
    std::vector<Table> result;
    auto const grouped = [&] {
        result = run(1, numbered_schema(), rows, {{AggregateFunction::Count, "", "n"}}, options);
    };
    // Room for the result, and not for the tables it comes from.
    options.receive_limit = static_cast<std::uint64_t>(groups) * 24;
    expect_error(ErrorCode::OutOfMemory, {"group_by", "tables", "receive_limit"}, grouped);
    options.receive_limit *= 8;
    grouped();
    EXPECT_EQ(rows_of(result).size(), static_cast<std::size_t>(groups));
}

TEST(GroupBy, SumsThatLeave64BitsOnTheWayAreExact) {
    std::int64_t const most = std::numeric_limits<std::int64_t>::max();
    auto const rows = pairs({{1, most}, {1, most}, {1, -most}, {1, -most}, {1, 5}, {2, most}});
    std::vector<Aggregate> const aggregates{{AggregateFunction::Sum, "value", "sum"},
                                            {AggregateFunction::Avg, "value", "average"}};
    auto const result = run(2, numbered_schema(), rows, aggregates);
    EXPECT_TRUE(same_groups(result[0].schema, rows_of(result),
                            reference_group_by(numbered_schema(), rows, {"key"}, aggregates), 1));
}

TEST(GroupBy, OverflowNamesTheColumn) {
    std::int64_t const most = std::numeric_limits<std::int64_t>::max();
    try {
        run(2, numbered_schema(), pairs({{1, most}, {1, most}}),
            {{AggregateFunction::Sum, "value", "sum"}});
        FAIL() << "no error";
    } catch (Error const& error) {
        EXPECT_EQ(error.code(), ErrorCode::InvalidArgument);
        EXPECT_NE(std::string(error.what()).find("'value'"), std::string::npos) << error.what();
    }
}

TEST(GroupBy, DecimalOverflowNamesTheColumn) {
    Schema const schema{{"key", int64()}, {"price", decimal128(38, 2)}};
    __int128 large = 9;
    for (int i = 0; i < 37; ++i) large *= 10;
    std::vector<Row> const rows{{cell(std::int64_t{1}), cell(large)},
                                {cell(std::int64_t{1}), cell(large)}};
    try {
        run(1, schema, rows, {{AggregateFunction::Sum, "price", "sum"}});
        FAIL() << "no error";
    } catch (Error const& error) {
        EXPECT_NE(std::string(error.what()).find("'price'"), std::string::npos) << error.what();
    }
}

TEST(GroupBy, ResultTypes) {
    Schema const schema{{"key", string(), true},
                        {"d", decimal128(12, 2)},
                        {"i", int32()},
                        {"f", float32(), true},
                        {"t", date32()}};
    Random random(1);
    std::vector<Row> rows;
    for (int i = 0; i < 20; ++i) {
        Row row;
        for (Field const& field : schema.fields()) row.push_back(small_cell(field, random));
        rows.push_back(row);
    }
    auto const result = run(2, schema, rows,
                            {{AggregateFunction::Sum, "d", "sd"},
                             {AggregateFunction::Sum, "i", "si"},
                             {AggregateFunction::Sum, "f", "sf"},
                             {AggregateFunction::Avg, "d", "ad"},
                             {AggregateFunction::Min, "t", "mt"},
                             {AggregateFunction::Max, "d", "md"},
                             {AggregateFunction::Count, "f", "n"}});
    Schema const expected{{"key", string(), true},   {"sd", decimal128(38, 2)},
                          {"si", int64()},           {"sf", float64(), true},
                          {"ad", float64()},         {"mt", date32()},
                          {"md", decimal128(12, 2)}, {"n", int64()}};
    EXPECT_EQ(result[0].schema, expected) << result[0].schema.to_string();
    EXPECT_EQ(result[1].schema, expected);
}

TEST(GroupBy, EmptyTables) {
    auto const result = run(3, numbered_schema(), {}, {{AggregateFunction::Count, "", "n"}});
    EXPECT_TRUE(rows_of(result).empty());
    EXPECT_EQ(result[2].schema[1].name, "n");
}

TEST(GroupBy, LongTextsMakeLargerSegments) {
    Schema const schema{{"key", string()}, {"text", string()}};
    std::vector<Row> rows;
    for (int i = 0; i < 40; ++i) {
        rows.push_back({std::string(static_cast<std::size_t>(i % 4) * 300'000, 'k'),
                        std::string(static_cast<std::size_t>(i) * 10'000, 't')});
    }
    std::vector<Aggregate> const aggregates{{AggregateFunction::Max, "text", "longest"}};
    auto const result = run(2, schema, rows, aggregates);
    EXPECT_TRUE(same_groups(result[0].schema, rows_of(result),
                            reference_group_by(schema, rows, {"key"}, aggregates), 1));
}

void expect_refused(std::vector<std::string> const& keys, std::vector<Aggregate> const& aggregates,
                    std::string const& named, OperatorOptions const& options = {}) {
    Cluster cluster(2);
    Random random(1);
    Schema const schema{{"key", int64()}, {"text", string()}, {"day", date32()}};
    try {
        group_by(cluster.runtime, cluster.endpoints, deal(schema, {}, 2, random), keys, aggregates,
                 options);
        FAIL() << "no error that names " << named;
    } catch (Error const& error) {
        EXPECT_EQ(error.code(), ErrorCode::InvalidArgument);
        EXPECT_NE(std::string(error.what()).find(named), std::string::npos) << error.what();
    }
}

TEST(GroupBy, BadInputIsNamed) {
    expect_refused({"nokey"}, {}, "'nokey'");
    expect_refused({}, {}, "no key");
    expect_refused({"key", "key"}, {}, "'key'");
    expect_refused({"key"}, {{AggregateFunction::Sum, "nothing", "s"}}, "'nothing'");
    expect_refused({"key"}, {{AggregateFunction::Sum, "text", "s"}}, "'text'");
    expect_refused({"key"}, {{AggregateFunction::Avg, "day", "s"}}, "'day'");
    expect_refused({"key"}, {{AggregateFunction::Sum, "", "s"}}, "'s'");
    expect_refused({"key"}, {{AggregateFunction::Count, "", "key"}}, "'key'");
    expect_refused({"key"}, {{AggregateFunction::Count, "", ""}}, "no name");
    OperatorOptions options;
    options.hash = Hash::Modulo;
    expect_refused({"text"}, {}, "'text'", options);
    expect_refused({"key", "day"}, {}, "Modulo", options);
}

}  // namespace
}  // namespace mgi::test
