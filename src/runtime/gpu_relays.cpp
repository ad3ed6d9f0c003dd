#include "runtime/gpu_relays.hpp"

#include <set>

#include <mgi/error.hpp>

#include "core/log.hpp"
#include "core/text.hpp"
#include "memory/carver.hpp"

namespace mgi {

GpuRelays::GpuRelays(Graph const& graph, std::vector<Device> const& devices, Between const& between,
                     planner::PathRules const& rules, std::uint64_t segment,
                     std::shared_ptr<memory::Account> account, transport::GpuMemories& memories,
                     std::string who)
    : segment_(memory::Carver::piece(segment)),
      account_(std::move(account)),
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

// Lets the GPUs of all ways reach each other; which of them cannot, the driver says, the plan does without.
void GpuRelays::connect(planner::GpuWays& planned, Between const& between,
                        planner::PathRules const& rules) const {
    std::set<std::pair<std::uint32_t, std::uint32_t>> known;
    auto const refused = [&](planner::GpuWay const& way) {
        bool any = false;
        for (std::size_t i = 1; i < way.stops.size(); ++i) {
            std::uint32_t const from = way.stops[i - 1];
            std::uint32_t const to = way.stops[i];
            if (from == planner::kHostStop || to == planner::kHostStop) continue;
            if (!known.emplace(from, to).second) continue;
            if (gpu::connect_peers(gpu_at(from), gpu_at(to))) continue;
            planned.refuse(from, to);
            any = true;
        }
        return any;
    };
    for (int const from : between.from) {
        for (int const to : between.to) {
            bool again = from != to;
            while (again) {
                again = false;
                for (auto const& way : planned.find(vertex_of(from), vertex_of(to), rules)) {
                    again |= refused(way);
                }
            }
        }
    }
}

void GpuRelays::add(planner::GpuWays const& planned, int from, int to,
                    planner::PathRules const& rules) {
    auto const found = planned.find(vertex_of(from), vertex_of(to), rules);
    auto& ways = ways_[{from, to}];
    for (planner::GpuWay const& way : found) {
        try {
            ways.push_back(open(planned, way));
        } catch (Error const& error) {
            bool const is_last = ways.empty() && &way == &found.back();
            if (error.code() != ErrorCode::OutOfMemory || is_last) throw;
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
        data = on_host_.emplace_back(std::make_unique<gpu::PinnedMemory>(relay.gpu, bytes))->data();
    } else {
        int const on = gpu_at(relay.stop);
        data = on_gpus_.emplace_back(std::make_unique<gpu::DeviceMemory>(on, bytes))->data();
        memories_.add({on, data, bytes, on});
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
