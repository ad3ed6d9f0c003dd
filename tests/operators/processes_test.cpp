/// \file
/// Operators whose endpoints belong to several processes: all decide alike from what each has, and
/// what fails in one comes to all.
#include <gtest/gtest.h>

#include <atomic>
#include <limits>
#include <thread>

#include "operators/conversation.hpp"
#include "operators/job.hpp"
#include "support/expect_error.hpp"
#include "support/hang_guard.hpp"

namespace mgi::test {
namespace {

using operators::Processes;

constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();

/// 2 or 3 processes with one or more endpoints each, in any order.
Job job_in_processes(Random& random) {
    std::size_t const processes = 2 + random.below(2);
    return {processes, random_owners(random, processes, random.below(3))};
}

OperatorOptions random_options(Random& random) {
    OperatorOptions options;
    options.by_reference = random.one_in(2);
    if (random.one_in(3)) options.segment_bytes = 1U << 14;
    return options;
}

/// Rows with texts, decimals and nulls, over few keys.
std::vector<Row> some_rows(Schema const& schema, std::size_t count, std::size_t distinct,
                           Random& random) {
    CellPool const keys({"key", int64(), false}, distinct, random);
    std::vector<Row> rows = random_rows(schema, count, random);
    for (Row& row : rows) row[0] = keys.pick(random);
    return rows;
}

Schema left_schema() {
    return Schema{{"key", int64()},
                  {"name", string(), true},
                  {"amount", decimal128(12, 2), true},
                  {"flag", boolean(), true}};
}

Schema right_schema() {
    return Schema{{"id", int64()}, {"note", string(), true}, {"weight", float64(), true}};
}

class ProcessesProperty : public ::testing::TestWithParam<int> {};

TEST_P(ProcessesProperty, Exchange) {
    Random random(300 + static_cast<std::uint64_t>(GetParam()));
    Job job = job_in_processes(random);
    Schema const schema = random_schema(random, 6);
    auto const rows = random_rows(schema, random.below(3000), random);
    auto const parts = deal(schema, rows, job.endpoints().size(), random);
    OperatorOptions const options = random_options(random);
    auto came = job.run([&](Processes& processes, std::size_t me) {
        OperatorOptions mine = options;
        mine.groups = 1 + static_cast<std::uint32_t>(me % 2);
        return operators::exchange_among(processes, job.runtime(), job.endpoints(),
                                         job.own(parts, me), {schema[0].name}, mine, nullptr);
    });
    EXPECT_TRUE(same_rows(encode_all(rows_of(job.result(came))), encode_all(rows)));
}

TEST_P(ProcessesProperty, GroupBy) {
    Random random(400 + static_cast<std::uint64_t>(GetParam()));
    Job job = job_in_processes(random);
    std::size_t const distinct = random.one_in(2) ? 7 : 3000;
    auto rows = some_rows(left_schema(), random.below(4000), distinct, random);
    for (Row& row : rows) row[2] = small_cell(left_schema()[2], random);
    std::vector<Aggregate> const aggregates{{AggregateFunction::Sum, "amount", "sum"},
                                            {AggregateFunction::Avg, "amount", "average"},
                                            {AggregateFunction::Max, "name", "last"},
                                            {AggregateFunction::Count, "flag", "flags"},
                                            {AggregateFunction::StdDev, "amount", "deviation"},
                                            {AggregateFunction::First, "name", "any"},
                                            {AggregateFunction::CountDistinct, "name", "names"},
                                            {AggregateFunction::CountDistinct, "flag", "kinds"},
                                            {AggregateFunction::Count, "", "rows"}};
    auto const parts = deal(left_schema(), rows, job.endpoints().size(), random);
    OperatorOptions const options = random_options(random);
    auto came = job.run([&](Processes& processes, std::size_t me) {
        return operators::group_by_among(processes, job.runtime(), job.endpoints(),
                                         job.own(parts, me), {"key"}, aggregates, options, nullptr);
    });
    auto const result = job.result(came);
    EXPECT_TRUE(same_groups(result[0].schema, rows_of(result),
                            reference_group_by(left_schema(), rows, {"key"}, aggregates), 1));
}

TEST_P(ProcessesProperty, Join) {
    Random random(500 + static_cast<std::uint64_t>(GetParam()));
    Job job = job_in_processes(random);
    // The reference compares each row with each.
    std::size_t const most = kSanitized ? 500 : 2500;
    auto const left = some_rows(left_schema(), random.below(most), most / 3, random);
    auto const right = some_rows(right_schema(), random.below(most / 3), most / 3, random);
    std::size_t const parts = job.endpoints().size();
    auto const left_parts = deal(left_schema(), left, parts, random);
    auto const right_parts = deal(right_schema(), right, parts, random);
    OperatorOptions const options = random_options(random);
    JoinSpec spec{{"key"}, {"id"}, {}, {}, kKinds[random.below(std::size(kKinds))]};
    spec.broadcast = random_broadcast(spec.kind, parts, random);
    auto came = job.run([&](Processes& processes, std::size_t me) {
        return operators::join_among(processes, job.runtime(), job.endpoints(),
                                     job.own(left_parts, me), job.own(right_parts, me), spec,
                                     options, nullptr);
    });
    EXPECT_TRUE(same_rows(encode_all(rows_of(job.result(came))),
                          encode_all(reference_join(left_schema(), left, {"key"}, right_schema(),
                                                    right, {"id"}, spec.kind))));
}

INSTANTIATE_TEST_SUITE_P(Seeds, ProcessesProperty, ::testing::Range(0, kSanitized ? 4 : 10));

/// Two processes with an endpoint each.
Job pair_of_processes() {
    return {2, {0, 1}};
}

std::vector<Table> parts_of(Schema const& schema, std::vector<std::vector<Row>> const& rows) {
    std::vector<Table> parts;
    for (auto const& one : rows) {
        parts.emplace_back();
        if (one.empty()) continue;
        parts.back().schema = schema;
        parts.back().batches.push_back(make_batch(schema, one));
    }
    return parts;
}

std::vector<Came> exchange_parts(Job& job, std::vector<Table> const& parts,
                                 OperatorOptions const& options = {}) {
    return job.run([&](Processes& processes, std::size_t me) {
        return operators::exchange_among(processes, job.runtime(), job.endpoints(),
                                         job.own(parts, me), {"key"}, options, nullptr);
    });
}

TEST(Processes, WhatOnePartAloneHas) {
    // Nulls, long texts and even columns are in the parts of one process only.
    Schema const plain{{"key", int64()}, {"name", string()}};
    Schema const nullable{{"key", int64()}, {"name", string(), true}};
    std::vector<Row> const few{{cell(std::int64_t{1}), "a"}, {cell(std::int64_t{2}), "b"}};
    std::vector<Row> const more{{cell(std::int64_t{1}), std::nullopt},
                                {cell(std::int64_t{3}), std::string(100'000, 'x')}};
    for (std::size_t first = 0; first < 2; ++first) {
        Job job = pair_of_processes();
        std::vector<Table> parts = parts_of(plain, {few, few});
        parts[first] = parts_of(nullable, {more})[0];
        auto came = exchange_parts(job, parts);
        auto expected = encode_all(few);
        for (std::string& row : encode_all(more)) expected.push_back(row);
        auto const result = job.result(came);
        EXPECT_TRUE(same_rows(encode_all(rows_of(result)), expected));
        EXPECT_TRUE(result[0].schema[1].nullable);

        parts[1 - first] = {};
        Job another = pair_of_processes();
        came = exchange_parts(another, parts);
        EXPECT_TRUE(same_rows(encode_all(rows_of(another.result(came))), encode_all(more)));
    }
}

TEST(Processes, ColumnsThatDifferAreAnErrorInAll) {
    Job job = pair_of_processes();
    std::vector<Table> parts = parts_of(numbered_schema(), {numbered_rows(5, 5), {}});
    parts[1].schema = Schema{{"key", string()}, {"value", int64()}};
    auto const texts = texts_of(exchange_parts(job, parts), ErrorCode::InvalidArgument);
    for (std::string const& text : texts) expect_words(text, {"rank 1", "key: string"});
}

TEST(Processes, NobodyHasColumns) {
    Job job = pair_of_processes();
    auto const texts =
        texts_of(exchange_parts(job, std::vector<Table>(2)), ErrorCode::InvalidArgument);
    for (std::string const& text : texts) expect_words(text, {"no part has any columns"});
}

TEST(Processes, RowsAtAnothersEndpointAreRefused) {
    Job job = pair_of_processes();
    auto const parts = parts_of(numbered_schema(), {numbered_rows(5, 5), numbered_rows(5, 5)});
    auto const came = job.run([&](Processes& processes, std::size_t me) {
        return operators::exchange_among(processes, job.runtime(), job.endpoints(),
                                         me == 1 ? parts : job.own(parts, me), {"key"}, {},
                                         nullptr);
    });
    auto const texts = texts_of(came, ErrorCode::InvalidArgument);
    expect_words(texts[0], {"rank 1 has failed", "part 0", "another process"});
    expect_words(texts[1], {"part 0", "another process"});
    EXPECT_EQ(texts[1].find("rank"), std::string::npos) << texts[1];
}

TEST(Processes, CallsThatDifferAreNamed) {
    Job job = pair_of_processes();
    auto const parts = parts_of(numbered_schema(), {numbered_rows(5, 5), numbered_rows(5, 5)});
    auto came = job.run([&](Processes& processes, std::size_t me) {
        std::vector<std::string> const keys{me == 0 ? "key" : "value"};
        return operators::exchange_among(processes, job.runtime(), job.endpoints(),
                                         job.own(parts, me), keys, {}, nullptr);
    });
    for (std::string const& text : texts_of(came, ErrorCode::InvalidArgument)) {
        expect_words(text, {"rank 0 calls it with keys key", "rank 1 with keys value"});
    }
    Job another = pair_of_processes();
    came = another.run([&](Processes& processes, std::size_t me) {
        if (me == 0) {
            return operators::exchange_among(processes, another.runtime(), another.endpoints(),
                                             another.own(parts, me), {"key"}, {}, nullptr);
        }
        return operators::group_by_among(processes, another.runtime(), another.endpoints(),
                                         another.own(parts, me), {"key"}, {}, {}, nullptr);
    });
    for (std::string const& text : texts_of(came, ErrorCode::InvalidArgument)) {
        expect_words(text, {"operator exchange", "operator group_by"});
    }
}

TEST(Processes, AColumnThatIsMissing) {
    Job job = pair_of_processes();
    auto const parts = parts_of(numbered_schema(), {numbered_rows(5, 5), {}});
    auto const came = job.run([&](Processes& processes, std::size_t me) {
        return operators::exchange_among(processes, job.runtime(), job.endpoints(),
                                         job.own(parts, me), {"nonesuch"}, {}, nullptr);
    });
    for (std::string const& text : texts_of(came, ErrorCode::InvalidArgument)) {
        expect_words(text, {"no column 'nonesuch'", "key, value"});
    }
}

std::vector<Came> sum_by_key(Job& job, std::vector<std::vector<Row>> const& rows,
                             OperatorOptions const& options = {}) {
    auto const parts = parts_of(numbered_schema(), rows);
    return job.run([&](Processes& processes, std::size_t me) {
        return operators::group_by_among(
            processes, job.runtime(), job.endpoints(), job.own(parts, me), {"key"},
            {{AggregateFunction::Sum, "value", "sum"}}, options, nullptr);
    });
}

TEST(Processes, SumsThatLeave64BitsInOneProcess) {
    Job job = pair_of_processes();
    std::int64_t const one = 1;
    std::vector<Row> const few{{cell(one), cell(-kMost)}, {cell(one), cell(-kMost)}};
    std::vector<Row> const many{{cell(one), cell(kMost)}, {cell(one), cell(kMost)}};
    auto came = sum_by_key(job, {few, many});
    auto const result = rows_of(job.result(came));
    EXPECT_EQ(encode_all(result), encode_all({{cell(one), cell(std::int64_t{0})}}));
}

TEST(Processes, AnOverflowInOneProcessComesToAll) {
    OperatorOptions options;
    options.hash = Hash::Modulo;
    // Key 1 is at endpoint 1, so the sum is made by its process alone.
    Job job = pair_of_processes();
    std::vector<Row> const half{{cell(std::int64_t{1}), cell(kMost)}};
    auto const texts = texts_of(sum_by_key(job, {half, half}, options), ErrorCode::InvalidArgument);
    expect_words(texts[0], {"rank 1 has failed", "'value'"});
    expect_words(texts[1], {"'value'"});
}

TEST(Processes, MemoryThatOneProcessHasNot) {
    OperatorOptions options;
    options.hash = Hash::Modulo;
    options.groups = 1;
    options.receive_limit = 1U << 20;
    std::vector<Row> rows;
    for (std::int64_t key = 0; key < 60'000; ++key) rows.push_back({cell(2 * key + 1), cell(key)});
    Job job = pair_of_processes();
    auto const texts = texts_of(sum_by_key(job, {rows, {}}, options), ErrorCode::OutOfMemory);
    expect_words(texts[0], {"rank 1 has failed", "receive_limit"});
}

TEST(Processes, WhoNeverComesIsNamed) {
    Job job = pair_of_processes();
    auto const parts = parts_of(numbered_schema(), {numbered_rows(5, 5), {}});
    auto const came = job.run([&](Processes& processes, std::size_t me) {
        if (me == 1) return std::vector<Table>{};
        OperatorOptions options;
        options.patience = std::chrono::milliseconds(100);
        return operators::exchange_among(processes, job.runtime(), job.endpoints(),
                                         job.own(parts, me), {"key"}, options, nullptr);
    });
    EXPECT_EQ(came[1].failure, nullptr);
    expect_words(texts_of({came[0]}, ErrorCode::Timeout)[0], {"patience", "rank 1"});
}

TEST(Processes, WhoCannotEvenCallIsHeardAndTheNextCallIsOneOfAll) {
    Job job{3, {0, 1, 2}};
    auto const parts = parts_of(numbered_schema(), {numbered_rows(5, 5), numbered_rows(5, 5), {}});
    auto const came = job.run([&](Processes& processes, std::size_t me) {
        std::vector<Table> const own = job.own(parts, me);
        auto const exchange = [&] {
            return operators::exchange_among(processes, job.runtime(), job.endpoints(), own,
                                             {"key"}, {}, nullptr);
        };
        if (me == 1) {
            Error const why(ErrorCode::Refused, "its tables cannot be read");
            operators::Conversation(processes, "exchange", {}, {})
                .give_up(std::make_exception_ptr(why));
        } else {
            expect_error(ErrorCode::Refused, {"exchange: rank 1 has failed: its tables"}, exchange);
        }
        return exchange();
    });
    for (Came const& one : came) EXPECT_EQ(one.failure, nullptr);
}

TEST(Processes, AChannelThatCannotBeMade) {
    Job job{3, {2, 0, 1}};
    auto const parts = parts_of(numbered_schema(), {numbered_rows(5, 5), {}, {}});
    auto const came = job.run([&](ThreadAsProcess& processes, std::size_t me) {
        // It fails in all of them, as it does; each has a text of its own.
        processes.before_channel = [me] {
            throw Error(ErrorCode::OutOfMemory, "no room at " + std::to_string(me));
        };
        return operators::exchange_among(processes, job.runtime(), job.endpoints(),
                                         job.own(parts, me), {"key"}, {}, nullptr);
    });
    auto const texts = texts_of(came, ErrorCode::OutOfMemory);
    for (std::size_t p = 0; p < 3; ++p) expect_words(texts[p], {"no room at " + std::to_string(p)});
}

TEST(Processes, OneCallerCancels) {
    // Before the start, or before the first or the second channel; then it may be over too soon.
    for (int round = 0; round < 3; ++round) {
        Job job = pair_of_processes();
        auto const parts =
            parts_of(numbered_schema(), {numbered_rows(20'000, 50), numbered_rows(20'000, 50)});
        std::atomic<bool> cancel{round == 0};
        auto const came = job.run([&](ThreadAsProcess& processes, std::size_t me) {
            OperatorOptions options;
            options.patience = std::chrono::seconds(2);
            int channels = 0;
            if (me == 1) {
                options.cancel = &cancel;
                processes.before_channel = [&] {
                    if (++channels == round) cancel = true;
                };
            }
            return operators::group_by_among(
                processes, job.runtime(), job.endpoints(), job.own(parts, me), {"key"},
                {{AggregateFunction::Sum, "value", "sum"}}, options, nullptr);
        });
        if (round == 0 || came[1].failure != nullptr) texts_of({came[1]}, ErrorCode::Interrupted);
        // To be interrupted is for those who asked for it.
        if (round == 0) {
            expect_words(texts_of({came[0]}, ErrorCode::GroupFailed)[0], {"rank 1", "request"});
        }
    }
}

TEST(Processes, OneAfterAnother) {
    // The same processes run several operators; a failed one does not spoil the next.
    Job job = pair_of_processes();
    auto const rows = numbered_rows(2000, 70);
    auto const parts = parts_of(numbered_schema(), {rows, rows});
    auto came = job.run([&](Processes& processes, std::size_t me) {
        std::vector<Table> last;
        for (int round = 0; round < 6; ++round) {
            std::string const key = round % 2 == 0 ? "key" : "nonesuch";
            try {
                last = operators::exchange_among(processes, job.runtime(), job.endpoints(),
                                                 job.own(parts, me), {key}, {}, nullptr);
                EXPECT_EQ(round % 2, 0);
            } catch (Error const& error) {
                EXPECT_EQ(round % 2, 1) << error.what();
            }
        }
        return last;
    });
    EXPECT_EQ(rows_of(job.result(came)).size(), 2 * rows.size());
}

}  // namespace
}  // namespace mgi::test
