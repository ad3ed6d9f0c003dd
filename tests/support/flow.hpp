/// \file
/// A whole exchange over a runtime: every group of every endpoint runs the paper's Figure 3 loop on
/// rows of its own, and all that arrives is collected and compared with the trivial reference.
#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <mgi/runtime.hpp>

#include "support/tables.hpp"

namespace mgi::test {

/// What to run.
struct FlowSetup {
    Schema schema = numbered_schema();
    Routing routing = Routing::partition("key");
    std::vector<Row> splitters;  ///< of a Range, see `route_by_range`
    ChannelOptions options;
    std::uint32_t sources = 2;
    std::uint32_t destinations = 2;
    bool loopback = true;  ///< endpoint i is source i and destination i, as far as there are both
    std::uint32_t devices = 1;    ///< CPU devices, endpoints in turn
    std::uint32_t processes = 1;  ///< runtimes that share the channel, endpoints in turn
    std::uint32_t servers = 1;    ///< that have these processes, in turn
    std::uint32_t groups = 1;     ///< of each endpoint
    std::uint32_t threads = 1;    ///< of each group
    bool structs = false;         ///< offer row structs
    bool names = false;           ///< some sends of a Broadcast name their destination
    std::uint32_t yields = 0;     ///< see Yields
    std::uint64_t seed = 0;
    std::uint32_t slow_receiver_us = 0;  ///< sleep after each received batch
    /// By source and group.
    std::vector<std::vector<std::vector<Row>>> rows;

    /// Gives every group of every source up to `most` random rows.
    void fill(std::size_t most, DataShape const& shape = {});
    /// Makes the routing a Range of some order. Half of the splitters are rows that are there.
    void route_by_range(Random& random, DataShape const& shape = {});
};

/// Rows that a group sends to one destination, or as the routing says.
struct Run {
    static constexpr std::uint32_t kByRouting = ~std::uint32_t(0);
    std::uint64_t first = 0;
    std::uint64_t count = 0;
    std::uint32_t destination = kByRouting;  ///< index
};

struct FlowResult {
    /// By destination, in the order a single consumer saw them.
    std::vector<std::vector<std::string>> at;
    /// By destination: what was sent to it by name, and of a Broadcast to all.
    std::vector<std::vector<std::string>> direct;
    ChannelStats stats;
};

/// How long a test waits for a launch before it calls that a hang.
std::chrono::milliseconds launch_limit();
/// Waits for all of them; on a hang prints all stacks, fails `channel` and throws.
void wait_for(std::vector<Launch>& launches, Channel const& channel);

/// Runs the exchange; gtest failures are added for calls that fail.
FlowResult run_flow(FlowSetup const& setup);
/// Compares with what the routing must give.
void check_flow(FlowSetup const& setup, FlowResult const& result);
inline void run_and_check(FlowSetup const& setup) {
    check_flow(setup, run_flow(setup));
}

/// "by_reference, partition, 3 x 2 endpoints, ..." for SCOPED_TRACE.
std::string describe(FlowSetup const& setup);

}  // namespace mgi::test
