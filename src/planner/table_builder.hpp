/// \file
/// Gathers paths into a server's forwarding table (paper section 4.4, "Forwarding Table Generation"):
/// merged by destination, then by next hop; and writes it as bytes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "planner/path_list.hpp"
#include "planner/server_table.hpp"
#include "planner/shape.hpp"

namespace mgi::planner {

/// Used again for one server after another: then it allocates next to nothing. Not thread-safe.
class TableBuilder {
public:
    void start(Shape const& shape);

    /// Paths that are added until the next call belong to one pair: what they send over one hop adds
    /// up, while of several pairs the most counts.
    void next_pair() { ++pair_; }
    /// A path from a managed vertex to a managed one or to a gateway, or from a gateway to a managed
    /// vertex. Throws Error(InvalidArgument) for one of more hops than there are stages.
    void add(PathList::Path const& path);

    /// What `encode` makes of the table.
    [[nodiscard]] std::string bytes();
    /// Most capacity of a hop; 0 where there is none.
    [[nodiscard]] Capacity widest() const { return widest_; }

private:
    static constexpr std::uint32_t kNone = UINT32_MAX;
    struct Hop {
        LocalVertex next = 0;
        LocalVertex length = 0;  ///< of its path
        std::uint32_t path = 0;  ///< where it begins in path_
        Capacity capacity = 0;   ///< most of any pair
        Capacity of_pair = 0;    ///< of `pair`
        std::uint32_t pair = 0;
        std::uint32_t following = kNone;
    };
    struct Entry {
        std::uint64_t key = 0;  ///< target and stage, or gateway and destination: in their order
        std::uint32_t first = kNone;
        std::uint32_t last = kNone;
    };

    static std::uint64_t key_of(Target target, std::uint32_t stage) {
        return std::uint64_t(target.kind) << 32 | std::uint64_t(target.vertex) << 8 | stage;
    }
    [[nodiscard]] Target target_of(std::uint32_t vertex) const;
    void add_hop(std::vector<Entry>& entries, std::uint64_t key, std::uint32_t next,
                 std::span<LocalVertex const> path, Capacity capacity);
    void put_hops(class ByteWriter& out, Entry const& entry) const;

    Shape const* shape_ = nullptr;
    std::vector<std::vector<Entry>> entries_;  ///< of each vertex
    std::vector<Entry> arrivals_;
    std::vector<Hop> hops_;
    std::vector<LocalVertex> path_;
    std::uint32_t pair_ = 0;
    Capacity widest_ = 0;
};

}  // namespace mgi::planner
