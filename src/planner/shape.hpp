/// \file
/// What a server looks like, whatever it is called: the graph that all servers of its kind share, in
/// the form in which flows are searched.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <mgi/graph.hpp>

#include "planner/limits.hpp"
#include "planner/max_flow.hpp"

namespace mgi::planner {

inline constexpr std::uint32_t kNowhere = UINT32_MAX;

/// Which links of the NICs a flow may use: a NIC carries only what is bound for the network or comes
/// from it, so that it joins no two CPUs.
enum class Scope : std::uint8_t { Inside, Out, In };
inline constexpr std::size_t kScopes = 3;

/// Where segments leave a server and enter it.
enum class Gateway : std::uint8_t { Network, Domain };
char const* to_string(Gateway gateway) noexcept;

struct ShapeVertex {
    VertexKind kind = VertexKind::Cpu;
    bool managed = true;
    bool nic_direct = false;  ///< a NIC that reads and writes GPU memory itself
    bool operator==(ShapeVertex const&) const = default;
};

/// A graph of at most 64 vertices as bits and a matrix: what `SmallFlow` searches.
struct SmallGraph {
    static constexpr std::uint32_t kMost = std::uint32_t(kFewVertices);
    std::uint32_t vertices = 0;
    std::array<std::uint64_t, kMost> heads{};  ///< of each vertex: where its arcs lead
    std::vector<Capacity> capacities;          ///< vertices x vertices

    [[nodiscard]] Capacity& at(std::uint32_t from, std::uint32_t to) {
        return capacities[std::size_t(from) * vertices + to];
    }
    void reset(std::uint32_t count);
    /// Adds to what is there; arcs of capacity 0 are none.
    void add(std::uint32_t from, std::uint32_t to, Capacity capacity);
};

/// Immutable; thread-safe. Vertices are numbered as in the infrastructure that described the server.
class Shape {
public:
    /// `arcs` are between vertices that there are, each pair once, none from a vertex to itself.
    /// `domain`: the switch that the server shares with others, or kNowhere.
    Shape(std::uint64_t id, std::vector<ShapeVertex> vertices, std::vector<Arc> arcs,
          std::uint32_t domain);

    /// Tells shapes apart for as long as the process runs; never used again.
    [[nodiscard]] std::uint64_t id() const { return id_; }
    [[nodiscard]] std::vector<ShapeVertex> const& vertices() const { return vertices_; }
    [[nodiscard]] std::vector<Arc> const& arcs() const { return arcs_; }
    [[nodiscard]] std::uint32_t network() const { return network_; }
    [[nodiscard]] std::uint32_t domain() const { return domain_; }
    [[nodiscard]] std::uint32_t gateway(Gateway gateway) const {
        return gateway == Gateway::Network ? network_ : domain_;
    }
    [[nodiscard]] bool is(std::uint32_t vertex, VertexKind kind) const {
        return vertices_[vertex].kind == kind;
    }
    [[nodiscard]] bool managed(std::uint32_t vertex) const { return vertices_[vertex].managed; }
    [[nodiscard]] bool nic_direct(std::uint32_t vertex) const {
        return vertices_[vertex].nic_direct;
    }

    [[nodiscard]] bool is_small() const { return vertices_.size() <= SmallGraph::kMost; }
    /// Of a small shape.
    [[nodiscard]] SmallGraph const& small(Scope scope) const { return small_[std::size_t(scope)]; }
    /// Whether a flow of this scope may take the arc.
    [[nodiscard]] bool carries(Arc const& arc, Scope scope) const;

    /// What makes two shapes equal, as bytes.
    [[nodiscard]] static std::string key_of(std::vector<ShapeVertex> const& vertices,
                                            std::vector<Arc> const& arcs, std::uint32_t domain);

private:
    std::uint64_t id_;
    std::vector<ShapeVertex> vertices_;
    std::vector<Arc> arcs_;
    std::uint32_t network_ = kNowhere;
    std::uint32_t domain_ = kNowhere;
    std::array<SmallGraph, kScopes> small_;
};

}  // namespace mgi::planner
