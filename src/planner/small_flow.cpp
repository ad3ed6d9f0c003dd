#include "planner/small_flow.hpp"

#include <algorithm>
#include <bit>
#include <limits>

namespace mgi::planner {
namespace {

constexpr std::uint64_t bit(std::uint32_t vertex) {
    return std::uint64_t(1) << vertex;
}

}  // namespace

void SmallFlow::load(SmallGraph const& graph) {
    graph_ = &graph;
    left_.assign(graph.capacities.begin(), graph.capacities.end());
    heads_ = graph.heads;
    changed_.clear();
}

bool SmallFlow::search(std::array<std::uint64_t, SmallGraph::kMost> const& heads,
                       std::uint32_t source, std::uint32_t sink, std::uint64_t open) {
    std::uint64_t fresh = open & ~bit(source);
    std::uint32_t end = 0;
    queue_[end++] = std::uint8_t(source);
    for (std::uint32_t begin = 0; begin < end; ++begin) {
        std::uint32_t const vertex = queue_[begin];
        std::uint64_t reached = heads[vertex] & fresh;
        if ((reached & bit(sink)) != 0) {
            came_[sink] = std::uint8_t(vertex);
            return true;
        }
        fresh &= ~reached;
        for (; reached != 0; reached &= reached - 1) {
            auto const head = std::uint32_t(std::countr_zero(reached));
            came_[head] = std::uint8_t(vertex);
            queue_[end++] = std::uint8_t(head);
        }
    }
    return false;
}

bool SmallFlow::push(std::uint32_t source, std::uint32_t sink, Capacity& value, PathList& paths) {
    Capacity most = std::numeric_limits<Capacity>::max();
    std::array<std::uint8_t, SmallGraph::kMost> backward;
    std::uint32_t length = 0;
    bool takes_back = false;
    for (std::uint32_t to = sink; to != source; to = came_[to]) {
        std::size_t const arc = at(came_[to], to);
        most = std::min(most, left_[arc]);
        takes_back = takes_back || left_[arc] > graph_->capacities[arc];
        backward[length++] = std::uint8_t(to);
    }
    std::uint32_t from = source;
    paths.push(source);
    while (length > 0) {
        std::uint32_t const to = backward[--length];
        Capacity& left = left_[at(from, to)];
        left -= most;
        if (left == 0) heads_[from] &= ~bit(to);
        left_[at(to, from)] += most;
        heads_[to] |= bit(from);
        changed_.push_back({std::uint8_t(from), std::uint8_t(to)});
        paths.push(to);
        from = to;
    }
    paths.add(most);
    value += most;
    return takes_back;
}

void SmallFlow::decompose(std::uint32_t source, std::uint32_t sink, PathList& paths) {
    flows_.fill(0);
    for (Changed const& arc : changed_) {
        // An arc that was taken both ways flows one way, by the difference.
        if (left_[at(arc.from, arc.to)] < graph_->capacities[at(arc.from, arc.to)]) {
            flows_[arc.from] |= bit(arc.to);
        } else if (left_[at(arc.to, arc.from)] < graph_->capacities[at(arc.to, arc.from)]) {
            flows_[arc.to] |= bit(arc.from);
        }
    }
    while (search(flows_, source, sink, ~std::uint64_t(0))) {
        Capacity most = std::numeric_limits<Capacity>::max();
        std::array<std::uint8_t, SmallGraph::kMost> backward;
        std::uint32_t length = 0;
        for (std::uint32_t to = sink; to != source; to = came_[to]) {
            std::size_t const arc = at(came_[to], to);
            most = std::min(most, graph_->capacities[arc] - left_[arc]);
            backward[length++] = std::uint8_t(to);
        }
        std::uint32_t from = source;
        paths.push(source);
        while (length > 0) {
            std::uint32_t const to = backward[--length];
            std::size_t const arc = at(from, to);
            left_[arc] += most;
            left_[at(to, from)] -= most;
            if (left_[arc] == graph_->capacities[arc]) flows_[from] &= ~bit(to);
            paths.push(to);
            from = to;
        }
        paths.add(most);
    }
}

void SmallFlow::restore() {
    for (Changed const& arc : changed_) {
        left_[at(arc.from, arc.to)] = graph_->capacities[at(arc.from, arc.to)];
        left_[at(arc.to, arc.from)] = graph_->capacities[at(arc.to, arc.from)];
        heads_[arc.from] = graph_->heads[arc.from];
        heads_[arc.to] = graph_->heads[arc.to];
    }
    changed_.clear();
}

Capacity SmallFlow::run(std::uint32_t source, std::uint32_t sink, std::uint64_t open,
                        PathList& paths) {
    Capacity value = 0;
    if (source == sink) return value;
    std::uint32_t const before = paths.size();
    bool mixed = false;
    while (search(heads_, source, sink, open)) mixed |= push(source, sink, value, paths);
    // Paths that never took back anything are the flow's own, in the order of their lengths.
    if (mixed) {
        paths.truncate(before);
        decompose(source, sink, paths);
    }
    restore();
    return value;
}

}  // namespace mgi::planner
