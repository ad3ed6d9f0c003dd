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
///
/// Hops of several paths meet in one entry, so that a segment may take one path's beginning and
/// another one's end. Stages keep them apart where that would lead it to a vertex twice: each entry
/// knows the vertices that any walk to it has passed, and a path that meets one of them again behind
/// it goes by an entry of a later stage.
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
        LocalVertex length = 0;       ///< of its path
        std::uint32_t path = 0;       ///< where it begins in path_
        std::uint32_t entry = kNone;  ///< that it leads to; kNone: it is there
        Capacity capacity = 0;        ///< most of any pair
        Capacity of_pair = 0;         ///< of `pair`
        std::uint32_t pair = 0;
        std::uint32_t following = kNone;
    };
    struct Entry {
        std::uint64_t key = 0;  ///< target and stage, or gateway and destination: in their order
        std::uint32_t vertex = kNone;  ///< kNone: segments arrive
        std::uint32_t first = kNone;
        std::uint32_t last = kNone;
        std::uint32_t visit = 0;  ///< by the search in hand
    };
    using Words = std::uint64_t;  ///< 64 managed vertices of a set

    static std::uint64_t key_of(Target target, std::uint32_t stage) {
        return std::uint64_t(target.kind) << 32 | std::uint64_t(target.vertex) << 8 | stage;
    }
    [[nodiscard]] Target target_of(std::uint32_t vertex) const;
    [[nodiscard]] std::uint32_t stage_of(Hop const& hop) const {
        return hop.entry == kNone ? 0 : std::uint32_t(entries_[hop.entry].key & 0xff);
    }
    /// kNone where there is none.
    [[nodiscard]] std::uint32_t find(std::vector<std::uint32_t> const& at, std::uint64_t key) const;
    std::uint32_t make(std::vector<std::uint32_t>& at, std::uint64_t key, std::uint32_t vertex);
    void add_hop(std::uint32_t entry, std::uint32_t next, std::uint32_t leads_to,
                 std::span<LocalVertex const> path, Capacity capacity);
    void put_hops(class ByteWriter& out, Entry const& entry) const;

    /// An entry of `vertex` that segments which have passed `passed_` can go to, and on to `rest_`,
    /// without a vertex twice; of the first stage from `stage` to `last` that has one.
    std::uint32_t entry_behind(std::uint32_t vertex, Target target, std::uint32_t stage,
                               std::uint32_t last);
    /// Whether walks from an entry meet what `passed_` has.
    [[nodiscard]] bool meets_again(std::uint32_t entry);
    /// Walks to an entry, and on from it, have passed `passed_`.
    void pass_on(std::uint32_t entry);

    void put(std::vector<Words>& set, std::uint32_t vertex) const {
        set[rank_[vertex] / 64] |= Words(1) << rank_[vertex] % 64;
    }
    void take(std::vector<Words>& set, std::uint32_t vertex) const {
        set[rank_[vertex] / 64] &= ~(Words(1) << rank_[vertex] % 64);
    }
    [[nodiscard]] bool has(std::vector<Words> const& set, std::uint32_t vertex) const {
        return (set[rank_[vertex] / 64] >> rank_[vertex] % 64 & 1) != 0;
    }

    Shape const* shape_ = nullptr;
    std::vector<std::vector<std::uint32_t>> of_vertex_;  ///< entries of each vertex
    std::vector<std::uint32_t> arrivals_;                ///< entries
    std::vector<Entry> entries_;
    std::vector<Hop> hops_;
    std::vector<LocalVertex> path_;
    std::vector<std::uint32_t> rank_;  ///< of managed vertices among themselves
    std::size_t words_ = 1;            ///< of a set
    std::vector<Words> behind_;        ///< of each entry: what any walk to it has passed
    std::vector<Words> passed_;        ///< so far, and the vertex in hand
    std::vector<Words> rest_;          ///< of the path in hand: relays that come
    std::uint32_t visit_ = 0;
    std::uint32_t pair_ = 0;
    Capacity widest_ = 0;
};

}  // namespace mgi::planner
