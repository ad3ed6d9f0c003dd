// Every routing, both transfers, groups of one and of two threads, many more groups than cores.
#include <gtest/gtest.h>

#include <string>

#include "support/cases.hpp"
#include "support/flow.hpp"
#include "support/hang_guard.hpp"

namespace mgi::test {
namespace {

enum class Kind { Murmur3, Modulo, SeveralKeys, Broadcast, Direct, Balance };

struct ExchangeCase {
    bool by_reference;
    Kind kind;
    std::uint32_t groups;
    std::uint32_t threads;
};

std::string name_of(::testing::TestParamInfo<ExchangeCase> const& info) {
    static char const* const kinds[]{"Murmur3",   "Modulo", "SeveralKeys",
                                     "Broadcast", "Direct", "Balance"};
    ExchangeCase const& p = info.param;
    return std::string(p.by_reference ? "ByReference" : "ByCopy") +
           kinds[static_cast<int>(p.kind)] + std::to_string(p.groups) + "GroupsOf" +
           std::to_string(p.threads);
}

std::vector<ExchangeCase> all_cases() {
    std::vector<ExchangeCase> cases;
    for (bool const by_reference : {true, false}) {
        for (Kind const kind : {Kind::Murmur3, Kind::Modulo, Kind::SeveralKeys, Kind::Broadcast,
                                Kind::Direct, Kind::Balance}) {
            for (std::uint32_t const groups : {1U, 3U, 8U}) {
                // A sanitizer sees no more in eight than in three.
                if (groups == 8 && kSanitized && percent_of_cases() < 100) continue;
                for (std::uint32_t const threads : {1U, 2U}) {
                    cases.push_back({by_reference, kind, groups, threads});
                }
            }
        }
    }
    return cases;
}

Routing routing_of(Kind kind) {
    switch (kind) {
        case Kind::Murmur3: return Routing::partition("key");
        case Kind::Modulo: return Routing::partition("key", Hash::Modulo);
        case Kind::SeveralKeys: return Routing::partition({"key", "name", "price"});
        case Kind::Broadcast: return Routing::broadcast();
        case Kind::Direct: return Routing::direct();
        case Kind::Balance: return Routing::balance();
    }
    return {};
}

Schema sales() {
    return {{"key", int32(), true},
            {"name", string(), true},
            {"price", decimal128(15, 2), false},
            {"paid", boolean(), true},
            {"rate", float64(), false}};
}

class Exchange : public ::testing::TestWithParam<ExchangeCase> {
protected:
    FlowSetup setup() {
        ExchangeCase const& p = GetParam();
        FlowSetup flow;
        flow.schema = sales();
        flow.routing = routing_of(p.kind);
        flow.options.by_reference = p.by_reference;
        flow.options.segment_rows = 40;
        flow.options.slots = 2;
        flow.options.credits = 2;
        flow.options.text_bytes_per_row = 20;
        flow.sources = flow.destinations = 3;
        flow.groups = p.groups;
        flow.threads = p.threads;
        flow.yields = 10;
        flow.seed = p.groups * 10 + p.threads;
        return flow;
    }
};

TEST_P(Exchange, EveryRowArrivesOnce) {
    FlowSetup flow = setup();
    flow.fill(kSanitized ? 300 : 800);
    run_and_check(flow);
}

TEST_P(Exchange, SmallestPools) {
    // One row a segment, one slot, one credit: nothing can be smaller, and nothing may deadlock.
    FlowSetup flow = setup();
    flow.options.segment_rows = 1;
    flow.options.text_bytes_per_row = 64;
    flow.options.slots = 1;
    flow.options.credits = 1;
    flow.options.tile_rows = 7;
    flow.fill(40);
    run_and_check(flow);
}

TEST_P(Exchange, EndpointsThatOnlySendOrOnlyReceive) {
    FlowSetup flow = setup();
    flow.loopback = false;
    flow.sources = 2;
    flow.destinations = 3;
    flow.devices = 2;
    flow.options.slots = 1;
    flow.fill(200);
    run_and_check(flow);
}

TEST_P(Exchange, LoopbackOfOneEndpoint) {
    FlowSetup flow = setup();
    flow.sources = flow.destinations = 1;
    flow.options.slots = 1;
    flow.options.credits = 1;
    flow.fill(300);
    run_and_check(flow);
}

INSTANTIATE_TEST_SUITE_P(All, Exchange, ::testing::ValuesIn(all_cases()), name_of);

class ByBothWays : public ::testing::TestWithParam<bool> {};

TEST_P(ByBothWays, RowsLayoutTakesEitherForm) {
    for (bool const structs : {true, false}) {
        for (std::uint32_t const threads : {1U, 2U}) {
            FlowSetup flow;
            flow.schema = {{"key", int64()},
                           {"small", int8()},
                           {"amount", decimal128(20, 2)},
                           {"code", fixed_size_binary(5)}};
            flow.options.by_reference = GetParam();
            flow.options.layout = Layout::Rows;
            flow.options.segment_rows = 50;
            flow.options.slots = 1;
            flow.structs = structs;
            flow.groups = 3;
            flow.threads = threads;
            flow.yields = 20;
            flow.fill(400);
            SCOPED_TRACE(describe(flow));
            run_and_check(flow);
        }
    }
}

TEST_P(ByBothWays, ColumnsLayoutTakesRowStructs) {
    FlowSetup flow;
    flow.schema = {{"key", int16()},
                   {"flag", boolean()},
                   {"name", string()},
                   {"value", float32()},
                   {"note", binary(), true}};
    flow.routing = Routing::partition({"key", "name", "flag"});
    flow.options.by_reference = GetParam();
    flow.options.segment_rows = 33;
    flow.structs = true;
    flow.groups = 2;
    flow.threads = 2;
    DataShape shape;
    shape.nulls = 0;
    flow.fill(400, shape);
    run_and_check(flow);
}

TEST_P(ByBothWays, AnyNumberOfCredits) {
    for (std::uint32_t const credits : {1U, 2U, 3U, 5U, 7U}) {
        FlowSetup flow;
        flow.options.by_reference = GetParam();
        flow.options.segment_rows = 8;
        flow.options.slots = 3;
        flow.options.credits = credits;
        flow.rows.assign(2, {numbered_rows(500, 50)});
        SCOPED_TRACE(describe(flow));
        run_and_check(flow);
    }
}

TEST_P(ByBothWays, EmptyTables) {
    for (auto const& routing :
         {Routing::partition("key"), Routing::broadcast(), Routing::direct(), Routing::balance()}) {
        FlowSetup flow;
        flow.routing = routing;
        flow.options.by_reference = GetParam();
        flow.groups = 3;
        flow.fill(0);
        run_and_check(flow);
    }
}

TEST_P(ByBothWays, OneRow) {
    for (auto const& routing :
         {Routing::partition("key"), Routing::broadcast(), Routing::direct(), Routing::balance()}) {
        FlowSetup flow;
        flow.routing = routing;
        flow.options.by_reference = GetParam();
        flow.groups = 2;
        flow.rows.assign(2, {{}, {}});
        flow.rows[1][0] = numbered_rows(1, 1, 7);
        run_and_check(flow);
    }
}

TEST_P(ByBothWays, AllRowsToOneDestination) {
    FlowSetup flow;
    flow.options.by_reference = GetParam();
    flow.options.segment_rows = 16;
    flow.options.slots = 2;
    flow.sources = flow.destinations = 4;
    flow.groups = 2;
    flow.rows.assign(4, {numbered_rows(600, 1), numbered_rows(600, 1, 1000)});
    FlowResult const result = run_flow(flow);
    check_flow(flow, result);
    int used = 0;
    for (auto const& rows : result.at) used += rows.empty() ? 0 : 1;
    EXPECT_EQ(used, 1);
}

TEST_P(ByBothWays, OwnersSayWhoseAPartIs) {
    for (Hash const hash : {Hash::Modulo, Hash::Murmur3}) {
        for (std::uint32_t const threads : {1U, 2U}) {
            FlowSetup flow;
            flow.routing = Routing::partition("key", hash);
            flow.options.by_reference = GetParam();
            flow.options.segment_rows = 16;
            flow.sources = 2;
            flow.destinations = 5;
            flow.threads = threads;
            flow.rows.assign(2, {numbered_rows(700, 90)});
            auto const own = run_flow(flow).at;
            flow.routing.owners = {2, 0, 0, 1, 2};
            flow.destinations = 3;
            auto const owned = run_flow(flow).at;
            for (std::size_t d = 0; d < 3; ++d) {
                std::vector<std::string> expected;
                for (std::size_t part = 0; part < 5; ++part) {
                    if (flow.routing.owners[part] != d) continue;
                    expected.insert(expected.end(), own[part].begin(), own[part].end());
                }
                EXPECT_TRUE(same_rows(owned[d], expected)) << "destination " << d;
            }
        }
    }
}

TEST_P(ByBothWays, NullKeysMeetAtOneDestination) {
    for (Hash const hash : {Hash::Modulo, Hash::Murmur3}) {
        FlowSetup flow;
        flow.schema = {{"key", int64(), true}, {"value", int64()}};
        flow.routing = Routing::partition("key", hash);
        flow.options.by_reference = GetParam();
        flow.options.segment_rows = 16;
        flow.rows.assign(2, {numbered_rows(300, 20)});
        for (auto& row : flow.rows[0][0]) row[0] = std::nullopt;
        run_and_check(flow);
    }
}

TEST_P(ByBothWays, NaNKeysMeetAtOneDestination) {
    FlowSetup flow;
    flow.schema = {{"key", float64(), true}, {"value", int64()}};
    flow.options.by_reference = GetParam();
    flow.destinations = flow.sources = 4;
    flow.rows.assign(4, {numbered_rows(100, 5)});
    std::uint64_t bits = 0x7ff8000000000000ULL;
    for (auto& source : flow.rows) {
        for (auto& row : source[0]) row[0] = cell(bits += (std::uint64_t{1} << 63) + 1);
    }
    FlowResult const result = run_flow(flow);
    check_flow(flow, result);
    int used = 0;
    for (auto const& rows : result.at) used += rows.empty() ? 0 : 1;
    EXPECT_EQ(used, 1) << "NaNs of any sign and payload are one key";
}

TEST_P(ByBothWays, ManyDestinations) {
    FlowSetup flow;
    flow.schema = sales();
    flow.options.by_reference = GetParam();
    flow.options.segment_rows = 4;
    flow.options.slots = 1;
    flow.options.credits = 1;
    flow.sources = 1;
    flow.destinations = 20;
    flow.fill(1500);
    run_and_check(flow);
}

TEST_P(ByBothWays, SlowConsumersSlowTheirProducers) {
    FlowSetup flow;
    flow.options.by_reference = GetParam();
    flow.options.segment_rows = 16;
    flow.options.slots = 2;
    flow.options.credits = 2;
    flow.loopback = false;
    flow.slow_receiver_us = 2000;
    flow.rows.assign(2, {numbered_rows(1000, 100)});
    FlowResult const result = run_flow(flow);
    check_flow(flow, result);
    std::uint64_t waits = 0;
    for (auto const& lane : result.stats.lanes) waits += lane.waits;
    EXPECT_GT(waits, 0U);
    EXPECT_EQ(result.stats.detached_bytes, 0U);
}

INSTANTIATE_TEST_SUITE_P(Transfer, ByBothWays, ::testing::Bool(), [](auto const& each) {
    return std::string(each.param ? "ByReference" : "ByCopy");
});

}  // namespace
}  // namespace mgi::test
