/// \file
/// A server's part of a channel's plan (paper section 4.4): where each managed vertex sends what, and
/// how the server is entered. Hierarchical: destinations on other servers are one entry, the network,
/// so that a table does not grow with the channel.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "planner/path_list.hpp"
#include "planner/shape.hpp"

namespace mgi::planner {

/// Where a segment is bound for, as its server sees it.
struct Target {
    enum class Kind : std::uint8_t { Local, Network, Domain };
    Kind kind = Kind::Local;
    LocalVertex vertex = 0;  ///< of a Local one
    auto operator<=>(Target const&) const = default;
};

/// One way on.
struct NextHop {
    LocalVertex next = 0;           ///< managed vertex; or the gateway's vertex, where it leaves
    std::uint8_t stage = 0;         ///< of the segment there; 0: it has arrived
    std::vector<LocalVertex> path;  ///< unmanaged vertices passed before it
    Capacity capacity = 0;          ///< the most that the maximum flow of one pair sends this way
    bool operator==(NextHop const&) const = default;
};

/// Of a Forward: a path has one hop more between managed vertices at most.
inline constexpr std::uint8_t kMostStage = 0xff;

/// Ways on of segments at a stage. Since a hop leads to a later stage and there is a last one, segments
/// cannot go round in circles, whichever hops are chosen; and stages are given out so that no segment
/// meets a vertex twice, as long as there are stages left (TableBuilder).
struct Forward {
    Target target;
    std::uint8_t stage = 0;  ///< 0 at the source; behind a gateway the first managed vertex has 1
    std::vector<NextHop> hops;
    bool operator==(Forward const&) const = default;
};

struct VertexTable {
    LocalVertex vertex = 0;
    std::vector<Forward> forwards;  ///< by target, then by stage
    bool operator==(VertexTable const&) const = default;
};

/// Ways in for one destination: `path` starts with the NIC where the gateway is the network.
struct Arrival {
    Gateway gateway = Gateway::Network;
    LocalVertex destination = 0;
    std::vector<NextHop> hops;  ///< `next` is the destination itself or a relay
    bool operator==(Arrival const&) const = default;
};

struct ServerTable {
    std::vector<VertexTable> vertices;  ///< ascending
    std::vector<Arrival> arrivals;      ///< by gateway, then by destination
    bool operator==(ServerTable const&) const = default;
};

/// For people; `names` are the vertices' own.
std::string to_text(ServerTable const& table, std::vector<std::string> const& names);

}  // namespace mgi::planner
