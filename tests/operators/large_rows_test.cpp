/// \file
/// Rows with more text than a segment holds, which operators move in pieces.
#include <gtest/gtest.h>

#include "operators/job.hpp"
#include "operators/large_rows.hpp"
#include "support/expect_error.hpp"

namespace mgi::test {
namespace large_rows {
namespace {

using operators::Processes;

Schema const& schema() {
    static Schema const made{{"key", int64()},
                             {"text", string(), true},
                             {"flag", boolean(), true},
                             {"amount", decimal128(12, 2), true},
                             {"more", binary()}};
    return made;
}

/// Few long texts among short ones; some of a segment's size, some of several pieces.
std::vector<Row> rows(Random& random) {
    std::vector<Row> made = random_rows(schema(), 400, random);
    for (std::size_t i = 0; i < made.size(); ++i) {
        made[i][0] = cell(std::int64_t(i % 50));
        if (random.one_in(10)) made[i][1] = std::string(random.below(20'000), char('a' + i % 26));
        if (random.one_in(40)) made[i][4] = std::string(4096 - 8 + random.below(16), 'm');
    }
    for (std::size_t const i : {3U, 200U, 201U}) {
        made[i][1] = std::string(600'000 + i, 'x') + std::to_string(i);
        made[i][4] = std::string(300'000, 'y');
    }
    return made;
}

constexpr std::size_t kEndpoints = 3;

/// For one operator.
Job make_job(bool several) {
    return several ? Job{2, {0, 1, 0}} : Job{1, {0, 0, 0}};
}

OperatorOptions small_segments(bool by_reference) {
    OperatorOptions options;
    options.by_reference = by_reference;
    options.segment_bytes = 1U << 12;
    options.groups = 2;
    return options;
}

class LargeRows : public ::testing::TestWithParam<std::tuple<bool, bool>> {
protected:
    Random random_{77};
    std::vector<Row> const rows_ = rows(random_);
    OperatorOptions const options_ = small_segments(std::get<0>(GetParam()));
    bool const several_ = std::get<1>(GetParam());
    std::vector<Table> const parts_ = deal(schema(), rows_, kEndpoints, random_);
};

TEST_P(LargeRows, Exchange) {
    for (char const* key : {"key", "text"}) {
        Job job = make_job(several_);
        OperatorReport report;
        auto came = job.run([&](Processes& processes, std::size_t me) {
            return operators::exchange_among(processes, job.runtime(), job.endpoints(),
                                             job.own(parts_, me), {key}, options_,
                                             me == 0 ? &report : nullptr);
        });
        EXPECT_TRUE(same_rows(encode_all(rows_of(job.result(came))), encode_all(rows_)));
        // Processes that are threads see all of a channel each, but only their own large rows.
        if (!several_) {
            EXPECT_EQ(report.rows, rows_.size());
        }
    }
}

TEST_P(LargeRows, GroupBy) {
    std::vector<Aggregate> const aggregates{{AggregateFunction::Max, "text", "last"},
                                            {AggregateFunction::Min, "more", "least"},
                                            {AggregateFunction::Count, "", "rows"}};
    for (char const* key : {"key", "text"}) {
        Job job = make_job(several_);
        auto came = job.run([&](Processes& processes, std::size_t me) {
            return operators::group_by_among(processes, job.runtime(), job.endpoints(),
                                             job.own(parts_, me), {key}, aggregates, options_,
                                             nullptr);
        });
        auto const result = job.result(came);
        EXPECT_TRUE(same_groups(result[0].schema, rows_of(result),
                                reference_group_by(schema(), rows_, {key}, aggregates), 1));
    }
}

TEST_P(LargeRows, Sort) {
    Job job = make_job(several_);
    auto came = job.run([&](Processes& processes, std::size_t me) {
        return operators::sort_among(processes, job.runtime(), job.endpoints(), job.own(parts_, me),
                                     {SortKey{"text"}}, options_, nullptr);
    });
    auto const sorted = rows_of(job.result(came));
    EXPECT_TRUE(same_rows(encode_all(sorted), encode_all(rows_)));
    for (std::size_t i = 1; i < sorted.size(); ++i) {
        // Nulls are last.
        if (!sorted[i][1]) continue;
        ASSERT_TRUE(sorted[i - 1][1] && *sorted[i - 1][1] <= *sorted[i][1]);
    }
}

TEST_P(LargeRows, Join) {
    Schema const right_schema{{"id", int64()}, {"note", string()}};
    std::vector<Row> right;
    for (std::int64_t id = 0; id < 20; ++id) {
        right.push_back({cell(id), std::string(id == 7 ? 500'000 : 20, 'n')});
    }
    auto const right_parts = deal(right_schema, right, kEndpoints, random_);
    JoinSpec spec{{"key"}, {"id"}, {}, {}, JoinKind::Inner};
    for (Broadcast const broadcast : {Broadcast::Off, Broadcast::On}) {
        spec.broadcast = broadcast;
        Job job = make_job(several_);
        auto came = job.run([&](Processes& processes, std::size_t me) {
            return operators::join_among(processes, job.runtime(), job.endpoints(),
                                         job.own(parts_, me), job.own(right_parts, me), spec,
                                         options_, nullptr);
        });
        EXPECT_TRUE(same_rows(encode_all(rows_of(job.result(came))),
                              encode_all(reference_join(schema(), rows_, {"key"}, right_schema,
                                                        right, {"id"}, spec.kind))));
    }
}

INSTANTIATE_TEST_SUITE_P(Ways, LargeRows, ::testing::Combine(::testing::Bool(), ::testing::Bool()));

TEST(LargeRowsInTwoLevels, ComeThrough) {
    Random random(78);
    auto const all = rows(random);
    Job four{4, {0, 2, 1, 3}, {0, 0, 1, 1}};
    auto const parts = deal(schema(), all, 4, random);
    OperatorOptions options = small_segments(true);
    options.two_level = TwoLevel::On;
    auto came = four.run([&](Processes& processes, std::size_t me) {
        return operators::exchange_among(processes, four.runtime(), four.endpoints(),
                                         four.own(parts, me), {"key"}, options, nullptr);
    });
    EXPECT_TRUE(same_rows(encode_all(rows_of(four.result(came))), encode_all(all)));
}

TEST(LargeRowsOfALimit, AreRefusedWithTheirSizeAndTheOption) {
    Cluster cluster(2);
    OperatorOptions options = small_segments(true);
    options.receive_limit = 1U << 20;
    Random random(79);
    Schema const two{{"key", int64()}, {"text", string()}};
    std::vector<Row> const long_one{{cell(std::int64_t{1}), std::string(3'000'000, 'x')}};
    auto const parts = deal(two, long_one, 2, random);
    expect_error(ErrorCode::OutOfMemory,
                 {"exchange", "2.8 MiB (3000128 bytes)", "1 MiB (1048576 bytes)", "receive_limit"},
                 [&] { exchange(cluster.runtime, cluster.endpoints, parts, {"key"}, options); });
}

}  // namespace
}  // namespace large_rows
}  // namespace mgi::test
