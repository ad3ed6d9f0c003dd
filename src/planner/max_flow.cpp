#include "planner/max_flow.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <utility>

#include <mgi/device/assert.hpp>
#include <mgi/error.hpp>

namespace mgi::planner {
namespace {

constexpr double kKilobytesPerGigabyte = 1e6;
constexpr std::uint32_t kUnreached = UINT32_MAX;

}  // namespace

Capacity capacity_of(double gbps) {
    if (!(gbps >= 0 && gbps <= kMostGbps)) {
        throw Error(ErrorCode::InvalidArgument,
                    "a capacity of " + std::to_string(gbps) + " GB/s; expected 0 to 10^9");
    }
    return std::llround(gbps * kKilobytesPerGigabyte);
}

double gbps_of(Capacity capacity) noexcept {
    return double(capacity) / kKilobytesPerGigabyte;
}

std::string gbps_text(Capacity capacity) {
    char text[32];
    std::snprintf(text, sizeof(text), "%.4g GB/s", gbps_of(capacity));
    return text;
}

FlowNetwork::FlowNetwork(std::uint32_t vertices, std::vector<Arc> arcs)
    : vertices_(vertices), arcs_(std::move(arcs)), first_step_(vertices + std::size_t(1), 0) {
    Capacity all = 0;
    for (Arc const& arc : arcs_) {
        if (arc.from >= vertices || arc.to >= vertices) {
            throw Error(ErrorCode::InvalidArgument,
                        "an arc from vertex " + std::to_string(arc.from) + " to " +
                            std::to_string(arc.to) + " of a graph of " + std::to_string(vertices));
        }
        if (arc.capacity < 0 || arc.capacity > std::numeric_limits<Capacity>::max() - all) {
            throw Error(ErrorCode::InvalidArgument,
                        "an arc of capacity " + std::to_string(arc.capacity) +
                            "; expected 0 or more, and a sum that 64 bits hold");
        }
        all += arc.capacity;
    }
    steps_.resize(arcs_.size() * 2);
    left_.resize(arcs_.size() * 2);
    came_.resize(vertices);
    queue_.reserve(vertices);
    for (std::uint32_t step = 0; step < steps_.size(); ++step) ++first_step_[tail_of(step) + 1];
    for (std::uint32_t v = 0; v < vertices; ++v) first_step_[v + 1] += first_step_[v];
    std::vector<std::uint32_t> next(first_step_.begin(), first_step_.end() - 1);
    for (std::uint32_t step = 0; step < steps_.size(); ++step) {
        steps_[next[tail_of(step)]++] = step;
    }
}

void FlowNetwork::close(std::vector<bool> closed) {
    if (!closed.empty() && closed.size() != vertices_) {
        throw Error(ErrorCode::InvalidArgument,
                    "closed vertices: " + std::to_string(closed.size()) + " values for " +
                        std::to_string(vertices_) + " vertices");
    }
    closed_ = std::move(closed);
}

bool FlowNetwork::search(std::uint32_t source, std::uint32_t sink) {
    std::fill(came_.begin(), came_.end(), kUnreached);
    queue_.assign(1, source);
    for (std::size_t at = 0; at < queue_.size(); ++at) {
        std::uint32_t const vertex = queue_[at];
        for (std::uint32_t i = first_step_[vertex]; i < first_step_[vertex + 1]; ++i) {
            std::uint32_t const step = steps_[i];
            std::uint32_t const head = head_of(step);
            if (left_[step] == 0 || head == source || came_[head] != kUnreached) continue;
            if (is_closed(head)) continue;
            came_[head] = step;
            if (head == sink) return true;
            queue_.push_back(head);
        }
    }
    return false;
}

Capacity FlowNetwork::bottleneck(std::uint32_t source, std::uint32_t sink) const {
    Capacity most = std::numeric_limits<Capacity>::max();
    for (std::uint32_t v = sink; v != source; v = tail_of(came_[v])) {
        most = std::min(most, left_[came_[v]]);
    }
    return most;
}

Capacity FlowNetwork::max_flow_value(std::uint32_t source, std::uint32_t sink) {
    if (source >= vertices_ || sink >= vertices_) {
        throw Error(ErrorCode::InvalidArgument, "a flow from vertex " + std::to_string(source) +
                                                    " to " + std::to_string(sink) +
                                                    " of a graph of " + std::to_string(vertices_));
    }
    for (std::size_t a = 0; a < arcs_.size(); ++a) {
        left_[2 * a] = arcs_[a].capacity;
        left_[2 * a + 1] = 0;
    }
    if (source == sink || is_closed(source) || is_closed(sink)) return 0;
    Capacity value = 0;
    while (search(source, sink)) {
        Capacity const more = bottleneck(source, sink);
        MGI_ASSERT(more > 0 && more <= std::numeric_limits<Capacity>::max() - value, more, value,
                   source, sink);
        for (std::uint32_t v = sink; v != source; v = tail_of(came_[v])) {
            left_[came_[v]] -= more;
            left_[came_[v] ^ 1] += more;
        }
        value += more;
    }
    return value;
}

Flow FlowNetwork::max_flow(std::uint32_t source, std::uint32_t sink) {
    Flow flow;
    flow.value = max_flow_value(source, sink);
    flow.on_arc.reserve(arcs_.size());
    for (std::size_t a = 0; a < arcs_.size(); ++a) flow.on_arc.push_back(left_[2 * a + 1]);
    return flow;
}

std::vector<FlowPath> FlowNetwork::paths(Flow const& flow, std::uint32_t source,
                                         std::uint32_t sink) {
    if (flow.on_arc.size() != arcs_.size()) {
        throw Error(ErrorCode::InvalidArgument, "the flow is not of this network");
    }
    std::vector<FlowPath> found;
    if (flow.value == 0) return found;
    // The same search, over what flows: each path takes the last of at least one arc.
    for (std::size_t a = 0; a < arcs_.size(); ++a) {
        left_[2 * a] = flow.on_arc[a];
        left_[2 * a + 1] = 0;
    }
    Capacity left = flow.value;
    while (search(source, sink)) {
        FlowPath path;
        path.capacity = bottleneck(source, sink);
        MGI_ASSERT(path.capacity > 0 && path.capacity <= left, path.capacity, left, source, sink);
        left -= path.capacity;
        path.vertices.push_back(sink);
        for (std::uint32_t v = sink; v != source; v = tail_of(came_[v])) {
            left_[came_[v]] -= path.capacity;
            path.vertices.push_back(tail_of(came_[v]));
        }
        std::reverse(path.vertices.begin(), path.vertices.end());
        found.push_back(std::move(path));
    }
    MGI_ASSERT(left == 0 && found.size() <= arcs_.size(), left, flow.value, found.size(),
               arcs_.size());
    return found;
}

}  // namespace mgi::planner
