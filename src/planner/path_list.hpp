/// \file
/// Paths, laid end to end: what flows are taken apart into, by the hundreds, without an allocation
/// for each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "planner/max_flow.hpp"

namespace mgi::planner {

/// Numbers a vertex of one server: `Cluster` takes no server of more than 2^16. Graphs of two servers,
/// or with vertices of their own beside a server's, have more; their paths are FlowPaths.
using LocalVertex = std::uint16_t;

class PathList {
public:
    struct Path {
        std::span<LocalVertex const> vertices;  ///< from source to sink
        Capacity capacity = 0;
    };

    [[nodiscard]] std::uint32_t size() const { return std::uint32_t(ends_.size()); }
    [[nodiscard]] Path operator[](std::size_t index) const {
        std::size_t const begin = index == 0 ? 0 : ends_[index - 1].end;
        return {{vertices_.data() + begin, ends_[index].end - begin}, ends_[index].capacity};
    }
    /// Vertices of the path that `add` ends.
    void push(std::uint32_t vertex) { vertices_.push_back(LocalVertex(vertex)); }
    void add(Capacity capacity) { ends_.push_back({std::uint32_t(vertices_.size()), capacity}); }
    void add(std::span<LocalVertex const> path, Capacity capacity) {
        vertices_.insert(vertices_.end(), path.begin(), path.end());
        add(capacity);
    }
    /// Keeps the first `count` paths.
    void truncate(std::uint32_t count) {
        vertices_.resize(count == 0 ? 0 : ends_[count - 1].end);
        ends_.resize(count);
    }
    void set_capacity(std::uint32_t index, Capacity capacity) { ends_[index].capacity = capacity; }
    [[nodiscard]] std::size_t bytes() const {
        return vertices_.capacity() * sizeof(LocalVertex) + ends_.capacity() * sizeof(End);
    }

private:
    struct End {
        std::uint32_t end = 0;
        Capacity capacity = 0;
    };
    std::vector<LocalVertex> vertices_;
    std::vector<End> ends_;
};

/// Some of a list's paths.
struct PathRange {
    std::uint32_t begin = 0;
    std::uint32_t end = 0;
    [[nodiscard]] bool empty() const { return begin == end; }
};

}  // namespace mgi::planner
