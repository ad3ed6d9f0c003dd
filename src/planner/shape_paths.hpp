/// \file
/// The paths of one shape under one set of rules: found when first asked for, kept for every server
/// of that shape and every channel.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "planner/joint_flow.hpp"
#include "planner/path_list.hpp"
#include "planner/rules.hpp"
#include "planner/shape.hpp"
#include "planner/small_flow.hpp"

namespace mgi::planner {

/// Vertices of one server. Up to 64 of them cost no memory beside the object.
class VertexSet {
public:
    void insert(std::uint32_t vertex) {
        if (vertex < 64) {
            low_ |= std::uint64_t(1) << vertex;
            return;
        }
        std::size_t const word = vertex / 64 - 1;
        if (word >= more_.size()) more_.resize(word + 1, 0);
        more_[word] |= std::uint64_t(1) << vertex % 64;
    }
    [[nodiscard]] bool contains(std::uint32_t vertex) const {
        std::uint64_t const word = vertex < 64                      ? low_
                                   : vertex / 64 - 1 < more_.size() ? more_[vertex / 64 - 1]
                                                                    : 0;
        return (word >> vertex % 64 & 1) != 0;
    }
    [[nodiscard]] bool empty() const { return low_ == 0 && more_.empty(); }
    /// Ascending.
    [[nodiscard]] std::vector<std::uint32_t> list() const;
    [[nodiscard]] std::size_t hash() const;
    [[nodiscard]] std::size_t bytes() const { return sizeof(*this) + more_.capacity() * 8; }
    bool operator==(VertexSet const&) const = default;

private:
    std::uint64_t low_ = 0;
    std::vector<std::uint64_t> more_;
};

/// Whether the rules let no path pass this vertex; paths may start and end there.
bool is_closed(Shape const& shape, std::uint32_t vertex, PathRules const& rules);

/// Not thread-safe.
class ShapePaths {
public:
    ShapePaths(std::shared_ptr<Shape const> shape, PathRules rules);

    [[nodiscard]] Shape const& shape() const { return *shape_; }

    /// Paths that carry the maximum flow from one vertex to another, shortest first. To the network
    /// vertex NICs lead out, from there in; between others neither is on the way. The range is of
    /// `list()`, and stays valid.
    PathRange find(SmallFlow& flow, std::uint32_t from, std::uint32_t to);

    /// Paths that carry the maximum flow from all sources together to all sinks together, except
    /// from a vertex to itself; sources and sinks may be gateways, and one vertex may be both. Valid
    /// until the next call.
    PathList const& find_joint(SmallFlow& flow, std::vector<std::uint32_t> const& sources,
                               std::vector<std::uint32_t> const& sinks);

    [[nodiscard]] PathList const& list() const { return list_; }
    [[nodiscard]] std::size_t bytes() const;

private:
    [[nodiscard]] Scope scope_of(std::uint32_t from, std::uint32_t to) const;
    [[nodiscard]] bool closed(std::uint32_t vertex) const {
        return is_closed(*shape_, vertex, rules_);
    }
    PathRange solve(SmallFlow& flow, std::uint32_t from, std::uint32_t to);
    void solve_small(SmallFlow& flow, std::uint32_t from, std::uint32_t to);
    void solve_large(std::uint32_t from, std::uint32_t to);
    /// NICs beyond the first `max_nics` that the paths from `begin` on use.
    [[nodiscard]] std::vector<std::uint32_t> surplus_nics(std::uint32_t begin) const;
    FlowNetwork& network(Scope scope);

    std::shared_ptr<Shape const> shape_;
    PathRules rules_;
    std::uint64_t open_ = 0;  ///< of a small shape: vertices that any path may pass
    PathList list_;
    std::vector<PathRange> found_small_;  ///< of from * vertices + to; begin kUnknown: not yet
    std::unordered_map<std::uint64_t, PathRange> found_large_;
    std::array<std::unique_ptr<FlowNetwork>, kScopes> networks_;
    JointFlow asker_;
    PathList joint_;
};

}  // namespace mgi::planner
