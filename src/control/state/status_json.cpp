#include "control/state/status_json.hpp"

#include <map>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <utility>

#include <mgi/graph.hpp>

#include "control/state/settings.hpp"

namespace mgi::control {
namespace {

using Json = nlohmann::ordered_json;

/// Figures name vertices by position, which a peer may get wrong.
std::string vertex_name(ServerGraph const& graph, std::uint32_t vertex) {
    if (vertex >= static_cast<std::uint32_t>(graph.vertices_size())) return "?";
    return graph.vertices(static_cast<int>(vertex)).name();
}

Json of(Vertex const& vertex) {
    Json json{{"name", vertex.name()},
              {"kind", to_string(static_cast<VertexKind>(vertex.kind()))},
              {"parent", vertex.parent()},
              {"note", vertex.note()}};
    if (vertex.nic_direct()) json["nic_direct"] = true;
    return json;
}

Json links_of(ServerView const& server) {
    std::map<std::pair<std::uint32_t, std::uint32_t>, double> used;
    for (LinkUse const& figure : *server.use.links) {
        used[{figure.from(), figure.to()}] = figure.gbps();
    }
    Json links = Json::array();
    for (Link const& link : server.graph->links()) {
        auto const figure = used.find({link.from(), link.to()});
        links.push_back({{"from", vertex_name(*server.graph, link.from())},
                         {"to", vertex_name(*server.graph, link.to())},
                         {"kind", link.kind()},
                         {"gbps", link.gbps()},
                         {"used_gbps", figure == used.end() ? 0 : figure->second}});
    }
    return links;
}

Json of(ServerView const& server) {
    Json json{{"id", server.id},
              {"name", server.name},
              {"state", server.state},
              {"version", server.version},
              {"incarnation", server.incarnation},
              {"endpoints", server.endpoints},
              {"lease_left_ms", server.lease_left_ms},
              {"clock_off_ms", server.clock_off_ms}};
    Json& vertices = json["vertices"] = Json::array();
    for (Vertex const& vertex : server.graph->vertices()) vertices.push_back(of(vertex));
    json["links"] = links_of(server);
    return json;
}

Json of(ChannelView const& channel) {
    return {{"id", channel.id},           {"name", channel.name},
            {"state", channel.state},     {"generation", channel.generation},
            {"sources", channel.sources}, {"destinations", channel.destinations},
            {"servers", channel.servers}, {"rows", channel.rows},
            {"bytes", channel.bytes},     {"gbps", channel.gbps},
            {"why", channel.why}};
}

Json of(Counters const& counters) {
    return {{"registrations", counters.registrations},
            {"heartbeats", counters.heartbeats},
            {"messages", counters.messages},
            {"refused", counters.refused},
            {"calls", counters.calls},
            {"calls_failed", counters.calls_failed},
            {"channels_created", counters.channels_created},
            {"channels_failed", counters.channels_failed},
            {"plans_renewed", counters.plans_renewed},
            {"plans_aborted", counters.plans_aborted}};
}

}  // namespace

std::string status_json(Snapshot const& snapshot, About const& about) {
    Json json{{"protocol", kProtocol},
              {"epoch", snapshot.epoch},
              {"controller", about.controller},
              {"leader", about.leader.empty()},
              {"leader_address", about.leader.empty() ? about.controller : about.leader},
              {"uptime_s", snapshot.uptime_s},
              {"version", about.version}};
    Json& servers = json["servers"] = Json::array();
    std::unordered_map<std::uint32_t, ServerGraph const*> graphs;
    for (ServerView const& server : snapshot.servers) {
        servers.push_back(of(server));
        graphs[server.id] = server.graph.get();
    }
    Json& endpoints = json["endpoints"] = Json::array();
    for (EndpointView const& endpoint : snapshot.endpoints) {
        endpoints.push_back({{"id", endpoint.id},
                             {"server", endpoint.server},
                             {"device", vertex_name(*graphs.at(endpoint.server), endpoint.vertex)},
                             {"application", endpoint.application}});
    }
    Json& channels = json["channels"] = Json::array();
    for (ChannelView const& channel : snapshot.channels) channels.push_back(of(channel));
    Json& failures = json["failures"] = Json::array();
    for (FailureView const& failure : snapshot.failures) {
        failures.push_back({{"at_s", failure.at_s}, {"what", failure.what}});
    }
    json["counters"] = of(snapshot.counters);
    // Names come from outside: what is no UTF-8 is replaced.
    return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace mgi::control
