/// \file
/// Maximum flows inside one server: between two of its GPUs, and between a GPU and the network.
#pragma once

#include <cstdint>
#include <vector>

#include "planner/max_flow.hpp"
#include "planner/shape.hpp"
#include "topology/infrastructure.hpp"

namespace mgi::planner {

/// Whether other GPUs of the server may pass traffic on.
enum class Relays { Allowed, None };

/// The vertices of one server, and those that servers share, over the links that `Shape::carries`
/// gives each question: only how much gets through, of any graph, where `ShapePaths` has the paths of
/// what a `Cluster` takes for a server. Not thread-safe.
class ServerFlows {
public:
    /// Throws Error(InvalidArgument) for an edge whose capacity is negative or no number.
    ServerFlows(topology::Infrastructure const& infrastructure, std::uint32_t server);

    /// The server's GPUs, as vertices of the infrastructure, ascending.
    [[nodiscard]] std::vector<std::uint32_t> const& gpus() const { return gpus_; }

    /// Both are vertices of the infrastructure; 0 where one is no GPU of this server.
    [[nodiscard]] Capacity between(std::uint32_t source, std::uint32_t destination, Relays relays);
    [[nodiscard]] Capacity to_network(std::uint32_t gpu, Relays relays);
    [[nodiscard]] Capacity from_network(std::uint32_t gpu, Relays relays);

private:
    Capacity flow(Scope scope, std::uint32_t source, std::uint32_t sink, Relays relays);
    [[nodiscard]] std::uint32_t local_gpu(std::uint32_t vertex) const;

    std::vector<std::uint32_t> local_of_;  ///< number in this server, kNowhere for others' vertices
    std::vector<bool> is_gpu_;             ///< by number in this server
    std::uint32_t network_ = kNowhere;
    std::vector<std::uint32_t> gpus_;
    std::vector<FlowNetwork> networks_;  ///< by scope
};

}  // namespace mgi::planner
