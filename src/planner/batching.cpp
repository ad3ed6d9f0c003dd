#include "planner/batching.hpp"

#include <algorithm>

namespace mgi::planner {

Lanes choose_lanes(std::uint64_t destinations, std::uint64_t servers, std::uint64_t most_on_one) {
    Lanes lanes;
    lanes.groups = servers;
    lanes.group_size = most_on_one;
    // With one destination a server groups are what they were, and one server needs none.
    lanes.two_level = destinations > kMostSingleLevelLanes && servers > 1 && servers < destinations;
    lanes.count = lanes.two_level ? servers : destinations;
    return lanes;
}

Batching choose_batching(Capacity fastest, std::uint64_t lanes, std::uint64_t memory) {
    double const wanted = gbps_of(fastest) * 1e9 * kTransferSeconds * kTransferShare;
    Batching batching{kSmallestDefaultSegment, kDefaultSlots};
    while (batching.segment_bytes < kLargestPlannedSegment && batching.segment_bytes < wanted) {
        batching.segment_bytes *= 2;
    }
    auto const too_much = [&] {
        return double(lanes) * batching.slots * batching.segment_bytes > double(memory);
    };
    while (batching.segment_bytes > kSmallestDefaultSegment && too_much()) {
        batching.segment_bytes /= 2;
    }
    while (batching.slots > 2 && too_much()) batching.slots /= 2;
    return batching;
}

}  // namespace mgi::planner
