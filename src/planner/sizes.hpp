/// \file
/// How large a channel's segments, tiles and pools are.
#pragma once

#include <cstdint>

#include <mgi/channel.hpp>
#include <mgi/plan.hpp>
#include <mgi/schema.hpp>

namespace mgi::planner {

inline constexpr std::uint32_t kDefaultSegmentBytes = 256u << 10;
inline constexpr std::uint32_t kSmallestDefaultSegment = 16u << 10;
inline constexpr std::uint32_t kDefaultSlots = 4;
inline constexpr std::uint32_t kMaxSlots = 1024;
/// Chunks of segments that no option divides are not smaller than this: a reader that streams whole
/// columns is faster than one that gets a quarter of each, and there are segments enough to share.
inline constexpr std::uint32_t kSmallestDefaultChunk = kDefaultSegmentBytes;
/// Rows of a tile for a few lanes; more lanes get more rows, so that each lane still gets a run of
/// them. The product of lanes and this many rows a lane is rounded up to a power of two.
inline constexpr std::uint32_t kDefaultTileRows = 1024;
inline constexpr std::uint32_t kTileRowsPerLane = 64;
inline constexpr std::uint32_t kMostDefaultTileRows = 8192;
inline constexpr std::uint32_t kMaxTileRows = 65535;  ///< a tile numbers its rows with 16 bits
inline constexpr std::uint32_t kMaxLanes = 65535;     ///< and its lanes too
inline constexpr std::uint32_t kDefaultTextPerRow =
    32;                                            ///< characters, each String or Binary column
inline constexpr std::uint32_t kLeastText = 4096;  ///< bytes, unless an option makes it smaller
/// Bytes of text in a segment that no option sizes, unless one row is said to have more.
inline constexpr std::uint32_t kMostDefaultText = (4u << 20) - 16;
inline constexpr std::uint32_t kLeastMaxGroups = 16;

/// How many of everything a channel has.
struct ChannelShape {
    std::uint64_t sources = 0;
    std::uint64_t destinations = 0;
    std::uint64_t sources_here = 0;       ///< whose lanes and carry buffers are in the pools
    std::uint64_t destinations_here = 0;  ///< whose receive rings are
    std::uint64_t lanes = 0;              ///< of each source
    std::uint64_t memory_limit = 0;
    std::uint64_t memory_left = 0;
    std::uint32_t cores = 0;
    bool by_copy = false;
};

/// Bytes of a segment of so many rows: bit regions, then columns (or row structs), then text, each
/// from a 64-byte boundary on. What memory/segment_layout builds is exactly as large.
std::uint64_t segment_size(Schema const& schema, Layout layout, std::uint64_t rows,
                           std::uint64_t text_bytes);

/// Bytes of text that a carry buffer holds: a tile has no more of it than a segment, but each lane's
/// part starts at a unit of the lane (device::Ticket).
std::uint64_t carry_text_bytes(std::uint64_t text_bytes, std::uint64_t lanes) noexcept;

/// Fills in the plan's sizes, from the options where they say something. The pools' budget, to which
/// segments that no option sizes are shrunk (from 256 KiB toward 16 KiB), is 8 MiB for each source,
/// 128 MiB at least, and a quarter of the memory that is left at most: a lane's segments should still
/// be in cache when they are read. Throws Error(InvalidArgument) whose text starts with `who`.
void decide_sizes(Schema const& schema, ChannelOptions const& options, ChannelShape const& shape,
                  std::string const& who, Plan& plan);

}  // namespace mgi::planner
