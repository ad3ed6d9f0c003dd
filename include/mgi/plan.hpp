/// \file
/// What the planner decides about a channel (paper section 4.4): sizes, and for every managed vertex
/// a forwarding table.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace mgi {

enum class Transfer : std::uint8_t {
    ByReference,  ///< destinations read the producer's segments in place
    ByCopy,       ///< a mover copies segment to segment, or a link carries it
    Mixed,        ///< by reference where source and destination are on one server, by copy between
};

/// One way to a destination: the next managed vertex, and the vertices passed on the way to it.
struct Hop {
    std::uint32_t destination = 0;    ///< vertex of the destination's device
    std::uint32_t next = 0;           ///< managed vertex
    std::vector<std::uint32_t> path;  ///< unmanaged vertices between
    double gbps = 0;                  ///< capacity of the path

    friend bool operator==(Hop const&, Hop const&) = default;
};

struct ForwardingTable {
    std::uint32_t vertex = 0;
    std::vector<Hop> hops;

    friend bool operator==(ForwardingTable const&, ForwardingTable const&) = default;
};

struct Plan {
    Transfer transfer = Transfer::ByReference;
    std::uint32_t segment_rows = 0;
    std::uint32_t segment_bytes = 0;  ///< of a whole segment
    std::uint32_t text_bytes = 0;     ///< of it for the characters of long strings
    std::uint32_t slots = 0;          ///< segments a lane owns, a power of two
    std::uint32_t credits = 0;        ///< by copy: receive segments for each (source, destination)
    std::uint32_t lanes = 0;          ///< of each source
    std::uint32_t tile_rows = 0;      ///< rows that one pass of `send` partitions
    std::uint32_t chunk_rows = 0;     ///< most rows of a received batch
    std::uint32_t max_groups = 0;     ///< most groups of one endpoint
    std::uint64_t pool_bytes = 0;     ///< all segments and carry buffers, fixed at creation
    std::vector<ForwardingTable> tables;

    friend bool operator==(Plan const&, Plan const&) = default;
};

char const* to_string(Transfer transfer) noexcept;

}  // namespace mgi
