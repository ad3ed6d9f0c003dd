// The operators of GPUs on threads of the host, groups of one and of two threads: the same source as on a GPU
// but for its memory and launches.
#include <gtest/gtest.h>

#include "operators/gpu_operators_bed.hpp"
#include "support/expect_error.hpp"

namespace mgi::operators::on_gpu {
namespace {

using namespace mgi::test::plain;

TEST_P(GpuOperators, GroupsByKeysOfEachType) {
    for (Type const& type : {boolean(), int8(), uint16(), int32(), uint64(), int64(), float32(),
                             float64(), date32(), decimal128(15, 2), fixed_size_binary(3),
                             fixed_size_binary(8), fixed_size_binary(20), string(), binary()}) {
        for (bool const nullable : {false, true}) {
            SCOPED_TRACE(type.to_string() + (nullable ? "?" : ""));
            Schema const schema{{"key", type, nullable}, {"value", int64(), nullable}};
            expect_groups(random_table(schema, 3000, 700, 1, true), {"key"},
                          {{F::Count, "", "rows"}, {F::Min, "value", "min"}});
        }
    }
}

TEST_P(GpuOperators, AggregatesColumnsOfEachType) {
    for (Type const& type :
         {int8(), uint16(), int32(), int64(), float32(), float64(), decimal128(15, 2)}) {
        for (bool const nullable : {false, true}) {
            for (u64 const groups : {3u, 900u}) {
                SCOPED_TRACE(type.to_string() + (nullable ? "? " : " ") + std::to_string(groups));
                PlainTable table = random_table(Schema{{"key", int32()}, {"value", type, nullable}},
                                                4000, 5000, 2);
                for (Row& row : table.rows) row[0].word %= groups;
                expect_groups(table, {"key"}, every_aggregate("value"));
            }
        }
    }
}

TEST_P(GpuOperators, ExtremesOfDatesBoolsAndNans) {
    Schema const schema{{"key", int16(), true},
                        {"day", date32(), true},
                        {"flag", boolean()},
                        {"x", float32(), true},
                        {"y", uint64()}};
    expect_groups(random_table(schema, 3000, 300, 3, true), {"key"},
                  {{F::Min, "day", "a"},
                   {F::Max, "day", "b"},
                   {F::Min, "flag", "c"},
                   {F::Max, "x", "d"},
                   {F::Min, "x", "e"},
                   {F::Max, "y", "f"}});
}

TEST_P(GpuOperators, GroupsBySeveralKeys) {
    Schema const schema{{"a", int64(), true},
                        {"b", uint8(), true},
                        {"c", float64()},
                        {"d", boolean(), true},
                        {"value", int32()}};
    PlainTable const table = random_table(schema, 3000, 6, 4, true);
    expect_groups(table, {"a", "b", "c", "d"}, every_aggregate("value"));
    expect_groups(table, {"b", "d"}, every_aggregate("value"));
    expect_groups(table, {"a", "b"}, {});
}

// Where parts are folded first their states travel, each of them once.
TEST_P(GpuOperators, TakesAsManyAggregatesWhateverTheEndpoints) {
    for (u32 const columns : {16u, 17u}) {
        std::vector<Field> fields{{"key", int32()}};
        std::vector<Aggregate> wanted{{F::Count, "", "rows"}};
        // Of each column a sum and a count, and of the first no count: its nulls count the rows.
        for (u32 c = 0; c < columns; ++c) {
            std::string const name = "x" + std::to_string(c);
            bool const nullable = c != 0;
            fields.push_back({name, c % 2 == 0 ? int32() : float64(), nullable});
            for (F const function : {F::Avg, F::Sum, F::Count}) {
                wanted.push_back({function, name, name + " " + name_of(function)});
            }
        }
        PlainTable table = random_table(Schema(fields), 600, 90, 18);
        for (Row& row : table.rows) row[0].word %= 5;
        if (columns == 16) {
            expect_groups(table, {"key"}, wanted);
            continue;
        }
        auto const operation = this->operation("group_by");
        test::expect_error(ErrorCode::InvalidArgument, {"too many aggregates"},
                           [&] { group_by_on(*operation, parts_of(table), {"key"}, wanted); });
    }
}

TEST_P(GpuOperators, SumsPastWhatSixtyFourBitsOfThePartsHold) {
    Schema const schema{{"key", int32()}, {"value", int64()}};
    PlainTable table{schema, {}};
    // Sums run far past 64 bits and come back.
    for (u64 i = 0; i < 4000; ++i) {
        i64 const large = i % 2 == 0 ? 0x7000000000000000LL : -0x7000000000000000LL;
        table.rows.push_back({{true, i % 14 / 2}, {true, u64(large) + i % 5}});
    }
    expect_groups(table, {"key"}, {{F::Sum, "value", "sum"}});
    for (Row& row : table.rows) row[1].word = 0x7000000000000000ULL;
    auto const operation = this->operation("group_by");
    test::expect_error(ErrorCode::InvalidArgument, {"a sum of column 'value' does not fit"}, [&] {
        group_by_on(*operation, parts_of(table), {"key"}, {{F::Sum, "value", "sum"}});
    });
}

TEST_P(GpuOperators, GroupsOneHotKeyAmongMany) {
    PlainTable table =
        random_table(Schema{{"key", int64()}, {"value", int32()}}, 20'000, 1u << 30, 5);
    for (std::size_t i = 0; i < table.rows.size(); i += 2) table.rows[i][0].word = 7;
    expect_groups(table, {"key"}, every_aggregate("value"));
}

TEST_P(GpuOperators, JoinsKeysOfTypesThatDiffer) {
    struct {
        Type left, right;
    } const cases[] = {{int32(), int32()},
                       {int64(), int64()},
                       {int32(), uint64()},
                       {int8(), int64()},
                       {float32(), float64()},
                       {date32(), date32()},
                       {decimal128(9, 2), decimal128(30, 2)},
                       {fixed_size_binary(21), fixed_size_binary(21)},
                       {string(), string()},
                       {boolean(), boolean()}};
    for (auto const& [a, b] : cases) {
        SCOPED_TRACE(a.to_string() + " and " + b.to_string());
        PlainTable const left =
            random_table(Schema{{"key", a, true}, {"x", int16(), true}}, 700, 120, 6, true);
        PlainTable const right =
            random_table(Schema{{"id", b, true}, {"y", boolean(), true}}, 300, 110, 7, true);
        expect_joined(left, right, {{"key"}, {"id"}, {"key", "x"}, {"id", "y"}});
    }
}

TEST_P(GpuOperators, JoinsSeveralKeysAndUniqueOnes) {
    Schema const schema{{"a", int64(), true}, {"b", int32()}, {"c", float64(), true}};
    expect_joined(random_table(schema, 900, 20, 8), random_table(schema, 500, 20, 9),
                  {{"a", "b"}, {"a", "b"}, {"a", "c"}, {"c"}});
    PlainTable unique{Schema{{"id", int64()}, {"name", int32()}}, {}};
    for (u64 i = 0; i < 5000; ++i) unique.rows.push_back({{true, i * 3}, {true, i}});
    PlainTable const left =
        random_table(Schema{{"key", int64()}, {"x", float32()}}, 9000, 30'000, 10);
    expect_joined(left, unique, {{"key"}, {"id"}, {"x"}, {"name"}});
}

// Without a list of the right's columns, as with SQL's USING.
TEST_P(GpuOperators, KeysOfEqualNamesHoldEitherSides) {
    Schema const schema{{"a", int64(), true}, {"b", int8()}, {"x", float32(), true}};
    for (std::size_t const rows : {200u, 900u}) {
        PlainTable const left = random_table(schema, 500, 25, 15);
        PlainTable right = random_table(schema, rows, 25, 16);
        right.schema = Schema{{"a", int64(), true}, {"b", int8()}, {"y", float32(), true}};
        for (JoinKind const kind : {JoinKind::Left, JoinKind::Right, JoinKind::Full}) {
            SCOPED_TRACE(name_of(kind));
            auto const operation = this->operation("join");
            auto const results = join_on(*operation, parts_of(left), parts_of(right),
                                         {{"a", "b"}, {"a", "b"}, {}, {}, kind});
            EXPECT_EQ(results[0].schema.size(), 4u);
            Rows expected;
            for (Row const& row : join(left, right, {"a", "b"}, {"a", "b"}, {"a", "b", "x"},
                                       {"a", "b", "y"}, kind)) {
                // Key b is never null, but where there is no left row.
                bool const of_left = row[1].valid;
                expected.push_back(
                    {of_left ? row[0] : row[3], of_left ? row[1] : row[4], row[2], row[5]});
            }
            expect_same(all_rows(results), sorted(expected));
        }
    }
}

TEST_P(GpuOperators, JoinsNothingAndOneHotKey) {
    Schema const schema{{"key", int64()}, {"x", int32()}};
    PlainTable const none{schema, {}};
    PlainTable const some = random_table(schema, 500, 50, 11);
    JoinSpec const spec{{"key"}, {"key"}, {"key", "x"}, {"x"}};
    auto const renamed = [](PlainTable table) {
        table.schema = Schema{{"key", int64()}, {"y", int32()}};
        return table;
    };
    JoinSpec const other{{"key"}, {"key"}, {"key", "x"}, {"y"}};
    expect_joined(some, renamed(none), other);
    expect_joined(none, renamed(some), other);
    PlainTable hot = some;
    for (Row& row : hot.rows) row[0].word = 5;
    expect_joined(hot, renamed(hot), other);
}

TEST_P(GpuOperators, NamesColumnsAsOnCpuDevices) {
    Schema const schema{{"key", int64()}, {"x", int32()}};
    PlainTable const table = random_table(schema, 50, 20, 12);
    auto const operation = this->operation("join");
    auto const results =
        join_on(*operation, parts_of(table), parts_of(table), {{"key"}, {"key"}, {}, {}});
    EXPECT_EQ(results[0].schema.to_string(), "key: int64, x: int32, x_right: int32");
}

TEST_P(GpuOperators, ExchangesEveryRowToWhoOwnsItsKey) {
    Schema const schema{{"key", int32(), true},
                        {"a", int8()},
                        {"b", boolean(), true},
                        {"c", float64(), true},
                        {"d", uint16()},
                        {"e", boolean()},
                        {"f", decimal128(15, 2), true},
                        {"g", fixed_size_binary(12)},
                        {"h", string(), true},
                        {"i", binary()}};
    PlainTable const table = random_table(schema, 7001, 500, 13);
    for (std::string const key : {"key", "modulo of key", "f", "g", "h"}) {
        bool const modulo = key == "modulo of key";
        options_.hash = modulo ? Hash::Modulo : Hash::Murmur3;
        auto const operation = this->operation("exchange");
        auto const results = exchange_on(*operation, parts_of(table), {modulo ? "key" : key});
        expect_same(all_rows(results), sorted(table.rows));
        std::size_t const column = schema.index_of(modulo ? "key" : key);
        std::map<Cell, std::size_t> owners;
        for (std::size_t e = 0; e < results.size(); ++e) {
            for (Row const& row : rows_of(batch_of_result(results[e]))) {
                EXPECT_EQ(owners.emplace(row[column], e).first->second, e);
            }
        }
        EXPECT_EQ(results[0].schema, schema);
    }
}

// As between GPUs that do not reach each other's memory.
TEST_P(GpuOperators, MovesRowsThroughAChannelToo) {
    options_.by_reference = false;
    Schema const schema{{"key", int32(), true},
                        {"a", int8()},
                        {"b", boolean(), true},
                        {"f", decimal128(15, 2), true},
                        {"g", fixed_size_binary(12)},
                        {"h", string(), true},
                        {"i", binary()}};
    PlainTable const table = random_table(schema, 3001, 500, 18);
    auto const operation = this->operation("exchange");
    expect_same(all_rows(exchange_on(*operation, parts_of(table), {"key"})), sorted(table.rows));
    expect_groups(table, {"key"}, every_aggregate("a"));
    PlainTable other = random_table(schema, 400, 300, 19);
    other.schema = Schema{{"key", int32(), true}, {"c", int8()}, {"d", boolean(), true}};
    expect_joined(table, other, {{"key"}, {"key"}, {"key", "a", "b", "h"}, {"c", "d"}});
    expect_groups(table, {"h", "b"}, every_aggregate("a"));
}

TEST_P(GpuOperators, SaysWhatItsPhasesTook) {
    Schema const schema{{"key", int64()}, {"x", int32()}};
    auto const names_after = [&](auto const& call) {
        report_ = {};
        auto const operation = this->operation("phases");
        call(*operation);
        std::vector<std::string> names;
        for (OperatorPhase const& phase : report_.phases) {
            EXPECT_GE(phase.seconds, 0);
            names.push_back(phase.name);
        }
        return names;
    };
    using Names = std::vector<std::string>;
    PlainTable const table = random_table(schema, 2000, 5000, 20);
    auto const parts = parts_of(table);
    bool const moves = endpoint_count() > 1;
    EXPECT_EQ(names_after([&](Operation& of) { exchange_on(of, parts, {"key"}); }),
              moves ? Names({"count", "exchange"}) : Names{});
    EXPECT_EQ(report_.rows, moves ? table.rows.size() : 0);
    EXPECT_EQ(report_.bytes, moves ? 12 * table.rows.size() : 0);
    EXPECT_EQ(names_after([&](Operation& of) {
                  join_on(of, parts, parts, {{"key"}, {"key"}, {"key"}, {"x"}});
              }),
              moves ? Names({"count", "exchange", "join"}) : Names({"join"}));
    EXPECT_EQ(names_after(
                  [&](Operation& of) { group_by_on(of, parts, {"key"}, {{F::Sum, "x", "sum"}}); }),
              moves ? Names({"count", "exchange", "fold"}) : Names({"count", "fold"}));
}

TEST_P(GpuOperators, ReadsColumnsFromTheirOffsets) {
    Schema const schema{{"key", int32(), true}, {"flag", boolean(), true}};
    PlainTable const table = random_table(schema, 500, 9, 14);
    PlainTable cut{schema, {table.rows.begin() + 37, table.rows.end()}};
    std::vector<GpuTable> parts(endpoint_count());
    parts[0] = on_host(batch_of(table, 0, table.rows.size()));
    for (GpuColumn& column : parts[0].columns) column.offset = 37;
    parts[0].rows -= 37;
    std::vector<Aggregate> const wanted{{F::Count, "", "n"}, {F::Max, "flag", "any"}};
    auto const operation = this->operation("group_by");
    expect_same(all_rows(group_by_on(*operation, parts, {"key"}, wanted)),
                sorted(group_by(cut, {"key"}, wanted)));
    expect_same(all_rows(exchange_on(*operation, parts, {"key"})), sorted(cut.rows));
}

TEST_P(GpuOperators, SaysWhatItCannotTake) {
    PlainTable const table = random_table(Schema{{"key", int32()}, {"x", date32()}}, 10, 5, 15);
    auto const operation = this->operation("group_by");
    auto const refused = [&](std::string const& text, auto const& call) {
        test::expect_error(ErrorCode::InvalidArgument, {text}, call);
    };
    refused("no column 'nokey'; there are: key, x",
            [&] { group_by_on(*operation, parts_of(table), {"nokey"}, {}); });
    refused("sum of column 'x', which is date32",
            [&] { group_by_on(*operation, parts_of(table), {"key"}, {{F::Sum, "x", "s"}}); });
    refused("has no name",
            [&] { group_by_on(*operation, parts_of(table), {"key"}, {{F::Count, "x", ""}}); });
    refused("key column 'key' is given twice",
            [&] { group_by_on(*operation, parts_of(table), {"key", "key"}, {}); });
    refused("no key columns", [&] { exchange_on(*operation, parts_of(table), {}); });
    std::vector<GpuTable> texts(endpoint_count());
    texts[0].schema = Schema{{"name", string()}};
    texts[0].columns.resize(1);
    texts[0].gpu = -1;
    texts[0].rows = 1;
    texts[0].columns[0].encoding = Encoding::Views;
    refused("column 'name' is string, and does not lie by offsets",
            [&] { exchange_on(*operation, texts, {"name"}); });
    refused("cast one of them", [&] {
        join_on(*operation, parts_of(table), parts_of(table), {{"key"}, {"x"}, {}, {}});
    });
    auto none = parts_of(table);
    none[0].schema = {};
    none[0].columns.clear();
    refused("part 0 has no columns", [&] { exchange_on(*operation, none, {"key"}); });
    auto odd = parts_of(table);
    odd[0].columns[0].values = static_cast<char const*>(odd[0].columns[0].values) + 1;
    refused("column 'key' has its values at an address that is no multiple of 4",
            [&] { exchange_on(*operation, odd, {"key"}); });
}

TEST_P(GpuOperators, StaysWithinItsLimitOfMemory) {
    options_.receive_limit = 100'000;
    PlainTable const table =
        random_table(Schema{{"key", int64()}, {"x", int64()}}, 60'000, 1u << 30, 16);
    auto const operation = this->operation("group_by");
    test::expect_error(ErrorCode::OutOfMemory, {"receive_limit"}, [&] {
        group_by_on(*operation, parts_of(table), {"key"}, {{F::Sum, "x", "s"}});
    });
}

TEST_P(GpuOperators, StopsWhenTheCallerCancels) {
    std::atomic<bool> const cancel{true};
    options_.cancel = &cancel;
    PlainTable const table = random_table(Schema{{"key", int64()}}, 100, 50, 17);
    auto const operation = this->operation("group_by");
    test::expect_error(ErrorCode::Interrupted, {"stopped"},
                       [&] { group_by_on(*operation, parts_of(table), {"key"}, {}); });
}

INSTANTIATE_TEST_SUITE_P(EndpointsAndThreads, GpuOperators,
                         ::testing::Values(std::tuple{1u, 1u}, std::tuple{1u, 2u},
                                           std::tuple{3u, 1u}, std::tuple{3u, 2u}),
                         [](auto const& of) {
                             return std::to_string(std::get<0>(of.param)) + "Endpoints" +
                                    std::to_string(std::get<1>(of.param)) + "Threads";
                         });

}  // namespace
}  // namespace mgi::operators::on_gpu
