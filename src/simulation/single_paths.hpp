/// \file
/// One path for each pair, as frameworks take it that do not spread a pair's traffic.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "simulation/fluid.hpp"
#include "topology/infrastructure.hpp"

namespace mgi::simulation {

/// What decides between two paths, and what decides where that is equal. Among paths that are equal
/// in both, the first in the order of the graph's edges is taken.
enum class Prefer : std::uint8_t {
    Short,  ///< fewest links, then the widest
    Wide,   ///< highest capacity of the narrowest link, then the shortest
};

struct SinglePathRules {
    Prefer prefer = Prefer::Short;
    bool relay_gpus = false;  ///< whether other GPUs may be on the way
    bool relay_host = true;   ///< whether CPUs may
    std::uint32_t nics = 0;   ///< of each server, that carry anything: the first ones; 0: all
};

/// A NIC carries only what is bound for the network or comes from it; GPUs of one server never talk
/// over the network. Thread-safe.
class SinglePaths {
public:
    /// Keeps a reference to the infrastructure.
    SinglePaths(topology::Infrastructure const& infrastructure, SinglePathRules rules);

    /// The path's edges, as their numbers in the graph, to each vertex that is asked for; nothing
    /// where there is no path.
    [[nodiscard]] std::vector<std::optional<Route>> find(
        std::uint32_t source, std::vector<std::uint32_t> const& destinations) const;

    /// The capacity of the narrowest link of a route.
    [[nodiscard]] double width(Route const& route) const;

private:
    // A search knows for each vertex whether the network was passed on the way there: state 2v, or
    // 2v + 1 if it was.
    struct Reached {
        std::uint32_t links = UINT32_MAX;
        double width = 0;
        std::uint32_t edge = UINT32_MAX;  ///< over which the state was reached
        std::uint32_t before = UINT32_MAX;
    };
    using Search = std::vector<Reached>;

    [[nodiscard]] Search shortest(std::uint32_t source, double narrowest) const;
    [[nodiscard]] std::vector<double> widths(std::uint32_t source) const;
    /// The state in which an edge leaves one, or nothing where the rules forbid it.
    [[nodiscard]] std::optional<std::uint32_t> step(std::uint32_t state, std::uint32_t edge) const;
    [[nodiscard]] bool passes(std::uint32_t vertex) const;
    /// In which states a destination counts as reached.
    [[nodiscard]] std::uint32_t end_state(std::uint32_t source, std::uint32_t destination,
                                          Search const& search) const;
    [[nodiscard]] VertexKind kind(std::uint32_t vertex) const {
        return infrastructure_.graph.vertices[vertex].kind;
    }

    topology::Infrastructure const& infrastructure_;
    SinglePathRules rules_;
    std::vector<std::vector<std::uint32_t>> edges_of_;  ///< out of each vertex
    std::vector<bool> closed_nics_;                     ///< by vertex
};

}  // namespace mgi::simulation
