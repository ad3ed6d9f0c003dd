/// \file
/// The ways that copy engines take between the GPUs of one process: straight, through other GPUs' memory, through
/// the host's. By the process' graph, but for one thing: what a GPU has of one kind to several neighbours (PCIe, a
/// switch) is one link of its own, so that no flow counts it twice.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <mgi/graph.hpp>

#include "planner/max_flow.hpp"
#include "planner/rules.hpp"

namespace mgi::planner {

/// Stands for the host's memory, which all its CPU devices share.
inline constexpr std::uint32_t kHostStop = UINT32_MAX;

/// Stops are vertices of the graph, or kHostStop; a copy goes from each to the next one.
struct GpuWay {
    std::vector<std::uint32_t> stops;  ///< from source to destination
    Capacity capacity = 0;

    [[nodiscard]] bool is_direct() const { return stops.size() == 2; }
    bool operator==(GpuWay const&) const = default;
};

/// Not thread-safe.
class GpuWays {
public:
    explicit GpuWays(Graph const& graph);

    /// No copy goes straight from one GPU to the other from now on, whatever the graph says.
    void refuse(std::uint32_t from, std::uint32_t to);

    /// The ways of a maximum flow from one GPU to another, fewest stops first, through the host last: those with at
    /// least a quarter of the capacity that the best has (others are not worth the memory of a relay), and of more
    /// than kMostRelays relays only where there is no other. A rule that allows no relay leaves one way: straight, or,
    /// whatever the rules, through the host where the GPUs are no peers. Throws Error(InvalidArgument) where there is none.
    [[nodiscard]] std::vector<GpuWay> find(std::uint32_t from, std::uint32_t to,
                                           PathRules const& rules = {}) const;

    /// "cuda:1"; "the host".
    [[nodiscard]] std::string name_of(std::uint32_t stop) const;

    static constexpr std::size_t kMostRelays = 2;

private:
    /// A GPU's link of one kind to all that has that kind.
    using Port = std::pair<std::uint32_t, std::string>;
    [[nodiscard]] std::vector<GpuWay> flow(std::uint32_t from, std::uint32_t to,
                                           PathRules const& rules) const;
    [[nodiscard]] bool is(std::uint32_t vertex, VertexKind kind) const;
    std::uint32_t port(std::map<Port, std::uint32_t>& ports, Edge const& edge, bool out);
    void join(std::uint32_t from, std::uint32_t to, double gbps);
    void join_by_switch(Edge const& up, Edge const& down);

    Graph graph_;
    std::uint32_t host_ = 0;
    std::uint32_t count_ = 0;  ///< of the vertices, ports among them
    std::map<Port, std::uint32_t> out_;
    std::map<Port, std::uint32_t> in_;
    struct Straight {
        Arc arc;
        std::uint32_t from = 0;  ///< GPUs that it joins; kHostStop for one that joins none
        std::uint32_t to = 0;
    };
    std::vector<Straight> arcs_;
    std::set<std::pair<std::uint32_t, std::uint32_t>> refused_;
};

}  // namespace mgi::planner
