#include "planner/shape.hpp"

#include <utility>

namespace mgi::planner {

char const* to_string(Gateway gateway) noexcept {
    return gateway == Gateway::Network ? "network" : "nvlink domain";
}

void SmallGraph::reset(std::uint32_t count) {
    vertices = count;
    heads.fill(0);
    capacities.assign(std::size_t(count) * count, 0);
}

void SmallGraph::add(std::uint32_t from, std::uint32_t to, Capacity capacity) {
    if (capacity == 0) return;
    heads[from] |= std::uint64_t(1) << to;
    at(from, to) += capacity;
}

Shape::Shape(std::uint64_t id, std::vector<ShapeVertex> vertices, std::vector<Arc> arcs,
             std::uint32_t domain)
    : id_(id), vertices_(std::move(vertices)), arcs_(std::move(arcs)), domain_(domain) {
    for (std::uint32_t v = 0; v < vertices_.size(); ++v) {
        if (is(v, VertexKind::Network)) network_ = v;
    }
    if (!is_small()) return;
    for (std::size_t s = 0; s < kScopes; ++s) {
        small_[s].reset(std::uint32_t(vertices_.size()));
        for (Arc const& arc : arcs_) {
            if (carries(arc, Scope(s))) small_[s].add(arc.from, arc.to, arc.capacity);
        }
    }
}

bool Shape::carries(Arc const& arc, Scope scope) const {
    bool const from_nic = is(arc.from, VertexKind::Nic);
    bool const to_nic = is(arc.to, VertexKind::Nic);
    bool const from_network = is(arc.from, VertexKind::Network);
    bool const to_network = is(arc.to, VertexKind::Network);
    switch (scope) {
        case Scope::Inside: return !from_nic && !to_nic && !from_network && !to_network;
        case Scope::Out: return !from_network && (!from_nic || to_network);
        case Scope::In: return !to_network && (!to_nic || from_network);
    }
    return false;
}

std::string Shape::key_of(std::vector<ShapeVertex> const& vertices, std::vector<Arc> const& arcs,
                          std::uint32_t domain) {
    std::string key;
    key.reserve(8 + 2 * vertices.size() + 16 * arcs.size());
    auto const put = [&](std::uint64_t value, int bytes) {
        for (int b = 0; b < bytes; ++b) key.push_back(char(value >> (8 * b)));
    };
    put(vertices.size(), 4);
    put(domain, 4);
    for (ShapeVertex const& vertex : vertices) {
        put(std::uint64_t(vertex.kind), 1);
        put((vertex.managed ? 1u : 0u) | (vertex.nic_direct ? 2u : 0u), 1);
    }
    for (Arc const& arc : arcs) {
        put(arc.from, 4);
        put(arc.to, 4);
        put(std::uint64_t(arc.capacity), 8);
    }
    return key;
}

}  // namespace mgi::planner
