#include "simulation/single_paths.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <queue>
#include <utility>

namespace mgi::simulation {
namespace {

std::uint32_t vertex_of(std::uint32_t state) {
    return state / 2;
}

}  // namespace

SinglePaths::SinglePaths(topology::Infrastructure const& infrastructure, SinglePathRules rules)
    : infrastructure_(infrastructure),
      rules_(rules),
      edges_of_(infrastructure.graph.vertices.size()),
      closed_nics_(infrastructure.graph.vertices.size(), false) {
    auto const& edges = infrastructure.graph.edges;
    for (std::uint32_t e = 0; e < edges.size(); ++e) edges_of_[edges[e].from].push_back(e);
    if (rules.nics == 0) return;
    std::map<std::uint32_t, std::uint32_t> nics;
    for (Vertex const& vertex : infrastructure.graph.vertices) {
        if (vertex.kind != VertexKind::Nic) continue;
        closed_nics_[vertex.id] = ++nics[infrastructure.sites[vertex.id].server] > rules.nics;
    }
}

bool SinglePaths::passes(std::uint32_t vertex) const {
    if (kind(vertex) == VertexKind::Gpu) return rules_.relay_gpus;
    return kind(vertex) != VertexKind::Cpu || rules_.relay_host;
}

std::optional<std::uint32_t> SinglePaths::step(std::uint32_t state, std::uint32_t edge) const {
    std::uint32_t const from = vertex_of(state);
    std::uint32_t const to = infrastructure_.graph.edges[edge].to;
    bool const came_in = state % 2 == 1;
    if (closed_nics_[to]) return std::nullopt;
    if (kind(to) == VertexKind::Network) {
        if (kind(from) != VertexKind::Nic || came_in) return std::nullopt;
        return 2 * to + 1;
    }
    if (kind(from) == VertexKind::Network) {
        if (kind(to) != VertexKind::Nic) return std::nullopt;
    } else if (kind(to) == VertexKind::Nic ? came_in : kind(from) == VertexKind::Nic && !came_in) {
        return std::nullopt;
    }
    return 2 * to + std::uint32_t(came_in);
}

SinglePaths::Search SinglePaths::shortest(std::uint32_t source, double narrowest) const {
    Search search(edges_of_.size() * 2);
    std::uint32_t const start = 2 * source;
    search[start] = {0, std::numeric_limits<double>::infinity(), UINT32_MAX, UINT32_MAX};
    std::vector<std::uint32_t> queue{start};
    // When the states of one distance are left, their widths are as high as they get.
    for (std::size_t at = 0; at < queue.size(); ++at) {
        std::uint32_t const state = queue[at];
        if (state != start && !passes(vertex_of(state))) continue;
        for (std::uint32_t const edge : edges_of_[vertex_of(state)]) {
            double const gbps = infrastructure_.graph.edges[edge].gbps;
            auto const next = step(state, edge);
            if (!next || !(gbps > 0) || gbps < narrowest) continue;
            Reached& there = search[*next];
            std::uint32_t const links = search[state].links + 1;
            double const width = std::min(search[state].width, gbps);
            if (there.links < links || (there.links == links && there.width >= width)) continue;
            if (there.links == UINT32_MAX) queue.push_back(*next);
            there = {links, width, edge, state};
        }
    }
    return search;
}

std::vector<double> SinglePaths::widths(std::uint32_t source) const {
    std::vector<double> best(edges_of_.size() * 2, 0);
    std::priority_queue<std::pair<double, std::uint32_t>> queue;
    best[2 * source] = std::numeric_limits<double>::infinity();
    queue.emplace(best[2 * source], 2 * source);
    while (!queue.empty()) {
        auto const [width, state] = queue.top();
        queue.pop();
        if (width < best[state]) continue;
        if (state != 2 * source && !passes(vertex_of(state))) continue;
        for (std::uint32_t const edge : edges_of_[vertex_of(state)]) {
            auto const next = step(state, edge);
            if (!next) continue;
            double const there = std::min(width, infrastructure_.graph.edges[edge].gbps);
            if (there <= best[*next]) continue;
            best[*next] = there;
            queue.emplace(there, *next);
        }
    }
    return best;
}

std::uint32_t SinglePaths::end_state(std::uint32_t source, std::uint32_t destination,
                                     Search const& search) const {
    auto const& sites = infrastructure_.sites;
    Reached const& inside = search[2 * destination];
    Reached const& across = search[2 * destination + 1];
    if (sites[source].server == sites[destination].server) return 2 * destination;
    bool const by_links = rules_.prefer == Prefer::Short || inside.width == across.width
                              ? inside.links <= across.links
                              : inside.width > across.width;
    return 2 * destination + std::uint32_t(!by_links);
}

std::vector<std::optional<Route>> SinglePaths::find(
    std::uint32_t source, std::vector<std::uint32_t> const& destinations) const {
    std::vector<double> const width =
        rules_.prefer == Prefer::Wide ? widths(source) : std::vector<double>();
    // One search serves all destinations that have the same width.
    std::map<double, Search> searches;
    auto const searched = [&](double narrowest) -> Search const& {
        auto const at = searches.find(narrowest);
        if (at != searches.end()) return at->second;
        return searches.emplace(narrowest, shortest(source, narrowest)).first->second;
    };
    std::vector<std::optional<Route>> found;
    found.reserve(destinations.size());
    for (std::uint32_t const destination : destinations) {
        double narrowest = 0;
        if (!width.empty()) {
            bool const inside =
                infrastructure_.sites[source].server == infrastructure_.sites[destination].server;
            narrowest = std::max(width[2 * destination], inside ? 0 : width[2 * destination + 1]);
        }
        Search const& search = searched(narrowest);
        std::uint32_t state = end_state(source, destination, search);
        if (search[state].links == UINT32_MAX) {
            found.emplace_back(std::nullopt);
            continue;
        }
        Route route;
        for (; search[state].before != UINT32_MAX; state = search[state].before) {
            route.push_back(search[state].edge);
        }
        std::reverse(route.begin(), route.end());
        found.emplace_back(std::move(route));
    }
    return found;
}

double SinglePaths::width(Route const& route) const {
    double least = std::numeric_limits<double>::infinity();
    for (std::uint32_t const edge : route) {
        least = std::min(least, infrastructure_.graph.edges[edge].gbps);
    }
    return least;
}

}  // namespace mgi::simulation
