// Random schemas, routings, sizes, group counts and key distributions against the trivial reference.
#include <gtest/gtest.h>

#include "support/cases.hpp"
#include "support/flow.hpp"
#include "support/hang_guard.hpp"

namespace mgi::test {
namespace {

Routing random_routing(Random& random, Schema const& schema) {
    switch (random.below(8)) {
        case 0: return Routing::broadcast();
        case 1: return Routing::direct();
        case 2: return Routing::balance();
        case 3: {
            TypeId const id = schema[0].type.id;
            if (schema[0].type.is_integer() || id == TypeId::Bool || id == TypeId::Date32) {
                return Routing::partition(schema[0].name, Hash::Modulo);
            }
            break;
        }
        default: break;
    }
    std::vector<std::string> keys;
    for (auto const& field : schema.fields()) {
        if (keys.empty() || random.one_in(4)) keys.push_back(field.name);
    }
    return Routing::partition(keys);
}

FlowSetup random_flow(std::uint64_t seed) {
    Random random(seed);
    FlowSetup flow;
    flow.seed = seed;
    flow.options.layout = random.one_in(4) ? Layout::Rows : Layout::Columns;
    bool const plain = flow.options.layout == Layout::Rows;
    flow.structs = random.one_in(3);
    flow.schema = random_schema(random, 6, plain);
    flow.routing = random_routing(random, flow.schema);
    flow.options.by_reference = random.one_in(2);
    flow.options.segment_rows =
        static_cast<std::uint32_t>(random.one_in(3) ? 1 + random.below(5) : 1 + random.below(300));
    flow.options.slots = static_cast<std::uint32_t>(1 + random.below(4));
    flow.options.credits = static_cast<std::uint32_t>(1 + random.below(4));
    flow.options.tile_rows =
        random.one_in(2) ? 0 : static_cast<std::uint32_t>(1 + random.below(200));
    flow.options.text_bytes_per_row = 250;  // one row always fits
    if (random.one_in(2)) {
        auto const whole = (flow.options.segment_rows + 63) / 64 * 64;
        flow.options.chunk_rows = static_cast<std::uint32_t>(1 + random.below(whole));
    }
    bool const by_range = random.one_in(4);
    flow.options.ordered =
        (by_range || flow.routing.kind != device::RoutingKind::Balance) && random.one_in(5);
    if (random.one_in(4)) flow.options.receive_limit = 1 << 20;
    flow.sources = static_cast<std::uint32_t>(1 + random.below(4));
    flow.destinations = static_cast<std::uint32_t>(1 + random.below(4));
    flow.loopback = !random.one_in(3);
    flow.devices = static_cast<std::uint32_t>(1 + random.below(2));
    flow.groups = static_cast<std::uint32_t>(1 + random.below(random.one_in(3) ? 8 : 3));
    flow.threads = static_cast<std::uint32_t>(1 + random.below(2));
    flow.yields = static_cast<std::uint32_t>(random.below(100));
    DataShape shape;
    shape.keys = static_cast<Keys>(random.below(4));
    shape.nulls = flow.structs ? 0 : 1 + random.below(6);
    shape.longest_text = 40;
    flow.fill(random.one_in(4) ? 20 : 400, shape);
    if (by_range) flow.route_by_range(random, shape);
    return flow;
}

class Property : public ::testing::TestWithParam<int> {};

TEST_P(Property, RandomFlowsDeliverEveryRowOnce) {
    int const each = kSanitized ? 4 : 20;
    for (int i = 0; i < each; ++i) {
        FlowSetup const flow = random_flow(static_cast<std::uint64_t>(GetParam() * each + i));
        SCOPED_TRACE(describe(flow));
        run_and_check(flow);
        if (::testing::Test::HasFailure()) return;
    }
}

// The same over several runtimes and one part.
TEST_P(Property, RandomFlowsBetweenProcessesDeliverEveryRowOnce) {
    int const each = kSanitized ? 2 : 10;
    for (int i = 0; i < each; ++i) {
        FlowSetup flow = random_flow(static_cast<std::uint64_t>(1000 + GetParam() * each + i));
        flow.processes = 2 + static_cast<std::uint32_t>(flow.seed % 2);
        SCOPED_TRACE(describe(flow));
        run_and_check(flow);
        if (::testing::Test::HasFailure()) return;
    }
}

// And over several servers, with links over loopback between them.
TEST_P(Property, RandomFlowsBetweenServersDeliverEveryRowOnce) {
    int const each = kSanitized ? 2 : 5;
    for (int i = 0; i < each; ++i) {
        FlowSetup flow = random_flow(static_cast<std::uint64_t>(2000 + GetParam() * each + i));
        flow.processes = 2 + static_cast<std::uint32_t>(flow.seed % 3);
        flow.servers = 2 + static_cast<std::uint32_t>(flow.seed / 3 % 2);
        // One server makes the one order of a broadcast.
        bool const broadcast = flow.routing.kind == device::RoutingKind::Broadcast;
        if (broadcast && flow.sources > 1) flow.options.ordered = false;
        SCOPED_TRACE(describe(flow));
        run_and_check(flow);
        if (::testing::Test::HasFailure()) return;
    }
}

// A broadcast of which some rows are for one destination, over whatever carries them.
TEST_P(Property, NamedRowsOfABroadcastArriveThereAlone) {
    int const each = kSanitized ? 3 : 9;
    for (int i = 0; i < each; ++i) {
        FlowSetup flow = random_flow(static_cast<std::uint64_t>(3000 + GetParam() * each + i));
        flow.routing = Routing::broadcast();
        flow.names = true;
        if (i % 3 != 0) flow.processes = 2 + static_cast<std::uint32_t>(flow.seed / 3 % 2);
        if (i % 3 == 2) flow.servers = 2;
        if (flow.servers > 1 && flow.sources > 1) flow.options.ordered = false;
        SCOPED_TRACE(describe(flow));
        run_and_check(flow);
        if (::testing::Test::HasFailure()) return;
    }
}

INSTANTIATE_TEST_SUITE_P(Seeds, Property, ::testing::Range(0, test::seeds(20)));

}  // namespace
}  // namespace mgi::test
