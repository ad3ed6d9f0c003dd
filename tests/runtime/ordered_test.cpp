// Ordered channels: in sequence per source group and destination; one global order when broadcast.
#include <gtest/gtest.h>

#include <map>

#include "support/flow.hpp"
#include "support/hang_guard.hpp"

namespace mgi::test {
namespace {

struct OrderedCase {
    bool by_reference;
    std::uint32_t threads;
    std::uint32_t segment_rows;
    std::uint32_t slots;
};

class Ordered : public ::testing::TestWithParam<OrderedCase> {
protected:
    /// Rows (key, sender, counter); the counter rises within a sending group.
    FlowSetup setup(Routing const& routing) {
        FlowSetup flow;
        flow.schema = {{"key", int64()}, {"sender", int64()}, {"counter", int64()}};
        flow.routing = routing;
        flow.options.ordered = true;
        flow.options.by_reference = GetParam().by_reference;
        flow.options.segment_rows = GetParam().segment_rows;
        flow.options.slots = GetParam().slots;
        flow.options.credits = GetParam().slots;
        flow.options.tile_rows = 50;
        flow.sources = flow.destinations = 3;
        flow.groups = 3;
        flow.threads = GetParam().threads;
        flow.yields = 20;
        Random random(GetParam().segment_rows);
        std::int64_t const count = kSanitized ? 300 : 1000;
        flow.rows.assign(flow.sources, {});
        std::int64_t sender = 0;
        for (auto& source : flow.rows) {
            for (std::uint32_t g = 0; g < flow.groups; ++g, ++sender) {
                std::vector<Row> rows;
                for (std::int64_t i = 0; i < count; ++i) {
                    rows.push_back({cell(random.between(0, 20)), cell(sender), cell(i)});
                }
                source.push_back(rows);
            }
        }
        return flow;
    }
    static void expect_rising(std::vector<std::string> const& rows) {
        std::map<std::string, std::int64_t> last;
        for (std::string const& encoded : rows) {
            Row const row = decode(encoded);
            std::int64_t counter = 0;
            std::memcpy(&counter, row[2]->data(), sizeof(counter));
            auto const [at, fresh] = last.try_emplace(*row[1], counter);
            ASSERT_TRUE(fresh || at->second < counter)
                << "row " << counter << " of a sender came behind its row " << at->second;
            at->second = counter;
        }
    }
};

TEST_P(Ordered, PartitionKeepsEachSendersOrder) {
    FlowSetup const flow = setup(Routing::partition("key"));
    FlowResult const result = run_flow(flow);
    check_flow(flow, result);
    for (auto const& rows : result.at) expect_rising(rows);
}

TEST_P(Ordered, DirectKeepsEachSendersOrder) {
    FlowSetup const flow = setup(Routing::direct());
    FlowResult const result = run_flow(flow);
    check_flow(flow, result);
    for (auto const& rows : result.at) expect_rising(rows);
}

TEST_P(Ordered, BroadcastHasOneOrderEverywhere) {
    FlowSetup const flow = setup(Routing::broadcast());
    FlowResult const result = run_flow(flow);
    check_flow(flow, result);
    for (auto const& rows : result.at) {
        expect_rising(rows);
        EXPECT_EQ(rows, result.at[0]);
    }
}

INSTANTIATE_TEST_SUITE_P(Pools, Ordered,
                         ::testing::Values(OrderedCase{true, 1, 1, 1}, OrderedCase{true, 2, 7, 2},
                                           OrderedCase{true, 1, 130, 4},
                                           OrderedCase{false, 1, 1, 1}, OrderedCase{false, 2, 7, 2},
                                           OrderedCase{false, 1, 130, 4}));

}  // namespace
}  // namespace mgi::test
