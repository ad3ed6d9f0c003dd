/// \file
/// Which endpoint of a channel is where: one list for all servers, with runs of endpoints that stand
/// in rank and file as one line.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "planner/cluster.hpp"

namespace mgi::planner {

/// Endpoints at vertices that follow each other.
struct VertexRun {
    std::uint32_t vertex = 0;
    std::uint32_t count = 0;
    bool operator==(VertexRun const&) const = default;
};

/// Endpoints of a channel are numbered by their position in its list of sources, or of destinations.
/// A block is those of `servers` servers that follow each other and look alike: of each server `each`
/// endpoints, at the vertices of its runs.
struct DirectoryBlock {
    ServerId server = 0;
    std::uint32_t servers = 1;
    std::uint32_t each = 0;  ///< the sum of the runs' counts
    std::vector<VertexRun> runs;
    [[nodiscard]] std::uint64_t endpoints() const { return std::uint64_t(servers) * each; }
    bool operator==(DirectoryBlock const&) const = default;
};

class Directory {
public:
    /// Endpoints by their number.
    void add(Place place);
    /// After the last `add`: joins the last server to those before it.
    void close();

    [[nodiscard]] std::uint64_t size() const { return size_; }
    /// Throws Error(InvalidArgument) for a number that no endpoint has.
    [[nodiscard]] Place at(std::uint64_t endpoint) const;
    [[nodiscard]] std::vector<DirectoryBlock> const& blocks() const { return blocks_; }
    bool operator==(Directory const&) const = default;

private:
    friend class DirectoryCodec;
    std::vector<DirectoryBlock> blocks_;
    std::uint64_t size_ = 0;
};

/// Of a channel: what all its servers share.
struct ChannelDirectory {
    Directory sources;
    Directory destinations;
    bool operator==(ChannelDirectory const&) const = default;
};

/// Little-endian, like tables (table_codec.hpp); the magic is "MGID".
std::string encode(ChannelDirectory const& directory);
/// Throws Error(InvalidArgument) for anything else.
ChannelDirectory decode_directory(std::string_view bytes);

}  // namespace mgi::planner
