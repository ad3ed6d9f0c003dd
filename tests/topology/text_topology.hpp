/// \file
/// Topology files in tests: written inline, read, and asked for edges by name.
#pragma once

#include <optional>
#include <string>

#include <mgi/error.hpp>

#include "topology/readers/read.hpp"

namespace mgi::topology::test {

/// PCI addresses of two GPUs.
inline constexpr char const* kA = "0000:0a:00.0";
inline constexpr char const* kB = "0000:0b:00.0";

inline Infrastructure read_text(std::string const& text, Facts const& facts = {}) {
    return read_topology(Source("file", text), facts).infrastructure;
}

/// The message that refuses a text; empty where it is read.
inline std::string refusal(std::string const& text, Facts const& facts = {}) {
    try {
        read_text(text, facts);
    } catch (Error const& error) {
        return error.what();
    }
    return {};
}

inline std::optional<std::uint32_t> find_vertex(Infrastructure const& made,
                                                std::string const& name) {
    for (Vertex const& vertex : made.graph.vertices) {
        if (vertex.name == name) return vertex.id;
    }
    return std::nullopt;
}

/// GB/s from one vertex to another; 0 where there is no edge, -1 where there is no such vertex.
inline double gbps(Infrastructure const& made, std::string const& from, std::string const& to) {
    auto const a = find_vertex(made, from);
    auto const b = find_vertex(made, to);
    if (!a || !b) return -1;
    for (Edge const& edge : made.graph.edges) {
        if (edge.from == *a && edge.to == *b) return edge.gbps;
    }
    return 0;
}

inline std::size_t count_of(Infrastructure const& made, VertexKind kind) {
    std::size_t count = 0;
    for (Vertex const& vertex : made.graph.vertices) count += vertex.kind == kind ? 1 : 0;
    return count;
}

/// Whether a warning has these words in it.
inline bool warns_of(Infrastructure const& made, std::string const& words) {
    for (std::string const& warning : made.warnings) {
        if (warning.find(words) != std::string::npos) return true;
    }
    return false;
}

}  // namespace mgi::topology::test
