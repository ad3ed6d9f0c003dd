// The ways that a channel has between the GPUs of its process, as planned, and what of memory they take: slots on
// the GPUs that relay, and in pinned memory of the host.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <mgi/cluster.hpp>
#include <mgi/graph.hpp>

#include "gpu/memory.hpp"
#include "mover/way_copy.hpp"
#include "planner/gpu_ways.hpp"
#include "runtime/resources.hpp"
#include "transport/gpu_copy.hpp"

namespace mgi {

class GpuRelays {
public:
    // GPUs with sources, and with destinations, by their numbers.
    struct Between {
        std::vector<int> from;
        std::vector<int> to;
    };
    // Makes all memory: some slots of `segment` bytes for each sending GPU at each relay, and class, of its ways. That of GPUs becomes known to
    // `memories`, that of the host is at the charge of the account. Where there is none for a relay, the other ways do;
    // throws Error(OutOfMemory) where there are none.
    GpuRelays(Graph const& graph, std::vector<Device> const& devices, Between const& between,
              planner::PathRules const& rules, std::uint64_t segment, Resources const& resources,
              transport::GpuMemories& memories, std::string who);
    ~GpuRelays();
    GpuRelays(GpuRelays const&) = delete;
    GpuRelays& operator=(GpuRelays const&) = delete;

    // What all movers choose from; the slots of a sending GPU's ways are for its mover alone.
    [[nodiscard]] mover::Ways const& ways() const { return ways_; }
    [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
    // Adds what has gone by each way, where two GPUs have several or are relayed. Waits for nobody.
    void add_use(ClusterUse& use) const;

    static constexpr std::size_t kSlots = 4;

private:
    // Of a sending GPU: where, and of which class.
    struct Relay {
        int gpu = 0;
        std::uint32_t stop = 0;
        std::size_t hop = 0;
        auto operator<=>(Relay const&) const = default;
    };
    void connect(planner::GpuWays& planned, Between const& between,
                 planner::PathRules const& rules) const;
    void add(planner::GpuWays const& planned, int from, int to, planner::PathRules const& rules);
    [[nodiscard]] mover::Way open(planner::GpuWays const& planned, planner::GpuWay const& way);
    mover::FreeSlots& slots_at(Relay const& relay);
    [[nodiscard]] std::uint32_t vertex_of(int gpu) const { return vertices_.at(gpu); }
    [[nodiscard]] int gpu_at(std::uint32_t stop) const { return gpus_.at(stop); }

    std::uint64_t const segment_;
    std::shared_ptr<memory::Account> const account_;
    std::shared_ptr<gpu::Reserve> const reserve_;
    transport::GpuMemories& memories_;
    std::string const who_;
    std::map<int, std::uint32_t> vertices_;  // of GPUs
    std::map<std::uint32_t, int> gpus_;
    std::vector<std::shared_ptr<gpu::DeviceMemory>> on_gpus_;
    std::vector<std::unique_ptr<gpu::PinnedMemory>> on_host_;
    std::uint64_t bytes_ = 0;
    std::uint64_t charged_ = 0;
    std::map<Relay, mover::FreeSlots> slots_;
    std::map<std::pair<std::uint32_t, std::uint32_t>, mover::Load> loads_;  // by stops
    std::deque<mover::WayCounts> counts_;
    mover::Ways ways_;
};

}  // namespace mgi
