// Operators of GPUs over tables in the host's memory, in rounds, by one process and by several.
#include <gtest/gtest.h>

#include "operators/host_rounds_bed.hpp"
#include "support/expect_error.hpp"
#include "support/hang_guard.hpp"

namespace mgi::operators::on_gpu {
namespace {

using test::Came;
using test::Job;
using test::Random;
using test::ThreadAsProcess;
using F = AggregateFunction;

constexpr u64 kAnyKey = 1u << 30;

// With no limit there is one round.
class HostOperatorsProperty : public ::testing::TestWithParam<int> {
protected:
    Random random_{4000 + u64(GetParam())};
    std::size_t const processes_ = 1 + random_.below(3);
    std::vector<std::size_t> const owners_ =
        test::random_owners(random_, processes_, random_.below(3));
    std::size_t const endpoints_ = owners_.size();
    Schema const schema_{{"key", int64(), true}, {"x", int32(), true},
                         {"flag", boolean()},    {"name", string(), true},
                         {"code", binary()},     {"price", decimal128(20, 2), true}};
    std::string const key_ = random_.below(2) == 0 ? "key" : "name";
    bool const limited_ = random_.below(4) != 0;
    OperatorReport report_;

    // What all processes come to; `work(operators, parts)` runs in each, with its own parts.
    template <class Work>
    std::vector<Table> run(std::vector<std::vector<Table>> const& tables, u64 limit,
                           Work const& work) {
        OperatorOptions options;
        if (limited_) options.receive_limit = limit;
        options.by_reference = random_.below(4) != 0;
        std::vector<OperatorReport> reports(processes_);
        Job job{processes_, owners_};
        auto came = job.run([&](ThreadAsProcess& process, std::size_t me) {
            std::vector<std::vector<Table>> own;
            for (auto const& parts : tables) own.push_back(job.own(parts, me));
            HostOperators operators(process, job.runtime(), job.endpoints(), options, &reports[me]);
            return work(operators, own);
        });
        auto const results = job.result(came);
        for (OperatorReport const& one : reports) EXPECT_EQ(one.rounds, reports[0].rounds);
        report_ = reports[0];
        return results;
    }
};

TEST_P(HostOperatorsProperty, Exchange) {
    PlainTable const table = random_table(schema_, random_.below(5000), 700, u64(GetParam()));
    auto const results = run({host_parts(table, endpoints_, random_)}, 100'000,
                             [&](HostOperators& operators, auto const& parts) {
                                 return operators.exchange(parts[0], {key_});
                             });
    expect_same(rows_of_all(results), sorted(table.rows));
    std::map<Cell, std::size_t> owners;
    for (std::size_t e = 0; e < results.size(); ++e) {
        for (Row const& row : rows_of_all({results[e]})) {
            EXPECT_EQ(owners.emplace(row[schema_.index_of(key_)], e).first->second, e);
        }
    }
}

TEST_P(HostOperatorsProperty, GroupBy) {
    std::vector<Aggregate> wanted{{F::Count, "", "rows"},      {F::Count, "x", "count"},
                                  {F::Sum, "x", "sum"},        {F::Avg, "x", "avg"},
                                  {F::Min, "x", "min"},        {F::Max, "flag", "max"},
                                  {F::Variance, "x", "var"},   {F::StdDev, "x", "std"},
                                  {F::First, "flag", "any"},   {F::Sum, "price", "total"},
                                  {F::Avg, "price", "mean"},   {F::Max, "price", "most"},
                                  {F::Min, "name", "least"},   {F::Max, "code", "last"},
                                  {F::Count, "name", "names"}, {F::CountDistinct, key_, "keys"}};
    if (random_.below(2) == 0) wanted.push_back({F::CountDistinct, "code", "codes"});
    for (u64 const keys : {u64{9}, u64{700}, kAnyKey}) {
        PlainTable const table = random_table(schema_, random_.below(5000), keys, u64(GetParam()));
        auto const results = run({host_parts(table, endpoints_, random_)}, 600'000,
                                 [&](HostOperators& operators, auto const& parts) {
                                     return operators.group_by(parts[0], {key_}, wanted);
                                 });
        expect_same(rows_of_all(results), sorted(group_by(table, {key_}, wanted)),
                    rounded(1, wanted));
    }
}

TEST_P(HostOperatorsProperty, Join) {
    PlainTable const left = random_table(schema_, random_.below(3000), 500, u64(GetParam()));
    Type const key =
        key_ == "key" && random_.below(2) == 0 ? uint32() : schema_[schema_.index_of(key_)].type;
    PlainTable const right = random_table(
        Schema{
            {"id", key, random_.below(2) == 0}, {"y", float64(), true}, {"note", string(), true}},
        random_.below(random_.below(2) == 0 ? 500 : 4000), 500, 50 + u64(GetParam()));
    for (JoinKind const kind : test::kKinds) {
        SCOPED_TRACE(name_of(kind));
        bool const pairs = kind != JoinKind::Semi && kind != JoinKind::Anti;
        JoinSpec const spec{
            {key_},
            {"id"},
            {key_, "x", "code", "price"},
            pairs ? std::vector<std::string>{"y", "note"} : std::vector<std::string>{},
            kind};
        auto const results =
            run({host_parts(left, endpoints_, random_), host_parts(right, endpoints_, random_)},
                600'000, [&](HostOperators& operators, auto const& parts) {
                    return operators.join(parts[0], parts[1], spec);
                });
        expect_same(rows_of_all(results),
                    sorted(join(left, right, spec.left_keys, spec.right_keys, spec.left_columns,
                                spec.right_columns, kind)));
    }
}

TEST_P(HostOperatorsProperty, Sort) {
    PlainTable const table = random_table(schema_, random_.below(5000), 700, u64(GetParam()));
    auto const results = run({host_parts(table, endpoints_, random_)}, 400'000,
                             [&](HostOperators& operators, auto const& parts) {
                                 return operators.sort(parts[0], {{"key"}, {"x", true}});
                             });
    expect_same(rows_of_all(results), sorted(table.rows));
    // Nulls come last.
    auto const rank = [](Row const& row) {
        return std::tuple(!row[0].valid, i64(row[0].word), !row[1].valid, -i64(row[1].word));
    };
    std::vector<Row> rows;
    for (Table const& result : results) {
        for (RecordBatch const& batch : result.batches) {
            for (Row& row : rows_of(batch)) rows.push_back(std::move(row));
        }
    }
    for (std::size_t r = 1; r < rows.size(); ++r) ASSERT_LE(rank(rows[r - 1]), rank(rows[r]));
}

INSTANTIATE_TEST_SUITE_P(Seeds, HostOperatorsProperty,
                         ::testing::Range(0, test::kSanitized ? 6 : 16));

// One process with endpoints of its own.
class HostOperatorsAlone : public ::testing::Test {
protected:
    Job job_{1, {0, 0, 0}};
    Random random_{17};
    OperatorOptions options_;
    OperatorReport report_;

    template <class Work>
    std::vector<Table> run(Work const& work) {
        auto came = job_.run([&](ThreadAsProcess& process, std::size_t) {
            HostOperators operators(process, job_.runtime(), job_.endpoints(), options_, &report_);
            return work(operators);
        });
        if (came[0].failure) std::rethrow_exception(came[0].failure);
        return came[0].tables;
    }
    std::vector<Table> parts_of(PlainTable const& table) { return host_parts(table, 3, random_); }
    std::vector<std::string> phases() const {
        std::vector<std::string> names;
        for (OperatorPhase const& phase : report_.phases) names.push_back(phase.name);
        return names;
    }
};

// As in TPC-H's first query: four groups, however many rows.
TEST_F(HostOperatorsAlone, GroupsOfManyRowsComeInRounds) {
    PlainTable table = random_table(Schema{{"key", int32()}, {"x", int64(), true}}, 60'000, 900, 1);
    for (Row& row : table.rows) row[0].word %= 4;
    std::vector<Aggregate> const wanted{{F::Sum, "x", "sum"}, {F::Avg, "x", "avg"}};
    options_.receive_limit = 400'000;
    auto const results =
        run([&](HostOperators& of) { return of.group_by(parts_of(table), {"key"}, wanted); });
    expect_same(rows_of_all(results), sorted(group_by(table, {"key"}, wanted)));
    EXPECT_GT(report_.rounds, 4u);
}

// Sums of rounds leave 64 bits, and that of all rows does not.
TEST_F(HostOperatorsAlone, SumsOfRoundsMayLeaveSixtyFourBits) {
    PlainTable table{Schema{{"key", int32()}, {"x", int64()}}, {}};
    for (u64 i = 0; i < 20'000; ++i) {
        i64 const large = i < 10'000 ? 0x7000000000000000LL : -0x7000000000000000LL;
        table.rows.push_back({{true, i % 3}, {true, u64(large) + i % 5}});
    }
    std::vector<Aggregate> const wanted{{F::Sum, "x", "sum"}, {F::Count, "x", "count"}};
    options_.receive_limit = 200'000;
    auto const results =
        run([&](HostOperators& of) { return of.group_by(parts_of(table), {"key"}, wanted); });
    expect_same(rows_of_all(results), sorted(group_by(table, {"key"}, wanted)));
    EXPECT_GT(report_.rounds, 2u);
    for (Row& row : table.rows) row[1].word = 0x7000000000000000ULL;
    test::expect_error(ErrorCode::InvalidArgument, {"a sum of column 'x' does not fit int64"}, [&] {
        run([&](HostOperators& of) { return of.group_by(parts_of(table), {"key"}, wanted); });
    });
}

// Columns of one batch at the first endpoint.
std::vector<Table> one_batch(Schema const& schema, i64 rows,
                             std::vector<void const*> const& columns) {
    RecordBatch batch;
    batch.schema = schema;
    batch.rows = rows;
    for (void const* values : columns) {
        Column column;
        column.values = values;
        batch.columns.push_back(column);
    }
    std::vector<Table> parts(3);
    for (Table& part : parts) part.schema = schema;
    parts[0].batches.push_back(std::move(batch));
    return parts;
}

// The same of decimals and 38 digits, and even of 128 bits.
TEST_F(HostOperatorsAlone, DecimalSumsOfRoundsMayLeaveTheirDigits) {
    using Digits = __int128;
    Digits most = 1;
    for (int digit = 0; digit < 38; ++digit) most *= 10;
    --most;
    std::vector<i64> keys;
    std::vector<Digits> values;
    for (i64 i = 0; i < 6'000; ++i) {
        keys.push_back(i % 3);
        values.push_back((i < 3'000 ? most : -most) + i % 7);
    }
    std::vector<Aggregate> const wanted{{F::Sum, "x", "sum"}, {F::Avg, "x", "mean"}};
    options_.receive_limit = 100'000;
    Schema const schema{{"key", int64()}, {"x", decimal128(38, 2)}};
    auto const sums = [&] {
        return run([&](HostOperators& of) {
            return of.group_by(one_batch(schema, i64(keys.size()), {keys.data(), values.data()}),
                               {"key"}, wanted);
        });
    };
    std::size_t groups = 0;
    for (Table const& result : sums()) {
        for (RecordBatch const& batch : result.batches) {
            EXPECT_EQ(batch.schema[1].type, decimal128(38, 2));
            for (i64 row = 0; row < batch.rows; ++row, ++groups) {
                Digits expected = 0;
                for (i64 i = batch.values<i64>(0)[row]; i < 6'000; i += 3) expected += i % 7;
                EXPECT_TRUE(batch.values<Digits>(1)[row] == expected);
                EXPECT_NEAR(batch.values<double>(2)[row], double(expected) / 2000 / 100, 1e-12);
            }
        }
    }
    EXPECT_EQ(groups, 3u);
    EXPECT_GT(report_.rounds, 2u);
    for (Digits& value : values) value = most;
    test::expect_error(ErrorCode::InvalidArgument, {"a sum of column 'x' does not fit 38 digits"},
                       [&] { (void)sums(); });
}

// Each round has all rows of some keys, whatever they count in.
TEST_F(HostOperatorsAlone, KeysOfOtherUnitsComeTogetherInRounds) {
    constexpr i64 kRows = 6'000;
    std::vector<i64> halves;
    std::vector<std::int32_t> days;
    for (i64 i = 0; i < kRows; ++i) {
        halves.push_back(43'200'000 * (i - 2'000));
        days.push_back(std::int32_t(i - 2'000));
    }
    options_.receive_limit = 100'000;
    auto const results = run([&](HostOperators& of) {
        return of.join(
            one_batch(Schema{{"at", timestamp(TimeUnit::Milli)}}, kRows, {halves.data()}),
            one_batch(Schema{{"day", date32()}}, kRows, {days.data()}), {{"at"}, {"day"}, {}, {}});
    });
    i64 pairs = 0;
    for (Table const& result : results) {
        for (RecordBatch const& batch : result.batches) {
            pairs += batch.rows;
            for (i64 row = 0; row < batch.rows; ++row) {
                EXPECT_EQ(batch.values<i64>(0)[row],
                          i64{86'400'000} * batch.values<std::int32_t>(1)[row]);
            }
        }
    }
    EXPECT_EQ(pairs, kRows / 2);  // from -1000 to 1999 days
    EXPECT_GT(report_.rounds, 2u);
}

TEST_F(HostOperatorsAlone, ReportsRoundsAndPhases) {
    Schema const schema{{"key", int64()}, {"x", int32()}};
    PlainTable const table = random_table(schema, 20'000, kAnyKey, 2);
    auto const join = [&] {
        return run([&](HostOperators& of) {
            return of.join(parts_of(table), parts_of(table),
                           {{"key"}, {"key"}, {"key"}, {"x"}, JoinKind::Inner});
        });
    };
    Rows const expected = rows_of_all(join());
    EXPECT_EQ(report_.rounds, 1u);
    options_.receive_limit = 600'000;
    expect_same(rows_of_all(join()), expected);
    EXPECT_GE(report_.rounds, 2u);
    EXPECT_GT(report_.rows, 0u);
    EXPECT_FALSE(report_.built.empty());
    for (std::string const name :
         {"partition", "upload", "count", "exchange", "join", "download"}) {
        auto const names = phases();
        EXPECT_EQ(std::count(names.begin(), names.end(), name), 1) << name;
    }
}

// They match nothing, so they need not be in one round.
TEST_F(HostOperatorsAlone, NullKeysOfAJoinAreNoKey) {
    Schema const schema{{"key", int64(), true}, {"name", string()}};
    PlainTable left = random_table(schema, 20'000, 5000, 10);
    for (std::size_t i = 0; i < left.rows.size(); ++i) {
        if (i % 5 != 0) left.rows[i][0] = {false, 0};
    }
    PlainTable const right = random_table(Schema{{"id", int32()}}, 900, 5000, 11);
    options_.receive_limit = 400'000;
    for (JoinKind const kind : {JoinKind::Full, JoinKind::Anti}) {
        bool const pairs = kind == JoinKind::Full;
        JoinSpec const spec{{"key"},
                            {"id"},
                            {"key", "name"},
                            pairs ? std::vector<std::string>{"id"} : std::vector<std::string>{},
                            kind};
        auto const joined =
            run([&](HostOperators& of) { return of.join(parts_of(left), parts_of(right), spec); });
        expect_same(rows_of_all(joined), sorted(join(left, right, spec.left_keys, spec.right_keys,
                                                     spec.left_columns, spec.right_columns, kind)));
        EXPECT_GT(report_.rounds, 4u);
    }
}

TEST_F(HostOperatorsAlone, OneKeyThatDoesNotFitIsAnError) {
    PlainTable table = random_table(Schema{{"key", int64()}, {"x", int32()}}, 3000, 900, 3);
    for (Row& row : table.rows) row[0].word = 7;
    options_.receive_limit = 200'000;
    test::expect_error(ErrorCode::OutOfMemory, {"receive_limit", "rows of one key alone"}, [&] {
        run([&](HostOperators& of) {
            return of.join(parts_of(table), parts_of(table),
                           {{"key"}, {"key"}, {"key"}, {}, JoinKind::Inner});
        });
    });
    options_.receive_limit = 100;
    test::expect_error(ErrorCode::OutOfMemory, {"receive_limit", "one row"}, [&] {
        run([&](HostOperators& of) { return of.exchange(parts_of(table), {"key"}); });
    });
}

TEST_F(HostOperatorsAlone, SortsInRoundsOfRanges) {
    PlainTable const table = random_table(Schema{{"key", int64()}}, 20'000, kAnyKey, 5);
    options_.receive_limit = 100'000;
    auto const results =
        run([&](HostOperators& of) { return of.sort(parts_of(table), {{"key", true}}); });
    EXPECT_GT(report_.rounds, 3U);
    std::vector<i64> keys;
    for (Table const& result : results) {
        EXPECT_LT(result.rows(), 20'000 / 3 * 1.3);
        for (RecordBatch const& batch : result.batches) {
            for (Row const& row : rows_of(batch)) keys.push_back(i64(row[0].word));
        }
    }
    EXPECT_TRUE(std::is_sorted(keys.rbegin(), keys.rend()));
    expect_same(rows_of_all(results), sorted(table.rows));
}

// What a sort takes beside its rows does not depend on how wide they are.
TEST_F(HostOperatorsAlone, SortsNarrowRowsInRounds) {
    for (Type const& type : {int8(), int32()}) {
        PlainTable const table = random_table(Schema{{"key", type}}, 20'000, 200, 6);
        options_.receive_limit = 100'000;
        expect_same(rows_of_all(run(
                        [&](HostOperators& of) { return of.sort(parts_of(table), {{"key"}}); })),
                    sorted(table.rows));
        EXPECT_GT(report_.rounds, 3U);
    }
}

// Rows of one key come to one endpoint in one round.
TEST_F(HostOperatorsAlone, ASortWhoseRangeDoesNotFitIsAnError) {
    PlainTable const table = random_table(Schema{{"key", int64()}}, 20'000, 1, 5);
    options_.receive_limit = 100'000;
    test::expect_error(ErrorCode::OutOfMemory, {"one range of keys", "receive_limit"}, [&] {
        run([&](HostOperators& of) { return of.sort(parts_of(table), {{"key"}}); });
    });
}

TEST_F(HostOperatorsAlone, ResultsStayWithinTheHostsMemory) {
    PlainTable const table =
        random_table(Schema{{"key", int64()}, {"x", int32()}}, 9000, kAnyKey, 4);
    options_.spill_limit = 50'000;
    test::expect_error(ErrorCode::OutOfMemory, {"48.8 KiB", "spill_limit"}, [&] {
        run([&](HostOperators& of) { return of.exchange(parts_of(table), {"key"}); });
    });
    options_.spill_limit = 10'000;
    options_.receive_limit = 400'000;
    test::expect_error(ErrorCode::OutOfMemory, {"group_by", "spill_limit"}, [&] {
        run([&](HostOperators& of) {
            return of.group_by(parts_of(table), {"key"}, {{F::CountDistinct, "x", "n"}});
        });
    });
}

TEST_F(HostOperatorsAlone, SaysWhatItCannotTake) {
    PlainTable const table = random_table(Schema{{"key", int32()}, {"x", date32()}}, 40, 5, 5);
    auto const refused = [&](std::string const& text, auto const& call) {
        test::expect_error(ErrorCode::InvalidArgument, {text}, [&] { run(call); });
    };
    refused("no column 'nokey'; there are: key, x",
            [&](HostOperators& of) { return of.exchange(parts_of(table), {"nokey"}); });
    refused("cast one of them", [&](HostOperators& of) {
        return of.join(parts_of(table), parts_of(table), {{"key"}, {"x"}, {}, {}, JoinKind::Inner});
    });
    for (u64 const limit : {0u, 4000u}) {
        options_.receive_limit = limit;
        refused("sum of column 'x', which is date32", [&](HostOperators& of) {
            return of.group_by(parts_of(table), {"key"}, {{F::Sum, "x", "s"}});
        });
        refused("two columns of the result are named 'key'", [&](HostOperators& of) {
            return of.group_by(parts_of(table), {"key"}, {{F::Count, "", "key"}});
        });
    }
}

// Columns that nobody asks for do not go to the GPUs, and name the right's ones all the same.
TEST_F(HostOperatorsAlone, ColumnsThatAreNotWantedKeepTheirNames) {
    Schema const schema{{"key", int64()}, {"x", int32()}, {"wide", fixed_size_binary(4000)}};
    PlainTable const table = random_table(schema, 60, 30, 9);
    options_.receive_limit = 100'000;
    auto const joined = run([&](HostOperators& of) {
        return of.join(parts_of(table), parts_of(table),
                       {{"key"}, {"key"}, {"key"}, {"x"}, JoinKind::Left});
    });
    EXPECT_EQ(joined[0].schema.to_string(), "key: int64, x_right: int32?");
    EXPECT_EQ(report_.rounds, 1u);
    expect_same(rows_of_all(joined),
                sorted(join(table, table, {"key"}, {"key"}, {"key"}, {"x"}, JoinKind::Left)));
    auto const grouped = run([&](HostOperators& of) {
        return of.group_by(parts_of(table), {"key"}, {{F::Max, "x", "wide"}});
    });
    EXPECT_EQ(grouped[0].schema.to_string(), "key: int64, wide: int32");
    EXPECT_EQ(report_.rounds, 1u);
}

TEST_F(HostOperatorsAlone, StopsWhenTheCallerCancels) {
    std::atomic<bool> const cancel{true};
    options_.cancel = &cancel;
    PlainTable const table = random_table(Schema{{"key", int64()}}, 100, 50, 6);
    test::expect_error(ErrorCode::Interrupted, {"stopped"}, [&] {
        run([&](HostOperators& of) { return of.exchange(parts_of(table), {"key"}); });
    });
}

TEST_F(HostOperatorsAlone, TakesTablesWithoutRows) {
    PlainTable const none{Schema{{"key", int64()}, {"name", string(), true}}, {}};
    auto const grouped = run([&](HostOperators& of) {
        return of.group_by(parts_of(none), {"name"}, {{F::Max, "key", "m"}});
    });
    EXPECT_EQ(grouped[0].schema.to_string(), "name: string?, m: int64");
    EXPECT_EQ(rows_of_all(grouped).size(), 0u);
    auto const moved =
        run([&](HostOperators& of) { return of.exchange(parts_of(none), {"name"}); });
    EXPECT_EQ(moved[2].schema, none.schema);
}

// What one process lacks memory for fails in both, and what one has no limit for too.
TEST(HostOperatorProcesses, FailTogether) {
    Job job{2, {0, 1}};
    Random random{8};
    PlainTable const table =
        random_table(Schema{{"key", int64()}, {"x", int32()}}, 9000, kAnyKey, 7);
    auto const parts = host_parts(table, 2, random);
    auto const came = job.run([&](ThreadAsProcess& process, std::size_t me) {
        OperatorOptions options;
        if (me == 1) options.spill_limit = 1000;
        HostOperators operators(process, job.runtime(), job.endpoints(), options);
        return operators.exchange(job.own(parts, me), {"key"});
    });
    for (std::string const& text : test::texts_of(came, ErrorCode::OutOfMemory)) {
        test::expect_words(text, {"spill_limit"});
    }
}

}  // namespace
}  // namespace mgi::operators::on_gpu
