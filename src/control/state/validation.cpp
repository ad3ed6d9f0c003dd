#include "control/state/validation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <unordered_set>
#include <vector>

#include <mgi/error.hpp>
#include <mgi/graph.hpp>

#include "core/text.hpp"
#include "planner/limits.hpp"

namespace mgi::control {
namespace {

using IdList = google::protobuf::RepeatedField<std::uint32_t>;

std::string wrong_endpoints(char const* what, IdList const& ids, Limits const& limits) {
    auto const count = static_cast<std::size_t>(ids.size());
    if (count == 0 || count > limits.channel_endpoints) {
        return fmt::format("{} {}; 1 to {} are possible", count, what, limits.channel_endpoints);
    }
    std::vector<std::uint32_t> sorted(ids.begin(), ids.end());
    std::sort(sorted.begin(), sorted.end());
    auto const twice = std::adjacent_find(sorted.begin(), sorted.end());
    if (twice != sorted.end()) {
        return fmt::format("endpoint {} stands twice among the {}; each may stand there once",
                           *twice, what);
    }
    return {};
}

}  // namespace

void check(Settings const& settings) {
    auto const require = [](bool holds, char const* what) {
        if (!holds) throw Error(ErrorCode::InvalidArgument, fmt::format("controller: {}", what));
    };
    require(settings.heartbeat_ms >= 1, "the heartbeat must be 1 ms or more");
    require(settings.lease_ms > settings.heartbeat_ms, "the lease must be longer than a heartbeat");
    require(settings.grace_ms > settings.lease_ms, "the grace must be longer than the lease");
    require(settings.call_ms >= 1 && settings.call_ms <= settings.most_call_ms,
            "a call's time limit must be 1 ms or more, and no more than the longest one");
}

std::string wrong_link(Link const& link, int vertices) {
    auto const most = static_cast<std::uint32_t>(vertices);
    if (link.from() >= most || link.to() >= most || link.from() == link.to()) {
        return fmt::format("link {} -> {}: two different vertices of 0 to {} were expected",
                           link.from(), link.to(), vertices - 1);
    }
    if (!std::isfinite(link.gbps()) || link.gbps() < 0) {
        return fmt::format(
            "link {} -> {}: a capacity of {} GB/s; a finite number, not negative, "
            "was expected",
            link.from(), link.to(), link.gbps());
    }
    return {};
}

std::string wrong_graph(ServerGraph const& graph, Limits const& limits) {
    int const vertices = graph.vertices_size();
    if (vertices < 1 || static_cast<std::size_t>(vertices) > limits.vertices) {
        return fmt::format("{} vertices; 1 to {} are possible", vertices, limits.vertices);
    }
    if (static_cast<std::size_t>(graph.links_size()) > limits.links) {
        return fmt::format("{} links; {} are possible", graph.links_size(), limits.links);
    }
    std::size_t managed = 0;
    for (int i = 0; i < vertices; ++i) {
        managed += carries_endpoints(graph, static_cast<std::uint32_t>(i)) ? 1 : 0;
    }
    std::string large = planner::too_large(managed, static_cast<std::size_t>(vertices),
                                           static_cast<std::size_t>(graph.links_size()));
    if (!large.empty()) return large;
    std::unordered_set<std::string> names;
    for (int i = 0; i < vertices; ++i) {
        Vertex const& vertex = graph.vertices(i);
        std::string wrong = wrong_name("its name", vertex.name(), limits.text);
        if (wrong.empty() && !names.insert(vertex.name()).second) {
            wrong = fmt::format("the name '{}' stands twice", vertex.name());
        }
        if (wrong.empty() && vertex.kind() > static_cast<std::uint32_t>(VertexKind::Network)) {
            wrong = fmt::format("kind {} is not known", vertex.kind());
        }
        if (wrong.empty() && (vertex.parent() > static_cast<std::uint32_t>(vertices) ||
                              vertex.parent() == static_cast<std::uint32_t>(i) + 1)) {
            wrong = fmt::format("parent {} is no other vertex", vertex.parent());
        }
        if (wrong.empty() &&
            (vertex.note().size() > limits.text || vertex.domain().size() > limits.text)) {
            wrong = fmt::format("its note or domain has more than {} bytes", limits.text);
        }
        if (!wrong.empty()) return fmt::format("vertex {}: {}", i, wrong);
    }
    std::unordered_set<std::uint64_t> seen;
    for (Link const& link : graph.links()) {
        std::string wrong = wrong_link(link, vertices);
        if (!wrong.empty()) return wrong;
        if (link.gbps() == 0) {
            return fmt::format("link {} -> {}: a capacity of 0; leave out what is down",
                               link.from(), link.to());
        }
        if (link.kind().size() > limits.text) {
            return fmt::format("link {} -> {}: a kind of {} bytes; {} are possible", link.from(),
                               link.to(), link.kind().size(), limits.text);
        }
        if (!seen.insert(std::uint64_t{link.from()} << 32 | link.to()).second) {
            return fmt::format("link {} -> {} stands twice; parallel links are one", link.from(),
                               link.to());
        }
    }
    return {};
}

std::string wrong_spec(ChannelSpec const& spec, Limits const& limits) {
    std::string wrong;
    if (!spec.name().empty()) wrong = wrong_name("its name", spec.name(), limits.text);
    if (wrong.empty()) wrong = wrong_endpoints("sources", spec.sources(), limits);
    if (wrong.empty()) wrong = wrong_endpoints("destinations", spec.destinations(), limits);
    if (wrong.empty() && spec.schema().size() + spec.options().size() > limits.opaque_bytes) {
        wrong = fmt::format("schema and options of {} bytes; {} are possible",
                            spec.schema().size() + spec.options().size(), limits.opaque_bytes);
    }
    return wrong;
}

std::string wrong_name(std::string_view what, std::string_view name, std::size_t most) {
    bool const clean = without_controls(name) == name;
    if (!name.empty() && name.size() <= most && clean) return {};
    return fmt::format("{} has {} bytes{}; 1 to {} without control characters are possible", what,
                       name.size(), clean ? "" : " with control characters", most);
}

std::string clean_text(std::string_view text, std::size_t most) {
    std::size_t end = std::min(text.size(), most);
    auto const inside = [&] { return (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80; };
    while (end > 0 && end < text.size() && inside()) --end;
    std::string clean = without_controls(text.substr(0, end));
    if (end < text.size()) clean += "...";
    return clean;
}

std::string wrong_token(std::string_view what, std::string_view token) {
    if (token.size() >= 8 && token.size() <= 64) return {};
    return fmt::format("{} has {} bytes; 8 to 64 random ones were expected", what, token.size());
}

std::string wrong_owner(std::string_view owner) {
    if (owner.size() <= 64) return {};
    return fmt::format("an owner of {} bytes; at most 64 are possible", owner.size());
}

bool carries_endpoints(ServerGraph const& graph, std::uint32_t vertex) {
    if (vertex >= static_cast<std::uint32_t>(graph.vertices_size())) return false;
    std::uint32_t const kind = graph.vertices(static_cast<int>(vertex)).kind();
    return kind == static_cast<std::uint32_t>(VertexKind::Cpu) ||
           kind == static_cast<std::uint32_t>(VertexKind::Gpu);
}

}  // namespace mgi::control
