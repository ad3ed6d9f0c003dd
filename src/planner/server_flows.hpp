/// \file
/// Maximum flows inside one server: between two of its GPUs, and between a GPU and the network.
#pragma once

#include <cstdint>
#include <vector>

#include "planner/max_flow.hpp"
#include "topology/infrastructure.hpp"

namespace mgi::planner {

/// Whether other GPUs of the server may pass traffic on.
enum class Relays { Allowed, None };

/// The vertices of one server, and those that servers share. A NIC carries only traffic from or to the
/// network, so that it joins no two CPUs; a flow between GPUs meets neither NIC nor network. Not
/// thread-safe.
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
    static constexpr std::uint32_t kNone = UINT32_MAX;

    /// Which of a NIC's edges a network has.
    enum class Nics { None, Out, In };
    FlowNetwork network(topology::Infrastructure const& infrastructure, Nics nics) const;
    Capacity flow(FlowNetwork& network, std::uint32_t source, std::uint32_t sink, Relays relays);
    [[nodiscard]] std::uint32_t local(std::uint32_t vertex) const;
    [[nodiscard]] std::uint32_t local_gpu(std::uint32_t vertex) const;

    std::vector<std::uint32_t> local_of_;  ///< number in this server, kNone for others' vertices
    std::uint32_t locals_ = 0;
    std::uint32_t net_ = kNone;  ///< the network's, in this server
    std::vector<std::uint32_t> gpus_;
    FlowNetwork inside_;
    FlowNetwork out_;
    FlowNetwork in_;
};

}  // namespace mgi::planner
