/// \file
/// Exchange, and what all operators have in common: bad input, limits, cancelling.
#include <gtest/gtest.h>

#include <map>
#include <thread>

#include "operators/reference.hpp"
#include "support/cases.hpp"
#include "support/expect_error.hpp"
#include "support/hang_guard.hpp"

namespace mgi::test {
namespace {

class ExchangeProperty : public ::testing::TestWithParam<int> {};

TEST_P(ExchangeProperty, EveryRowOnceAndEqualKeysTogether) {
    Random random(5000 + static_cast<std::uint64_t>(GetParam()));
    for (int round = 0; round < (kSanitized ? 3 : 8); ++round) {
        Schema const schema = random_schema(random, 6);
        DataShape shape;
        shape.keys = static_cast<Keys>(random.below(4));
        auto const rows =
            random_rows(schema, random.one_in(6) ? 0 : random.below(4000), random, shape);
        Cluster cluster(1 + random.below(4));
        OperatorOptions options;
        options.groups = static_cast<std::uint32_t>(random.below(4));
        options.by_reference = random.one_in(2);
        if (random.one_in(2)) options.segment_bytes = 1U << 13;
        if (schema[0].type.is_integer() && random.one_in(2)) options.hash = Hash::Modulo;
        OperatorReport report;
        auto const result = exchange(cluster.runtime, cluster.endpoints,
                                     deal(schema, rows, cluster.endpoints.size(), random),
                                     {schema[0].name}, options, &report);
        ASSERT_TRUE(same_rows(encode_all(rows_of(result)), encode_all(rows)))
            << "round " << round << " of " << schema.to_string();
        EXPECT_EQ(report.rows, rows.size());
        std::map<std::string, std::size_t> owner;
        for (std::size_t e = 0; e < result.size(); ++e) {
            EXPECT_EQ(result[e].schema, schema);
            for (Row const& row : rows_of({result[e]})) {
                std::string const key = encode({canonical(schema[0].type, row[0])});
                EXPECT_EQ(owner.emplace(key, e).first->second, e);
            }
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Seeds, ExchangeProperty, ::testing::Range(0, test::seeds(10)));

TEST(ExchangeOperator, ResultsOutliveTheRuntime) {
    std::vector<Table> result;
    auto const rows = numbered_rows(5000, 100);
    {
        Random random(1);
        Cluster cluster(3);
        result = exchange(cluster.runtime, cluster.endpoints,
                          deal(numbered_schema(), rows, 3, random), {"key"});
    }
    EXPECT_TRUE(same_rows(encode_all(rows_of(result)), encode_all(rows)));
}

TEST(ExchangeOperator, BadInputIsNamed) {
    Cluster cluster(2);
    Random random(1);
    auto const parts = deal(numbered_schema(), numbered_rows(10, 3), 2, random);
    auto const call = [&](std::vector<Endpoint> const& endpoints, std::vector<Table> const& tables,
                          std::vector<std::string> const& keys) {
        return [&, endpoints, tables, keys] { exchange(cluster.runtime, endpoints, tables, keys); };
    };
    auto const wrong = ErrorCode::InvalidArgument;
    expect_error(wrong, {"no endpoints"}, call({}, {}, {"key"}));
    expect_error(wrong, {"1 parts for 2 endpoints"}, call(cluster.endpoints, {parts[0]}, {"key"}));
    expect_error(wrong, {"'kee'"}, call(cluster.endpoints, parts, {"kee"}));
    expect_error(wrong, {"no key"}, call(cluster.endpoints, parts, {}));
    expect_error(wrong, {"'key' is given twice"}, call(cluster.endpoints, parts, {"key", "key"}));
    expect_error(wrong, {}, call({cluster.endpoints[0], cluster.endpoints[0]}, parts, {"key"}));
    auto mixed = parts;
    mixed[1] = deal({{"key", int32()}, {"value", int64()}}, {}, 1, random)[0];
    expect_error(wrong, {"part 1"}, call(cluster.endpoints, mixed, {"key"}));
    mixed[1] = parts[1];
    RecordBatch none;
    none.rows = 5;
    mixed[0] = {{}, {none}};
    expect_error(wrong, {"part 0, batch 0 has no columns"},
                 call(cluster.endpoints, mixed, {"key"}));
    Endpoint const deleted = cluster.runtime.create_endpoint("cpu");
    cluster.runtime.delete_endpoint(deleted);
    expect_error(ErrorCode::NotFound, {}, call({cluster.endpoints[0], deleted}, parts, {"key"}));
}

TEST(ExchangeOperator, AResultPastItsLimitIsAnError) {
    Cluster cluster(2);
    Random random(1);
    OperatorOptions options;
    options.receive_limit = 1U << 16;
    options.segment_bytes = 1U << 12;
    auto const parts = deal(numbered_schema(), numbered_rows(100'000, 1000), 2, random);
    expect_error(ErrorCode::OutOfMemory, {"receive_limit"},
                 [&] { exchange(cluster.runtime, cluster.endpoints, parts, {"key"}, options); });
    // And the runtime is as it was.
    auto const result = exchange(cluster.runtime, cluster.endpoints, parts, {"key"});
    EXPECT_EQ(rows_of(result).size(), 100'000U);
}

TEST(ExchangeOperator, CancelStopsIt) {
    Cluster cluster(2);
    Random random(1);
    std::atomic<bool> cancel{true};
    OperatorOptions options;
    options.cancel = &cancel;
    auto const parts = deal(numbered_schema(), numbered_rows(300'000, 1000), 2, random);
    std::vector<Table> many(2);
    // Enough of it not to be done before the first look.
    for (Table& part : many) {
        part.schema = numbered_schema();
        for (int i = 0; i < 2000; ++i) {
            for (Table const& from : parts) {
                part.batches.insert(part.batches.end(), from.batches.begin(), from.batches.end());
            }
        }
    }
    OperatorOptions group_options = options;
    group_options.segment_bytes = 4096;
    expect_error(ErrorCode::Interrupted, {"stopped"}, [&] {
        group_by(cluster.runtime, cluster.endpoints, many, {"value"}, {}, group_options);
    });
}

TEST(ExchangeOperator, TwoOperatorsAtOnceOnTheSameEndpoints) {
    Cluster cluster(2);
    auto const rows = numbered_rows(20000, 100);
    std::vector<std::thread> threads;
    for (int t = 0; t < 2; ++t) {
        threads.emplace_back([&, t] {
            Random random(static_cast<std::uint64_t>(t));
            auto const result = exchange(cluster.runtime, cluster.endpoints,
                                         deal(numbered_schema(), rows, 2, random), {"key"});
            EXPECT_EQ(rows_of(result).size(), rows.size());
        });
    }
    for (auto& thread : threads) thread.join();
}

}  // namespace
}  // namespace mgi::test
