#include "runtime/gpu_relays.hpp"

#include <algorithm>
#include <set>

#include <mgi/error.hpp>

#include "core/log.hpp"
#include "core/text.hpp"
#include "gpu/peers.hpp"
#include "memory/carver.hpp"

namespace mgi {

GpuRelays::GpuRelays(Graph const& graph, std::vector<Device> const& devices, Between const& between,
                     planner::PathRules const& rules, std::uint64_t segment,
                     Resources const& resources, transport::GpuMemories& memories, std::string who)
    : segment_(memory::Carver::piece(segment)),
      account_(resources.account),
      reserve_(resources.reserve),
      memories_(memories),
      who_(std::move(who)) {
    for (Device const& device : devices) {
        if (device.kind != VertexKind::Gpu) continue;
        vertices_[device.ordinal] = device.index;
        gpus_[device.index] = device.ordinal;
    }
    try {
        planner::GpuWays planned(graph);
        connect(planned, between, rules);
        for (int const from : between.from) {
            for (int const to : between.to) {
                if (from != to) add(planned, from, to, rules);
            }
        }
    } catch (...) {
        account_->give(charged_);
        throw;
    }
}

GpuRelays::~GpuRelays() {
    account_->give(charged_);
}

// Lets the GPUs of all ways reach each other; which of them cannot, the driver says, the plan does without. So it
// does without a GPU that fails and has no endpoint here.
void GpuRelays::connect(planner::GpuWays& planned, Between const& between,
                        planner::PathRules const& rules) const {
    auto const has_endpoint = [&](int gpu) {
        return std::ranges::count(between.from, gpu) + std::ranges::count(between.to, gpu) != 0;
    };
    auto const are_peers = [&](int from, int to) {
        try {
            return gpu::connect_peers(from, to);
        } catch (Error const& error) {
            if (has_endpoint(from) && has_endpoint(to)) throw;
            log::warn("{}: relays no segments from cuda:{} to cuda:{}: {}", who_, from, to,
                      error.what());
            return false;
        }
    };
    std::set<std::pair<std::uint32_t, std::uint32_t>> known;
    bool again = false;
    auto const look_at = [&](planner::GpuWay const& way) {
        for (std::size_t i = 1; i < way.stops.size(); ++i) {
            std::uint32_t const from = way.stops[i - 1];
            std::uint32_t const to = way.stops[i];
            if (from == planner::kHostStop || to == planner::kHostStop) continue;
            if (!known.emplace(from, to).second || are_peers(gpu_at(from), gpu_at(to))) continue;
            planned.refuse(from, to);
            again = true;
        }
    };
    do {
        again = false;
        for (int const from : between.from) {
            for (int const to : between.to) {
                if (from == to) continue;
                auto const ways = planned.find(vertex_of(from), vertex_of(to), rules);
                std::ranges::for_each(ways, look_at);
            }
        }
    } while (again);
}

void GpuRelays::add(planner::GpuWays const& planned, int from, int to,
                    planner::PathRules const& rules) {
    auto const found = planned.find(vertex_of(from), vertex_of(to), rules);
    auto& ways = ways_[{from, to}];
    for (planner::GpuWay const& way : found) {
        try {
            ways.push_back(open(planned, way));
        } catch (Error const& error) {
            if (ways.empty() && &way == &found.back()) throw;
            log::warn("{}: does without a way from cuda:{} to cuda:{}: {}", who_, from, to,
                      error.what());
        }
    }
}

mover::Way GpuRelays::open(planner::GpuWays const& planned, planner::GpuWay const& way) {
    mover::Way made;
    made.name = way.is_direct() ? "straight" : "by ";
    made.rate = planner::gbps_of(way.capacity);
    for (std::size_t i = 1; i < way.stops.size(); ++i) {
        std::uint32_t const stop = way.stops[i];
        made.loads.push_back(&loads_[{way.stops[i - 1], stop}]);
        if (i + 1 == way.stops.size()) break;
        made.relays.push_back(&slots_at({gpu_at(way.stops.front()), stop, i - 1}));
        made.name += (i == 1 ? "" : " and ") + planned.name_of(stop);
    }
    made.counts = &counts_.emplace_back();
    return made;
}

mover::FreeSlots& GpuRelays::slots_at(Relay const& relay) {
    auto const at = slots_.find(relay);
    if (at != slots_.end()) return at->second;
    std::uint64_t const bytes = kSlots * segment_;
    char* data = nullptr;
    if (relay.stop == planner::kHostStop) {
        if (!account_->take(bytes)) {
            throw Error(ErrorCode::OutOfMemory,
                        "segments that go from cuda:" + std::to_string(relay.gpu) +
                            " through the host's memory take " + bytes_text(bytes) +
                            " of it, more than the " + bytes_text(account_->left()) +
                            " left of the memory limit");
        }
        charged_ += bytes;
        try {
            on_host_.push_back(std::make_unique<gpu::PinnedMemory>(relay.gpu, bytes));
        } catch (...) {
            account_->give(bytes);
            charged_ -= bytes;
            throw;
        }
        data = on_host_.back()->data();
    } else {
        int const on = gpu_at(relay.stop);
        data = on_gpus_.emplace_back(reserve_->memory(on, bytes))->data();
        memories_.add({.gpu = on, .data = data, .bytes = bytes, .on = on, .relay = true});
    }
    bytes_ += bytes;
    mover::FreeSlots& slots = slots_[relay];
    for (std::size_t i = 0; i < kSlots; ++i) slots.push_back(data + i * segment_);
    return slots;
}

void GpuRelays::add_use(ClusterUse& use) const {
    for (auto const& [gpus, ways] : ways_) {
        if (ways.size() == 1 && ways.front().relays.empty()) continue;
        for (mover::Way const& way : ways) {
            if (way.counts->segments.value() == 0) continue;
            ClusterPathUse path;
            path.by = "copy from cuda:" + std::to_string(gpus.first) + " " + way.name;
            path.peer = "cuda:" + std::to_string(gpus.second);
            path.flow.segments = way.counts->segments.value();
            path.flow.bytes = way.counts->bytes.value();
            path.flow.in_flight = way.counts->in_flight.value();
            use.paths.push_back(std::move(path));
        }
    }
}

}  // namespace mgi
