/// \file
/// All paths that a plan gives a pair of GPUs, as routes over the edges of the graph.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "planner/max_flow.hpp"
#include "planner/rules.hpp"
#include "simulation/splits.hpp"
#include "topology/infrastructure.hpp"

namespace mgi::simulation {

/// Paths that carry the maximum flow (paper section 4.3), found when first asked for and kept. Not
/// thread-safe.
class Candidates {
public:
    /// Keeps a reference to the infrastructure.
    Candidates(topology::Infrastructure const& infrastructure, planner::PathRules rules);

    /// Within a server, or over NVLinks that span servers; neither meets a NIC.
    std::vector<Route> const& by_links(std::uint32_t source, std::uint32_t destination);
    /// From a GPU to the network, and from there to it.
    std::vector<Route> const& out(std::uint32_t gpu);
    std::vector<Route> const& in(std::uint32_t gpu);

    /// Whether links may join the two: they are of one server, or some switch is of all servers.
    [[nodiscard]] bool may_link(std::uint32_t source, std::uint32_t destination) const;

private:
    enum class Scope : std::uint8_t { Links, Out, In };
    /// A part of the graph in its own numbers.
    struct Part {
        std::unordered_map<std::uint32_t, std::uint32_t> local;  ///< of a vertex
        std::vector<std::uint32_t> edges;                        ///< of each arc
        std::unique_ptr<planner::FlowNetwork> network;
        std::vector<bool> closed;
    };
    Part& part(std::uint32_t server, Scope scope);
    [[nodiscard]] bool carries(Edge const& edge, Scope scope) const;
    std::vector<Route> find(Part& part, std::uint32_t source, std::uint32_t sink);
    std::vector<Route> find_limited(Part& part, std::uint32_t source, std::uint32_t sink);
    [[nodiscard]] VertexKind kind(std::uint32_t vertex) const {
        return infrastructure_.graph.vertices[vertex].kind;
    }
    [[nodiscard]] std::uint32_t server(std::uint32_t vertex) const {
        return infrastructure_.sites[vertex].server;
    }

    topology::Infrastructure const& infrastructure_;
    planner::PathRules rules_;
    bool spanned_ = false;  ///< some switch is of every server
    std::uint32_t network_ = topology::kNoVertex;
    std::unordered_map<std::uint64_t, Part> parts_;
    std::unordered_map<std::uint64_t, std::vector<Route>> known_;
};

}  // namespace mgi::simulation
