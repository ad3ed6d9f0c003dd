/// \file
/// The runtimes and the channel that a flow runs over.
#pragma once

#include <cstdint>
#include <vector>

#include "support/flow.hpp"
#include "support/shared_channel.hpp"

namespace mgi::test {

/// The runtimes of a flow, and its channel in each of them.
struct FlowRuntimes {
    explicit FlowRuntimes(FlowSetup const& setup);
    [[nodiscard]] Channel& channel_of(std::size_t endpoint) {
        return channels[endpoints[endpoint].member];
    }
    [[nodiscard]] Runtime& runtime_of(std::size_t endpoint) {
        return members.runtime(endpoints[endpoint].member);
    }
    /// Every member leaves, in an order that the seed says. Nobody may fail for that.
    void leave(std::uint64_t seed);

    Members members;
    std::vector<Owned> endpoints;
    std::vector<std::uint32_t> destination_ids;
    std::vector<Channel> channels;  ///< by member
};

}  // namespace mgi::test
