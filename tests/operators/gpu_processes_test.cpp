// The operators of GPUs, on threads of the host, whose endpoints belong to several processes, which are threads too.
#include <gtest/gtest.h>

#include "operators/gpu/group_by.hpp"
#include "operators/gpu/join.hpp"
#include "operators/host_tables.hpp"
#include "operators/host_windows.hpp"
#include "operators/job.hpp"
#include "support/hang_guard.hpp"

namespace mgi::operators::on_gpu {
namespace {

using namespace mgi::test::plain;
using test::Came;
using test::Job;
using test::Random;
using test::ThreadAsProcess;
using F = AggregateFunction;

constexpr u64 kAnyKey = 1u << 30;

/// What processes have of windows.
enum class Share { Nothing, Windows, NotTheFirst };

std::function<std::shared_ptr<GpuWindows>()> windows_of(Share share, std::size_t process) {
    if (share == Share::Nothing) return [] { return nullptr; };
    bool const opens = share == Share::Windows || process != 0;
    return [windows = std::make_shared<HostWindows>(opens)] { return windows; };
}

/// What a process does with its parts of a table, or of two.
using Work = std::function<std::vector<GpuTable>(Operation&, std::vector<std::vector<GpuTable>>&)>;

/// Rows dealt out to the endpoints; some have none.
std::vector<GpuTable> deal(PlainTable const& table, std::size_t endpoints, Random& random) {
    std::vector<std::size_t> cuts{0, table.rows.size()};
    while (cuts.size() <= endpoints) cuts.push_back(random.below(table.rows.size() + 1));
    std::sort(cuts.begin(), cuts.end());
    std::vector<GpuTable> parts;
    for (std::size_t e = 0; e < endpoints; ++e) {
        parts.push_back(on_host(batch_of(table, cuts[e], cuts[e + 1] - cuts[e])));
    }
    return parts;
}

/// Runs an operator in every process of a job, each with its own of the parts.
std::vector<Came> run(Job& job, std::string const& what,
                      std::vector<std::vector<GpuTable>> const& tables, Work const& work,
                      OperatorOptions const& options = {}, u32 threads = 1,
                      Share share = Share::Nothing) {
    return job.run([&](ThreadAsProcess& process, std::size_t me) {
        process.windows_of = windows_of(share, me);
        auto own = tables;
        for (auto& parts : own) {
            for (std::size_t e = 0; e < parts.size(); ++e) {
                if (!process.mine(job.endpoints()[e])) parts[e] = {};
            }
        }
        Operation operation(process, what, job.runtime(), job.endpoints(), options,
                            places_on_host(threads));
        auto const results = operation.perform([&] { return work(operation, own); });
        EXPECT_EQ(process.channels() == 0, share == Share::Windows && options.by_reference);
        if (share != Share::Nothing) {
            EXPECT_TRUE(static_cast<HostWindows&>(*process.windows()).all_closed());
        }
        return tables_of(results);
    });
}

Rows rows_of_all(std::vector<Table> const& tables) {
    Rows rows;
    for (Table const& table : tables) {
        for (RecordBatch const& batch : table.batches) {
            for (Row& row : rows_of(batch)) rows.push_back(std::move(row));
        }
    }
    return sorted(rows);
}

class GpuOperatorProcessesProperty : public ::testing::TestWithParam<int> {
protected:
    Random random_{700 + u64(GetParam())};
    std::size_t const processes_ = 2 + random_.below(2);
    std::vector<std::size_t> const owners_ =
        test::random_owners(random_, processes_, random_.below(3));
    std::size_t const endpoints_ = owners_.size();
    Job job_{processes_, owners_};
    u32 const threads_ = 1 + u32(random_.below(2));
    Share const share_ = Share(GetParam() % 3);
    Schema const schema_{{"key", int64(), true}, {"x", int32(), true},
                         {"flag", boolean()},    {"name", string(), true},
                         {"code", binary()},     {"price", decimal128(20, 2), true}};
    // Of integers or of texts.
    std::string const key_ = random_.below(2) == 0 ? "key" : "name";
};

TEST_P(GpuOperatorProcessesProperty, Exchange) {
    PlainTable const table = random_table(schema_, random_.below(5000), 700, u64(GetParam()));
    auto came = run(
        job_, "exchange", {deal(table, endpoints_, random_)},
        [&](Operation& operation, auto& parts) { return exchange_on(operation, parts[0], {key_}); },
        {}, threads_, share_);
    auto const results = job_.result(came);
    EXPECT_EQ(results[0].schema, schema_);
    expect_same(rows_of_all(results), sorted(table.rows));
    std::map<Cell, std::size_t> owners;
    for (std::size_t e = 0; e < results.size(); ++e) {
        for (Row const& row : rows_of_all({results[e]})) {
            EXPECT_EQ(owners.emplace(row[schema_.index_of(key_)], e).first->second, e);
        }
    }
}

// Few keys are folded where their rows lie, many as they arrive.
TEST_P(GpuOperatorProcessesProperty, GroupBy) {
    std::vector<Aggregate> const wanted{{F::Count, "", "rows"},
                                        {F::Count, "x", "count"},
                                        {F::Sum, "x", "sum"},
                                        {F::Avg, "x", "avg"},
                                        {F::Min, "x", "min"},
                                        {F::Max, "flag", "max"},
                                        {F::Variance, "x", "var"},
                                        {F::First, "flag", "any"},
                                        {F::CountDistinct, "x", "values"},
                                        {F::CountDistinct, "flag", "flags"},
                                        {F::CountDistinct, "code", "codes"}};
    for (u64 const keys : {u64{9}, kAnyKey}) {
        Job job{processes_, owners_};
        PlainTable const table = random_table(schema_, random_.below(5000), keys, u64(GetParam()));
        auto came = run(
            job, "group_by", {deal(table, endpoints_, random_)},
            [&](Operation& operation, auto& parts) {
                return group_by_on(operation, parts[0], {key_}, wanted);
            },
            {}, threads_, share_);
        expect_same(rows_of_all(job.result(came)), sorted(group_by(table, {key_}, wanted)),
                    rounded(1, wanted));
    }
}

TEST_P(GpuOperatorProcessesProperty, Join) {
    PlainTable const left = random_table(schema_, random_.below(3000), 500, u64(GetParam()));
    Type const key = schema_[schema_.index_of(key_)].type;
    PlainTable const right =
        random_table(Schema{{"id", key, true}, {"y", float64(), true}, {"note", string(), true}},
                     random_.below(random_.below(2) == 0 ? 500 : 4000), 500, 50 + u64(GetParam()));
    JoinKind const kind = test::kKinds[random_.below(std::size(test::kKinds))];
    bool const pairs = kind != JoinKind::Semi && kind != JoinKind::Anti;
    JoinSpec const spec{{key_},
                        {"id"},
                        {key_, "x", "code", "price"},
                        pairs ? std::vector<std::string>{"y", "note"} : std::vector<std::string>{},
                        kind,
                        test::random_broadcast(kind, endpoints_, random_)};
    auto came = run(
        job_, "join", {deal(left, endpoints_, random_), deal(right, endpoints_, random_)},
        [&](Operation& operation, auto& parts) {
            return join_on(operation, parts[0], parts[1], spec);
        },
        {}, threads_, share_);
    expect_same(rows_of_all(job_.result(came)),
                sorted(join(left, right, spec.left_keys, spec.right_keys, spec.left_columns,
                            spec.right_columns, kind)));
}

INSTANTIATE_TEST_SUITE_P(Seeds, GpuOperatorProcessesProperty,
                         ::testing::Range(0, test::kSanitized ? 6 : 18));

Job pair_of_processes() {
    return {2, {0, 1}};
}

PlainTable some_table(std::size_t rows) {
    return random_table(Schema{{"key", int64()}, {"x", int64()}}, rows, kAnyKey, 3);
}

std::vector<GpuTable> halves(PlainTable const& table) {
    std::size_t const half = table.rows.size() / 2;
    return {on_host(batch_of(table, 0, half)),
            on_host(batch_of(table, half, table.rows.size() - half))};
}

std::vector<GpuTable> exchange_by_key(Operation& operation,
                                      std::vector<std::vector<GpuTable>>& parts) {
    return exchange_on(operation, parts[0], {"key"});
}

TEST(GpuOperatorProcesses, WhatOnePartAloneHas) {
    PlainTable table = some_table(400);
    for (std::size_t first = 0; first < 2; ++first) {
        Job job = pair_of_processes();
        // Nulls, and even columns, are in the parts of one process only.
        PlainTable const nullable =
            random_table(Schema{{"key", int64(), true}, {"x", int64(), true}}, 300, kAnyKey, 4);
        std::vector<GpuTable> parts = halves(table);
        parts[first] = on_host(batch_of(nullable, 0, nullable.rows.size()));
        Rows expected = rows_of(batch_of_result(parts[1 - first]));
        expected.insert(expected.end(), nullable.rows.begin(), nullable.rows.end());
        auto came = run(job, "exchange", {parts}, exchange_by_key);
        auto const result = job.result(came);
        EXPECT_TRUE(result[0].schema[1].nullable);
        expect_same(rows_of_all(result), sorted(expected));

        Job another = pair_of_processes();
        parts[1 - first] = {};
        came = run(another, "exchange", {parts}, exchange_by_key);
        expect_same(rows_of_all(another.result(came)), sorted(nullable.rows));
    }
}

// A table that one process has made too small is made again by all.
TEST(GpuOperatorProcesses, AllBeginAgainWhereOneTableIsTooSmall) {
    PlainTable const table = some_table(40'000);
    Job job = pair_of_processes();
    auto came = run(job, "group_by", {halves(table)}, [](Operation& operation, auto& parts) {
        Input const input(operation, parts[0]);
        Wanted wanted;
        wanted.keys = {0};
        wanted.sketch = true;
        Facts facts = find_facts(operation, input, wanted);
        EXPECT_GT(facts.keys, 30'000);
        facts.keys = 10;
        std::vector<Item> items(1);
        items[0].field = {"n", int64()};
        GroupPlan const plan(input, {0}, items, facts);
        return group_moving(operation, input, {0}, plan, facts);
    });
    expect_same(rows_of_all(job.result(came)),
                sorted(group_by(table, {"key"}, {{F::Count, "", "n"}})));
}

// Rows for which one process has no room are folded as they come, in all processes.
TEST(GpuOperatorProcesses, GroupsWhereOneProcessHasNoRoomForRows) {
    PlainTable table = some_table(100'000);
    for (Row& row : table.rows) row[0].word = 1 + row[0].word % 16 * 2;  // all are endpoint 1's
    std::vector<Aggregate> const wanted{{F::Max, "x", "max"}};
    OperatorOptions options;
    options.hash = Hash::Modulo;
    for (u64 const limit : {u64{0}, u64{1} << 20}) {
        options.receive_limit = limit;
        Job job = pair_of_processes();
        auto came = job.run([&](ThreadAsProcess& process, std::size_t me) {
            process.windows_of = windows_of(Share::Windows, me);
            auto own = halves(table);
            own[1 - me] = {};
            Operation operation(process, "group_by", job.runtime(), job.endpoints(), options,
                                places_on_host(1));
            auto const results = operation.perform([&] {
                Input const input(operation, own);
                Wanted facts_wanted;
                facts_wanted.keys = {0};
                facts_wanted.sketch = true;
                facts_wanted.going = Going::ToOwners;
                Facts const facts = find_facts(operation, input, facts_wanted);
                GroupPlan const plan(input, {0}, Items(input, {0}, wanted).all, facts);
                return group_moving(operation, input, {0}, plan, facts);
            });
            EXPECT_EQ(process.channels(), limit == 0 ? 0u : 1u);
            return tables_of(results);
        });
        expect_same(rows_of_all(job.result(came)), sorted(group_by(table, {"key"}, wanted)));
    }
}

TEST(GpuOperatorProcesses, SumsThatOverflowInOneProcessFailInAll) {
    PlainTable table{Schema{{"key", int64()}, {"x", int64()}}, {}};
    for (u64 i = 0; i < 4; ++i) table.rows.push_back({{true, 1}, {true, 0x7000000000000000ULL}});
    OperatorOptions options;
    options.hash = Hash::Modulo;  // key 1 is at endpoint 1
    Job job = pair_of_processes();
    auto const came = run(
        job, "group_by", {halves(table)},
        [](Operation& operation, auto& parts) {
            return group_by_on(operation, parts[0], {"key"}, {{F::Sum, "x", "sum"}});
        },
        options);
    auto const texts = test::texts_of(came, ErrorCode::InvalidArgument);
    test::expect_words(texts[0], {"rank 1 has failed", "'x'"});
    test::expect_words(texts[1], {"a sum of column 'x'"});
}

TEST(GpuOperatorProcesses, MemoryThatOneProcessHasNot) {
    PlainTable table = some_table(60'000);
    for (Row& row : table.rows) row[0].word |= 1;
    OperatorOptions options;
    options.hash = Hash::Modulo;
    options.receive_limit = 200'000;
    for (Share const share : {Share::Nothing, Share::Windows}) {
        Job job = pair_of_processes();
        auto const came = run(job, "exchange", {halves(table)}, exchange_by_key, options, 1, share);
        auto const texts = test::texts_of(came, ErrorCode::OutOfMemory);
        test::expect_words(texts[0], {"rank 1 has failed", "receive_limit"});
    }
}

TEST(GpuOperatorProcesses, ColumnsAndCallsThatDifferAreNamed) {
    Job job = pair_of_processes();
    std::vector<GpuTable> parts = halves(some_table(10));
    parts[1].schema = Schema{{"key", int64()}, {"y", int64()}};
    for (std::string const& text : test::texts_of(run(job, "exchange", {parts}, exchange_by_key),
                                                  ErrorCode::InvalidArgument)) {
        test::expect_words(text, {"rank 1", "y: int64"});
    }
    Job another = pair_of_processes();
    auto const came = another.run([&](ThreadAsProcess& process, std::size_t me) {
        if (me == 0) {
            return exchange_among(process, another.runtime(), another.endpoints(),
                                  std::vector<Table>(2), {"key"}, {}, nullptr);
        }
        Operation operation(process, "exchange", another.runtime(), another.endpoints(), {},
                            places_on_host(1), nullptr,
                            call_of(another.endpoints(), {}, TableMemory::Gpu, {}));
        return std::vector<Table>{};
    });
    for (std::string const& text : test::texts_of(came, ErrorCode::InvalidArgument)) {
        test::expect_words(text,
                           {"tables in the memory of the host", "tables in the memory of GPUs"});
    }
}

TEST(GpuOperatorProcesses, RowsAtAnothersEndpointAreRefused) {
    Job job = pair_of_processes();
    std::vector<GpuTable> const parts = halves(some_table(10));
    auto const came = job.run([&](ThreadAsProcess& process, std::size_t me) {
        auto mine = parts;
        if (me == 0) mine[1] = {};
        Operation operation(process, "exchange", job.runtime(), job.endpoints(), {},
                            places_on_host(1));
        return tables_of(operation.perform([&] { return exchange_on(operation, mine, {"key"}); }));
    });
    auto const texts = test::texts_of(came, ErrorCode::InvalidArgument);
    test::expect_words(texts[0], {"rank 1 has failed", "part 0", "another process"});
}

TEST(GpuOperatorProcesses, OneThatCannotHaveAPlaceFailsInAll) {
    Job job = pair_of_processes();
    auto const came = job.run([&](ThreadAsProcess& process, std::size_t me) {
        Operation operation(
            process, "exchange", job.runtime(), job.endpoints(), {},
            [&](Device const&, PlaceOptions const& options) -> std::unique_ptr<Place> {
                if (me == 1) refuse("exchange", "no GPU here");
                return std::make_unique<HostPlace>(1, 1, options);
            });
        return std::vector<Table>{};
    });
    auto const texts = test::texts_of(came, ErrorCode::InvalidArgument);
    test::expect_words(texts[0], {"rank 1 has failed", "no GPU here"});
}

TEST(GpuOperatorProcesses, OneCallerCancels) {
    std::atomic<bool> cancel{false};
    Job job = pair_of_processes();
    std::vector<GpuTable> const parts = halves(some_table(2000));
    auto const came = job.run([&](ThreadAsProcess& process, std::size_t me) {
        OperatorOptions options;
        options.patience = std::chrono::seconds(5);
        if (me == 1) {
            options.cancel = &cancel;
            process.before_channel = [&] { cancel = true; };
        }
        auto mine = parts;
        mine[1 - me] = {};
        Operation operation(process, "exchange", job.runtime(), job.endpoints(), options,
                            places_on_host(1));
        return tables_of(operation.perform([&] { return exchange_on(operation, mine, {"key"}); }));
    });
    test::texts_of({came[1]}, ErrorCode::Interrupted);
    test::expect_words(test::texts_of({came[0]}, ErrorCode::GroupFailed)[0], {"rank 1"});
}

}  // namespace
}  // namespace mgi::operators::on_gpu
