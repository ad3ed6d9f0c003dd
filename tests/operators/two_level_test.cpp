/// \file
/// An exchange in two levels: the same rows at the same endpoints as in one, and the same errors.
#include <gtest/gtest.h>

#include <map>
#include <thread>

#include "operators/job.hpp"
#include "operators/two_level.hpp"
#include "support/expect_error.hpp"
#include "support/hang_guard.hpp"

namespace mgi::test {
namespace {

using operators::levels_of;
using std::chrono::milliseconds;
using Places = std::vector<std::uint32_t>;

TEST(Levels, RanksMeetAcrossServersAndAllWithin) {
    // Endpoints of both servers in turn.
    auto const levels = levels_of({0, 1, 0, 1}, "x");
    ASSERT_EQ(levels.flows.size(), 4U);
    EXPECT_EQ(levels.flows[0].name, "x across servers, rank 0");
    EXPECT_EQ(levels.flows[0].sources, (Places{0, 1}));
    EXPECT_EQ(levels.flows[0].destinations, (Places{0, 1}));
    EXPECT_EQ(levels.flows[1].sources, (Places{2, 3}));
    EXPECT_EQ(levels.flows[1].owners, (Places{0, 1, 0, 1}));
    EXPECT_FALSE(levels.flows[1].keeps);
    EXPECT_EQ(levels.flows[2].name, "x within server 0");
    EXPECT_EQ(levels.flows[2].sources, (Places{0, 2}));
    EXPECT_EQ(levels.flows[2].destinations, (Places{0, 2}));
    EXPECT_EQ(levels.flows[2].owners, (Places{0, 0, 1, 0}));
    EXPECT_EQ(levels.flows[3].owners, (Places{0, 0, 0, 1}));
    EXPECT_TRUE(levels.flows[3].keeps);
    EXPECT_EQ(levels.ways[3].across, 1U);
    EXPECT_EQ(levels.ways[3].arriving, (Places{1}));
    EXPECT_EQ(levels.ways[3].within, 3U);
}

TEST(Levels, AServerWithFewerEndpointsIsCountedRound) {
    auto const levels = levels_of({0, 0, 0, 1, 1}, "x");
    ASSERT_EQ(levels.flows.size(), 5U);
    EXPECT_EQ(levels.flows[2].sources, (Places{2}));
    EXPECT_EQ(levels.flows[2].destinations, (Places{2, 3}));
    EXPECT_EQ(levels.ways[3].arriving, (Places{0, 2}));
    EXPECT_EQ(levels.ways[4].arriving, (Places{1}));
}

/// Whatever the servers: a part's row goes to its owner's server, and there to its owner.
TEST(Levels, EveryPartComesToItsOwner) {
    Random random(17);
    for (int round = 0; round < 200; ++round) {
        std::uint32_t const servers = 1 + std::uint32_t(random.below(4));
        Places on;
        for (std::uint32_t s = 0; s < servers; ++s) on.push_back(s);
        for (std::size_t more = random.below(9); more != 0; --more) {
            on.push_back(std::uint32_t(random.below(servers)));
        }
        auto const levels = levels_of(on, "x");
        for (std::uint32_t from = 0; from < on.size(); ++from) {
            auto const& across = levels.flows[levels.ways[from].across];
            EXPECT_EQ(std::count(across.sources.begin(), across.sources.end(), from), 1);
            for (std::uint32_t part = 0; part < on.size(); ++part) {
                std::uint32_t const next = across.destinations[across.owners[part]];
                ASSERT_EQ(on[next], on[part]);
                auto const& arriving = levels.ways[next].arriving;
                ASSERT_EQ(std::count(arriving.begin(), arriving.end(), levels.ways[from].across),
                          1);
                auto const& within = levels.flows[levels.ways[next].within];
                ASSERT_EQ(std::count(within.sources.begin(), within.sources.end(), next), 1);
                ASSERT_EQ(within.destinations[within.owners[part]], part);
            }
        }
    }
}

TEST(Levels, WhereTheyAre) {
    using operators::goes_in_two_levels;
    EXPECT_TRUE(goes_in_two_levels(TwoLevel::On, {0, 0, 1}, 1));
    EXPECT_FALSE(goes_in_two_levels(TwoLevel::On, {0, 0, 0}, 3)) << "one server";
    EXPECT_FALSE(goes_in_two_levels(TwoLevel::On, {0, 1, 2}, 3)) << "one endpoint on each";
    EXPECT_FALSE(goes_in_two_levels(TwoLevel::Off, {0, 0, 1}, 3));
}

TEST(Levels, ManyEndpointsInManyProcessesGoInTwo) {
    auto const goes = [](std::size_t endpoints, std::size_t processes) {
        Places servers(endpoints, 0);
        for (std::size_t e = 0; e < endpoints; ++e) servers[e] = std::uint32_t(e % 2);
        return operators::goes_in_two_levels(TwoLevel::Auto, servers, processes);
    };
    // docs/performance.md, "Two levels"
    EXPECT_FALSE(goes(16, 8));
    EXPECT_FALSE(goes(32, 8));
    EXPECT_FALSE(goes(64, 4));
    EXPECT_TRUE(goes(32, 16));
    EXPECT_TRUE(goes(64, 8));
    EXPECT_TRUE(goes(128, 4));
}

/// 2 to 4 processes on 2 or 3 servers with one endpoint or a few each, in any order.
Job job_on_servers(Random& random) {
    std::size_t const processes = 2 + random.below(3);
    std::uint32_t const count = processes == 2 ? 2 : 2 + std::uint32_t(random.below(2));
    std::vector<std::uint32_t> servers;
    for (std::size_t p = 0; p < processes; ++p) servers.push_back(std::uint32_t(p) % count);
    return {processes, random_owners(random, processes, 1 + random.below(4)), servers};
}

/// Both ways, one after the other.
struct BothWays {
    std::vector<Table> one;
    std::vector<Table> two;
};

BothWays exchange_both(Job& job, std::vector<Table> const& parts, std::string const& key,
                       OperatorOptions const& options) {
    std::vector<Came> one(job.processes());
    auto two = job.run([&](ThreadAsProcess& processes, std::size_t me) {
        OperatorOptions mine = options;
        if (mine.groups == 0) mine.groups = 1 + std::uint32_t(me % 2);
        auto const in = [&](TwoLevel levels) {
            mine.two_level = levels;
            OperatorReport report;
            auto tables = operators::exchange_among(processes, job.runtime(), job.endpoints(),
                                                    job.own(parts, me), {key}, mine, &report);
            EXPECT_EQ(report.two_level, levels == TwoLevel::On);
            return tables;
        };
        one[me].tables = in(TwoLevel::Off);
        return in(TwoLevel::On);
    });
    // First the second, which says why if anything has failed.
    auto tables = job.result(two);
    return {job.result(one), std::move(tables)};
}

void expect_same(BothWays const& found, std::vector<Row> const& rows) {
    EXPECT_TRUE(same_rows(encode_all(rows_of(found.two)), encode_all(rows)));
    for (std::size_t e = 0; e < found.one.size(); ++e) {
        EXPECT_EQ(found.one[e].schema, found.two[e].schema);
        EXPECT_TRUE(
            same_rows(encode_all(rows_of({found.two[e]})), encode_all(rows_of({found.one[e]}))))
            << "endpoint " << e;
    }
}

class TwoLevelProperty : public ::testing::TestWithParam<int> {};

TEST_P(TwoLevelProperty, RowsComeToTheEndpointsOfOneLevel) {
    Random random(700 + static_cast<std::uint64_t>(GetParam()));
    Job job = job_on_servers(random);
    Schema const schema = random_schema(random, 6);
    DataShape shape;
    shape.keys = static_cast<Keys>(random.below(4));
    auto const rows =
        random_rows(schema, random.one_in(5) ? random.below(3) : random.below(3000), random, shape);
    auto const parts = deal(schema, rows, job.endpoints().size(), random);
    OperatorOptions options;
    options.by_reference = random.one_in(2);
    if (random.one_in(2)) options.segment_bytes = 1U << (10 + random.below(5));
    if (schema[0].type.is_integer() && random.one_in(2)) options.hash = Hash::Modulo;
    // A row may be larger than so small a segment.
    std::uint64_t row = 0;
    for (Field const& field : schema.fields()) {
        row += field.type.row_width() + (field.type.is_variable() ? 128 : 0);
    }
    if (options.segment_bytes < 8 * row) options.segment_bytes = 0;
    expect_same(exchange_both(job, parts, schema[0].name, options), rows);
}

INSTANTIATE_TEST_SUITE_P(Seeds, TwoLevelProperty, ::testing::Range(0, kSanitized ? 12 : 30));

/// Two processes on each of two servers; the endpoints of each server in turn.
Job four_processes() {
    return {4, {0, 2, 1, 3}, {0, 0, 1, 1}};
}

/// Segments of a few rows, and all rows for one endpoint of one server: whatever waits for room waits
/// for it alone, and the exchange goes on.
TEST(TwoLevel, TheSmallestPoolsAndOneDestination) {
    std::size_t const count = kSanitized ? 3000 : 20'000;
    for (bool const by_reference : {true, false}) {
        Job job{4, {0, 0, 1, 1, 2, 2, 3, 3}, {0, 0, 1, 1}};
        std::vector<Row> rows;
        for (std::size_t i = 0; i < count; ++i) {
            rows.push_back({cell(std::int64_t{5}), cell(std::int64_t(i))});
        }
        Random random(3);
        OperatorOptions options;
        options.segment_bytes = 128;  // a row
        options.by_reference = by_reference;
        options.groups = 2;
        expect_same(exchange_both(job, deal(numbered_schema(), rows, 8, random), "key", options),
                    rows);
    }
}

TEST(TwoLevel, TextsThatFitNoUsualSegment) {
    Schema const schema{{"key", int64()}, {"text", string()}};
    std::vector<Row> rows;
    for (std::int64_t i = 0; i < 40; ++i) {
        rows.push_back({cell(i), std::string(i == 7 ? 300'000 : 5, 'x')});
    }
    Job job = four_processes();
    Random random(4);
    expect_same(exchange_both(job, deal(schema, rows, 4, random), "key", {}), rows);
}

/// Runs it in two levels and leaves what became of it.
std::vector<Came> exchange_in_two(
    Job& job, std::vector<Table> const& parts, OperatorOptions const& options,
    std::function<void(ThreadAsProcess&, std::size_t)> const& before = [](auto&, auto) {}) {
    return job.run([&](ThreadAsProcess& processes, std::size_t me) {
        OperatorOptions mine = options;
        mine.two_level = TwoLevel::On;
        before(processes, me);
        return operators::exchange_among(processes, job.runtime(), job.endpoints(),
                                         job.own(parts, me), {"key"}, mine, nullptr);
    });
}

std::vector<Table> numbered_parts(Job const& job, std::size_t rows) {
    Random random(6);
    return deal(numbered_schema(), numbered_rows(rows, 500), job.endpoints().size(), random);
}

TEST(TwoLevel, CallsThatDifferAreNamed) {
    Job job = four_processes();
    auto const parts = numbered_parts(job, 100);
    auto const came = job.run([&](ThreadAsProcess& processes, std::size_t me) {
        OperatorOptions mine;
        mine.two_level = me == 2 ? TwoLevel::Off : TwoLevel::On;
        return operators::exchange_among(processes, job.runtime(), job.endpoints(),
                                         job.own(parts, me), {"key"}, mine, nullptr);
    });
    for (std::string const& text : texts_of(came, ErrorCode::InvalidArgument)) {
        expect_words(text, {"two_level on", "rank 2 with two_level off"});
    }
}

TEST(TwoLevel, OnlyAnExchangeHasThem) {
    Cluster cluster(2);
    OperatorOptions options;
    options.two_level = TwoLevel::On;
    Random random(1);
    auto const parts = deal(numbered_schema(), numbered_rows(10, 3), 2, random);
    expect_error(ErrorCode::InvalidArgument, {"group_by", "two_level"}, [&] {
        (void)group_by(cluster.runtime, cluster.endpoints, parts, {"key"}, {}, options);
    });
    expect_error(ErrorCode::InvalidArgument, {"join", "two_level"}, [&] {
        (void)join(cluster.runtime, cluster.endpoints, parts, parts, {{"key"}, {"key"}, {}, {}},
                   options);
    });
    // On one server it is an exchange like any other.
    EXPECT_EQ(rows_of(exchange(cluster.runtime, cluster.endpoints, parts, {"key"}, options)).size(),
              10U);
}

/// A channel of the first level, or the second, cannot be made by those who would have it: the others
/// make theirs with them, and all hear of it.
TEST(TwoLevel, AChannelThatCannotBeMade) {
    for (std::size_t const number : {1U, 2U}) {
        Job job = four_processes();
        auto const came = exchange_in_two(job, numbered_parts(job, 100), {},
                                          [number](ThreadAsProcess& processes, std::size_t me) {
                                              // Ranks 0 and 2 have one across, 0 and 1 one within.
                                              bool const fails = number == 1 ? me % 2 == 0 : me < 2;
                                              if (!fails) return;
                                              processes.before_channel = [&processes, number, me] {
                                                  if (processes.channels() != number) return;
                                                  throw Error(ErrorCode::OutOfMemory,
                                                              "no room at " + std::to_string(me));
                                              };
                                          });
        auto const texts = texts_of(came, ErrorCode::OutOfMemory);
        for (std::size_t p = 0; p < 4; ++p) {
            bool const own = number == 1 ? p % 2 == 0 : p < 2;
            // Others hear of the one that said it first.
            expect_words(texts[p], {"no room at " + (own ? std::to_string(p) : "")});
            if (!own) expect_words(texts[p], {"rank ", "has failed"});
        }
        EXPECT_EQ(job.place().channels(), 0U);
    }
}

/// A row past the limit stops the first level, a result past it the second; all processes hear of it.
TEST(TwoLevel, WhatFailsInAKernelComesToAll) {
    Schema const schema{{"key", int64()}, {"text", string()}};
    Job job = four_processes();
    Random random(7);
    std::vector<Table> parts = deal(schema, {}, 4, random);
    parts[1] = deal(schema, {{cell(std::int64_t{1}), std::string(5000, 'x')}}, 1, random)[0];
    OperatorOptions options;
    options.segment_bytes = 1U << 12;
    options.receive_limit = 1U << 12;
    auto texts = texts_of(exchange_in_two(job, parts, options), ErrorCode::OutOfMemory);
    for (std::string const& text : texts) expect_words(text, {"5128 bytes", "receive_limit"});

    Job another = four_processes();
    options.receive_limit = 1U << 14;
    std::vector<Row> const many(20'000, Row{cell(std::int64_t{1}), cell(std::int64_t{2})});
    texts = texts_of(exchange_in_two(another, deal(numbered_schema(), many, 4, random), options),
                     ErrorCode::OutOfMemory);
    for (std::string const& text : texts) expect_words(text, {"within server", "receive_limit"});
}

TEST(TwoLevel, WhoNeverComesIsNamed) {
    Job job = four_processes();
    OperatorOptions options;
    options.patience = milliseconds(200);
    auto const parts = numbered_parts(job, 100);
    auto const came = job.run([&](ThreadAsProcess& processes, std::size_t me) {
        if (me == 3) return std::vector<Table>{};
        OperatorOptions mine = options;
        mine.two_level = TwoLevel::On;
        return operators::exchange_among(processes, job.runtime(), job.endpoints(),
                                         job.own(parts, me), {"key"}, mine, nullptr);
    });
    EXPECT_EQ(came[3].failure, nullptr);
    for (std::string const& text : texts_of({came[0], came[1], came[2]}, ErrorCode::Timeout)) {
        expect_words(text, {"patience", "rank 3"});
    }
}

TEST(TwoLevel, OneCallerCancels) {
    Job job = four_processes();
    auto parts = numbered_parts(job, 20'000);
    // Enough of it not to be done before the first look.
    for (Table& part : parts) {
        auto const once = part.batches;
        for (int i = 0; i < (kSanitized ? 200 : 2000); ++i) {
            part.batches.insert(part.batches.end(), once.begin(), once.end());
        }
    }
    std::atomic<bool> cancel{false};
    std::jthread const canceller([&] {
        std::this_thread::sleep_for(milliseconds(100));
        cancel = true;
    });
    OperatorOptions options;
    options.segment_bytes = 1024;
    auto const came = job.run([&](ThreadAsProcess& processes, std::size_t me) {
        OperatorOptions mine = options;
        mine.two_level = TwoLevel::On;
        if (me == 1) mine.cancel = &cancel;
        return operators::exchange_among(processes, job.runtime(), job.endpoints(),
                                         job.own(parts, me), {"key"}, mine, nullptr);
    });
    texts_of({came[1]}, ErrorCode::Interrupted);
    for (std::string const& text : texts_of({came[0], came[2], came[3]}, ErrorCode::GroupFailed)) {
        expect_words(text, {"rank 1", "request"});
    }
    EXPECT_EQ(job.place().channels(), 0U);
}

}  // namespace
}  // namespace mgi::test
