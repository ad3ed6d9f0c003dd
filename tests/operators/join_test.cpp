/// \file
/// Join against the reference: random keys of one and several columns, duplicates, nulls, widths.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <limits>
#include <thread>

#include "operators/reference.hpp"
#include "support/cases.hpp"
#include "support/expect_error.hpp"
#include "support/hang_guard.hpp"

namespace mgi::test {
namespace {

std::vector<std::string> names_of(Schema const& schema, std::size_t first, std::size_t count) {
    std::vector<std::string> names;
    for (std::size_t c = first; c < first + count; ++c) names.push_back(schema[c].name);
    return names;
}

/// Two tables with keys of the same types and some other columns.
struct Sides {
    Schema left_schema;
    Schema right_schema;
    std::vector<Row> left;
    std::vector<Row> right;
    std::size_t keys = 0;
};

Sides random_sides(Random& random) {
    Sides sides;
    std::vector<Field> keys = random_schema(random, 3).fields();
    sides.keys = keys.size();
    std::vector<Field> left = keys;
    std::vector<Field> right = keys;
    for (std::size_t k = 0; k < keys.size(); ++k) {
        left[k].name = "l" + std::to_string(k);
        right[k].name = "r" + std::to_string(k);
        right[k].nullable = random.one_in(2);
    }
    Schema const more_left = random_schema(random, 4);
    for (Field field : more_left.fields()) {
        field.name = "left_" + field.name;
        left.push_back(field);
    }
    if (!random.one_in(4)) {
        Schema const more_right = random_schema(random, 4);
        for (Field field : more_right.fields()) {
            field.name = "right_" + field.name;
            right.push_back(field);
        }
    }
    sides.left_schema = Schema(left);
    sides.right_schema = Schema(right);
    std::size_t const distinct = std::vector<std::size_t>{1, 30, 2000}[random.below(3)];
    std::vector<CellPool> pools;
    for (Field& field : keys) {
        field.nullable = false;
        pools.emplace_back(field, distinct, random);
    }
    auto const fill = [&](Schema const& schema, std::size_t count) {
        std::vector<Row> rows;
        for (std::size_t r = 0; r < count; ++r) {
            Row row;
            for (std::size_t c = 0; c < schema.size(); ++c) {
                bool const null = schema[c].nullable && random.one_in(6);
                row.push_back(null             ? Cell()
                              : c < sides.keys ? pools[c].pick(random)
                                               : random_cell(schema[c], random, DataShape{}));
            }
            rows.push_back(std::move(row));
        }
        return rows;
    };
    double kinds = 1;
    for (CellPool const& pool : pools) kinds *= pool.kinds();
    // Each row has as many matches as there are rows to a kind on the other side.
    std::size_t const most = kinds < 10 ? 60 : kinds < 1000 ? 600 : 4000;
    sides.left = fill(sides.left_schema, random.one_in(8) ? 0 : random.below(most));
    sides.right = fill(sides.right_schema, random.one_in(8) ? 0 : random.below(most / 2));
    return sides;
}

class JoinProperty : public ::testing::TestWithParam<int> {};

TEST_P(JoinProperty, MatchesTheReference) {
    Random random(9000 + static_cast<std::uint64_t>(GetParam()));
    for (int round = 0; round < (kSanitized ? 3 : 8); ++round) {
        Sides const sides = random_sides(random);
        Cluster cluster(1 + random.below(4));
        OperatorOptions options;
        options.groups = static_cast<std::uint32_t>(random.below(4));
        options.by_reference = random.one_in(2);
        if (random.one_in(2)) options.segment_bytes = 1U << 14;
        JoinSpec spec;
        spec.kind = kKinds[random.below(std::size(kKinds))];
        spec.broadcast = random_broadcast(spec.kind, cluster.endpoints.size(), random);
        spec.left_keys = names_of(sides.left_schema, 0, sides.keys);
        spec.right_keys = names_of(sides.right_schema, 0, sides.keys);
        std::size_t const parts = cluster.endpoints.size();
        auto const result = join(
            cluster.runtime, cluster.endpoints, deal(sides.left_schema, sides.left, parts, random),
            deal(sides.right_schema, sides.right, parts, random), spec, options);
        ASSERT_TRUE(same_rows(encode_all(rows_of(result)),
                              encode_all(reference_join(sides.left_schema, sides.left,
                                                        spec.left_keys, sides.right_schema,
                                                        sides.right, spec.right_keys, spec.kind))))
            << "round " << round << ", kind " << int(spec.kind) << ": "
            << sides.left_schema.to_string() << " with " << sides.right_schema.to_string();
    }
}

INSTANTIATE_TEST_SUITE_P(Seeds, JoinProperty, ::testing::Range(0, test::seeds(12)));

/// Joins two tables on their first columns in all ways and with either of them built, and compares with the reference.
void check(Schema const& left_schema, std::vector<Row> const& left, Schema const& right_schema,
           std::vector<Row> const& right) {
    Random random(5);
    Cluster cluster(3);
    auto const same = [&](JoinKind kind, Broadcast broadcast, Schema const& a,
                          std::vector<Row> const& a_rows, Schema const& b,
                          std::vector<Row> const& b_rows) {
        JoinSpec const spec{{a[0].name}, {b[0].name}, {}, {}, kind, broadcast};
        OperatorReport report;
        auto const result = join(cluster.runtime, cluster.endpoints, deal(a, a_rows, 3, random),
                                 deal(b, b_rows, 3, random), spec, {}, &report);
        EXPECT_EQ(report.built, built_by(spec, 3, a_rows.size(), b_rows.size()));
        if (broadcast != Broadcast::Auto) {
            EXPECT_EQ(report.broadcast, broadcast == Broadcast::On);
        }
        EXPECT_TRUE(same_rows(encode_all(rows_of(result)),
                              encode_all(reference_join(a, a_rows, spec.left_keys, b, b_rows,
                                                        spec.right_keys, kind))))
            << "kind " << int(kind) << ", broadcast " << int(broadcast);
    };
    for (JoinKind const kind : kKinds) {
        for (Broadcast const broadcast : broadcasts_of(kind, 3)) {
            same(kind, broadcast, left_schema, left, right_schema, right);
            same(kind, broadcast, right_schema, right, left_schema, left);
        }
    }
}

TEST(Join, IntegerKeysOfDifferentWidthsAndSigns) {
    std::vector<Row> left;
    std::vector<Row> right;
    for (std::int32_t i = -200; i < 200; ++i) left.push_back({cell(i)});
    for (std::int64_t i = -100; i < 300; ++i)
        right.push_back({cell(static_cast<std::uint64_t>(i))});
    check({{"a", int32()}}, left, {{"b", uint64()}}, right);

    std::vector<Row> narrow;
    std::vector<Row> wide;
    for (int i = -128; i < 128; ++i) narrow.push_back({cell(static_cast<std::int8_t>(i))});
    for (std::int64_t i = -300; i < 300; ++i) wide.push_back({cell(i)});
    check({{"a", int8()}}, narrow, {{"b", int64()}}, wide);
}

TEST(Join, FloatKeysOfDifferentWidths) {
    std::vector<Row> left;
    std::vector<Row> right;
    for (int i = -20; i < 20; ++i) {
        left.push_back({cell(static_cast<float>(i) / 4)});
        right.push_back({cell(static_cast<double>(i) / 8)});
    }
    left.push_back({cell(-0.0F)});
    left.push_back({cell(std::numeric_limits<float>::quiet_NaN())});
    right.push_back({cell(-std::numeric_limits<double>::quiet_NaN())});
    check({{"a", float32()}}, left, {{"b", float64()}}, right);
}

TEST(Join, ManyDuplicatesOnBothSides) {
    std::vector<Row> left;
    std::vector<Row> right;
    for (std::int64_t i = 0; i < 300; ++i) {
        left.push_back({cell(i % 3), cell(i)});
        right.push_back({cell(i % 2), cell(i)});
    }
    check({{"k", int64()}, {"x", int64()}}, left, {{"q", int64()}, {"y", int64()}}, right);
}

TEST(Join, MoreDuplicatesThanALineOfTheDirectoryCounts) {
    std::vector<Row> left;
    std::vector<Row> right;
    for (std::int64_t i = 0; i < 2000; ++i) {
        left.push_back({cell(i)});
        right.push_back({cell(i < 1000 ? i : i % 2 * 1500), cell(i)});
    }
    check({{"k", int64()}}, left, {{"q", int64()}, {"y", int64()}}, right);
}

TEST(Join, NullKeysOnBothSidesHaveNoPartner) {
    std::vector<Row> left;
    std::vector<Row> right;
    for (std::int64_t i = 0; i < 700; ++i) {
        left.push_back({i % 3 == 0 ? std::nullopt : cell(i % 40), "left text of some length"});
        right.push_back({i % 2 == 0 ? std::nullopt : cell(i % 60), cell(i)});
    }
    left.push_back({cell(std::int64_t{1000}), std::nullopt});
    check({{"k", int64(), true}, {"x", string(), true}}, left,
          {{"q", int64(), true}, {"y", int64()}}, right);
}

TEST(Join, WithAnEmptySide) {
    std::vector<Row> rows;
    for (std::int64_t i = 0; i < 100; ++i) rows.push_back({cell(i % 7), cell(i % 2 == 0)});
    Schema const schema{{"k", int64()}, {"x", boolean()}};
    check(schema, rows, {{"q", int64()}, {"y", string()}}, {});
    check(schema, {}, {{"q", int64()}, {"y", string()}}, {});
}

/// 4 * 10^10 rows.
JoinSpec endless(std::vector<Table>& left, std::vector<Table>& right) {
    Random random(1);
    left = deal({{"k", int64()}}, std::vector<Row>(200'000, Row{cell(std::int64_t{1})}), 2, random);
    right =
        deal({{"q", int64()}}, std::vector<Row>(200'000, Row{cell(std::int64_t{1})}), 2, random);
    return {{"k"}, {"q"}, {}, {}};
}

TEST(Join, AResultPastItsLimitIsAnError) {
    Cluster cluster(2);
    std::vector<Table> left;
    std::vector<Table> right;
    JoinSpec const spec = endless(left, right);
    OperatorOptions options;
    options.receive_limit = 64U << 20;
    try {
        join(cluster.runtime, cluster.endpoints, left, right, spec, options);
        FAIL() << "no error";
    } catch (Error const& error) {
        EXPECT_EQ(error.code(), ErrorCode::OutOfMemory);
        EXPECT_NE(std::string(error.what()).find("join's result"), std::string::npos)
            << error.what();
    }
}

TEST(Join, TheTableCountsAgainstTheLimit) {
    std::int64_t const keys = (1 << 18) + 1;
    std::vector<Row> rows;
    for (std::int64_t k = 0; k < keys; ++k) rows.push_back({cell(k)});
    Random random(1);
    Cluster cluster(1);
    auto const right = deal({{"q", int64()}}, rows, 1, random);
    for (std::int64_t k = 10; k < keys; ++k) rows[std::size_t(k)] = {cell(-k)};
    auto const left = deal({{"k", int64()}}, rows, 1, random);
    OperatorOptions options;
    options.groups = 1;
    // Not enough room for the table: keys, and a directory of 2^19 slots.
    options.receive_limit = std::uint64_t(keys) * 8;
    std::vector<Table> result;
    auto const joined = [&] {
        result =
            join(cluster.runtime, cluster.endpoints, left, right, {{"k"}, {"q"}, {}, {}}, options);
    };
    expect_error(ErrorCode::OutOfMemory, {"join", "tables", "receive_limit"}, joined);
    options.receive_limit *= 4;
    joined();
    EXPECT_EQ(rows_of(result).size(), 10U);
}

TEST(Join, CancelStopsALongProbe) {
    Cluster cluster(2);
    std::vector<Table> left;
    std::vector<Table> right;
    JoinSpec const spec = endless(left, right);
    std::atomic<bool> cancel{false};
    OperatorOptions options;
    options.cancel = &cancel;
    options.receive_limit = std::uint64_t{1} << 40;
    std::thread stopper([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(30));
        cancel = true;
    });
    try {
        join(cluster.runtime, cluster.endpoints, left, right, spec, options);
        ADD_FAILURE() << "no error";
    } catch (Error const& error) {
        EXPECT_EQ(error.code(), ErrorCode::Interrupted) << error.what();
    }
    stopper.join();
}

// Rows that stay go through no channel that would tell of it, and rows without a partner fill no result.
TEST(Join, CancelStopsAProbeWithoutMatches) {
    Cluster cluster(1);
    std::vector<Row> rows(200'000, Row{cell(std::int64_t{1})});
    Random random(1);
    auto left = deal({{"k", int64()}}, rows, 1, random);
    for (Row& row : rows) row = {cell(std::int64_t{2})};
    auto const right = deal({{"q", int64()}}, {rows[0]}, 1, random);
    std::vector<RecordBatch> const once = left[0].batches;
    while (left[0].rows() < 400'000'000) {
        left[0].batches.insert(left[0].batches.end(), once.begin(), once.end());
    }
    std::atomic<bool> cancel{true};
    OperatorOptions options;
    options.cancel = &cancel;
    expect_error(ErrorCode::Interrupted, {"join"}, [&] {
        join(cluster.runtime, cluster.endpoints, left, right, {{"k"}, {"q"}, {}, {}}, options);
    });
}

TEST(Join, ColumnsAndNames) {
    Random random(1);
    Cluster cluster(2);
    Schema const left{{"k", int64()}, {"x", string()}, {"y", int32()}};
    Schema const right{{"k", int64()}, {"x", string(), true}, {"z", float64()}};
    std::vector<Row> const left_rows{{cell(std::int64_t{1}), "left text of some length", cell(7)}};
    std::vector<Row> const right_rows{
        {cell(std::int64_t{1}), "right text of some length", cell(2.5)},
        {cell(std::int64_t{2}), std::nullopt, cell(3.5)}};
    auto const run = [&](JoinSpec const& spec) {
        return join(cluster.runtime, cluster.endpoints, deal(left, left_rows, 2, random),
                    deal(right, right_rows, 2, random), spec);
    };
    JoinSpec spec{{"k"}, {"k"}, {}, {}};
    auto all = run(spec);
    EXPECT_EQ(all[0].schema.to_string(),
              "k: int64, x: string, y: int32, x_right: string?, z: double")
        << all[0].schema.to_string();
    ASSERT_EQ(rows_of(all).size(), 1U);
    EXPECT_EQ(rows_of(all)[0][3], "right text of some length");

    spec.left_columns = {"y"};
    spec.right_columns = {"z", "k"};
    auto some = run(spec);
    ASSERT_EQ(some[0].schema.size(), 3U);
    EXPECT_EQ(some[0].schema[0].name, "y");
    EXPECT_EQ(some[0].schema[1].name, "z");
    EXPECT_EQ(some[0].schema[2].name, "k_right");
    EXPECT_EQ(rows_of(some)[0], (Row{cell(7), cell(2.5), cell(std::int64_t{1})}));
}

// As with SQL's USING.
TEST(Join, KeysOfEqualNamesHoldEitherSides) {
    Random random(1);
    Cluster cluster(2);
    Schema const left{{"k", int64(), true}, {"s", string()}, {"x", int32()}};
    Schema const right{{"k", int64()}, {"s", string()}, {"y", int32()}};
    auto const number = [](std::int64_t value) { return cell(value); };
    std::vector<Row> const left_rows{{number(1), "one and some more text", cell(10)},
                                     {number(2), "two", cell(20)},
                                     {std::nullopt, "none", cell(30)}};
    std::vector<Row> right_rows{{number(1), "one and some more text", cell(-1)},
                                {number(3), "three and some more text", cell(-3)}};
    std::vector<Row> const pair{{number(1), "one and some more text", cell(10), cell(-1)}};
    std::vector<Row> const of_left{{number(2), "two", cell(20), std::nullopt},
                                   {std::nullopt, "none", cell(30), std::nullopt}};
    std::vector<Row> of_right{{number(3), "three and some more text", std::nullopt, cell(-3)}};
    auto const all = [](std::vector<std::vector<Row>> const& parts) {
        std::vector<Row> rows;
        for (auto const& part : parts) rows.insert(rows.end(), part.begin(), part.end());
        return encode_all(rows);
    };
    // Once with the right built, once with the left.
    for (int round = 0; round < 2; ++round) {
        auto const run = [&](JoinKind kind) {
            return join(cluster.runtime, cluster.endpoints, deal(left, left_rows, 2, random),
                        deal(right, right_rows, 2, random), {{"k", "s"}, {"k", "s"}, {}, {}, kind});
        };
        auto const full = run(JoinKind::Full);
        EXPECT_EQ(full[0].schema.to_string(), "k: int64?, s: string, x: int32?, y: int32?");
        EXPECT_TRUE(same_rows(encode_all(rows_of(full)), all({pair, of_left, of_right})));
        auto const to_right = run(JoinKind::Right);
        EXPECT_EQ(to_right[0].schema.to_string(), "k: int64?, s: string, x: int32?, y: int32");
        EXPECT_TRUE(same_rows(encode_all(rows_of(to_right)), all({pair, of_right})));
        auto const to_left = run(JoinKind::Left);
        EXPECT_EQ(to_left[0].schema.to_string(), "k: int64?, s: string, x: int32, y: int32?");
        EXPECT_TRUE(same_rows(encode_all(rows_of(to_left)), all({pair, of_left})));
        for (std::int32_t i = 0; i < 5; ++i) {
            right_rows.push_back({number(100 + i), "more", cell(i)});
            of_right.push_back({number(100 + i), "more", std::nullopt, cell(i)});
        }
    }
}

void expect_refused(Schema const& left, Schema const& right, JoinSpec const& spec,
                    std::string const& named) {
    Cluster cluster(2);
    Random random(1);
    try {
        join(cluster.runtime, cluster.endpoints, deal(left, {}, 2, random),
             deal(right, {}, 2, random), spec);
        FAIL() << "no error that names " << named;
    } catch (Error const& error) {
        EXPECT_EQ(error.code(), ErrorCode::InvalidArgument);
        EXPECT_NE(std::string(error.what()).find(named), std::string::npos) << error.what();
    }
}

TEST(Join, BadInputIsNamed) {
    Schema const left{{"a", int64()}, {"t", string()}, {"d", decimal128(10, 2)}};
    Schema const right{{"b", int64()}, {"u", string()}, {"e", float64()}};
    expect_refused(left, right, {{"no"}, {"b"}, {}, {}}, "'no'");
    expect_refused(left, right, {{"a"}, {"no"}, {}, {}}, "'no'");
    expect_refused(left, right, {{"a"}, {"u"}, {}, {}}, "'u'");
    expect_refused(left, right, {{"d"}, {"e"}, {}, {}}, "'d'");
    expect_refused(left, right, {{"a", "t"}, {"b"}, {}, {}}, "2 left keys");
    expect_refused(left, right, {{"a"}, {"b"}, {"x"}, {}}, "'x'");
    expect_refused(left, right, {{"a"}, {"b"}, {}, {"y"}}, "'y'");
    expect_refused(left, right, {{}, {}, {}, {}}, "no key");
    expect_refused(left, right, {{"a"}, {"b"}, {"a", "a"}, {}}, "'a'");
    expect_refused(left, right, {{"a"}, {"b"}, {}, {"u"}, JoinKind::Semi}, "kind semi");
    expect_refused(left, right, {{"a"}, {"b"}, {}, {"u"}, JoinKind::Anti}, "'u'");
    Schema const narrow{{"a", int32()}, {"y", int64()}};
    expect_refused(left, narrow, {{"a"}, {"a"}, {}, {}, JoinKind::Full}, "cast one of them");
    expect_refused(left, narrow, {{"a"}, {"a"}, {}, {}, JoinKind::Right}, "'a' is int64");
}

}  // namespace
}  // namespace mgi::test
