#include "control/state/status_json.hpp"

#include <map>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <utility>

#include <mgi/cluster.hpp>
#include <mgi/graph.hpp>

#include "control/state/settings.hpp"

namespace mgi::control {
namespace {

using OrderedJson = nlohmann::ordered_json;

/// Figures name vertices by position, which a peer may get wrong.
std::string vertex_name(ServerGraph const& graph, std::uint32_t vertex) {
    if (vertex >= static_cast<std::uint32_t>(graph.vertices_size())) return "?";
    return graph.vertices(static_cast<int>(vertex)).name();
}

OrderedJson of(Vertex const& vertex) {
    OrderedJson json{{"name", vertex.name()},
                     {"kind", to_string(static_cast<VertexKind>(vertex.kind()))},
                     {"parent", vertex.parent()},
                     {"note", vertex.note()}};
    if (vertex.nic_direct()) json["nic_direct"] = true;
    return json;
}

OrderedJson links_of(ServerView const& server) {
    std::map<std::pair<std::uint32_t, std::uint32_t>, double> used;
    for (LinkUse const& figure : *server.use.links) {
        used[{figure.from(), figure.to()}] = figure.gbps();
    }
    OrderedJson links = OrderedJson::array();
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

OrderedJson of(NicView const& nic) {
    auto const known = [&](double gbps) {
        return nic.in_graph ? OrderedJson(gbps) : OrderedJson();
    };
    return {{"name", nic.name},
            {"out_gbps", known(nic.out_gbps)},
            {"out_capacity_gbps", known(nic.out_capacity_gbps)},
            {"in_gbps", known(nic.in_gbps)},
            {"in_capacity_gbps", known(nic.in_capacity_gbps)},
            {"payload_gbps", nic.payload.gbps},
            {"payload_bytes", nic.payload.bytes},
            {"in_flight", nic.payload.in_flight},
            {"resends", nic.payload.resends}};
}

OrderedJson of(ServerView const& server) {
    OrderedJson json{{"id", server.id},
                     {"name", server.name},
                     {"state", server.state},
                     {"version", server.version},
                     {"incarnation", server.incarnation},
                     {"endpoints", server.endpoints},
                     {"lease_left_ms", server.lease_left_ms},
                     {"clock_off_ms", server.clock_off_ms}};
    OrderedJson& vertices = json["vertices"] = OrderedJson::array();
    for (Vertex const& vertex : server.graph->vertices()) vertices.push_back(of(vertex));
    json["links"] = links_of(server);
    OrderedJson& nics = json["nics"] = OrderedJson::array();
    for (NicView const& nic : server.nics) nics.push_back(of(nic));
    return json;
}

void add(OrderedJson& json, FlowView const& flow) {
    json["rows"] = flow.rows;
    json["bytes"] = flow.bytes;
    json["gbps"] = flow.gbps;
    json["segments"] = flow.segments;
    json["in_flight"] = flow.in_flight;
    json["waiting"] = flow.waiting;
    json["waits"] = flow.waits;
    json["waited_s"] = double(flow.waited_ms) / 1e3;
    json["longest_wait_s"] = double(flow.longest_wait_ms) / 1e3;
    json["resends"] = flow.resends;
}

OrderedJson end_of(std::uint32_t endpoint) {
    return endpoint == ClusterPathUse::kAll ? OrderedJson() : OrderedJson(endpoint);
}

OrderedJson of(PathView const& path) {
    OrderedJson json{{"server", path.server},
                     {"from", end_of(path.source)},
                     {"to", end_of(path.destination)},
                     {"by", path.by},
                     {"nic", path.nic},
                     {"peer", path.peer}};
    add(json, path.flow);
    return json;
}

char const* what_of(WaitUse const& use) {
    switch (static_cast<ClusterWait::For>(use.what())) {
        case ClusterWait::For::Credit: return "credit";
        case ClusterWait::For::Rows: return "rows";
        case ClusterWait::For::Mover: return "mover";
        case ClusterWait::For::Link: return "link";
    }
    return "?";
}

OrderedJson of(WaitView const& wait) {
    OrderedJson json{{"server", wait.server},    {"who", wait.use.who()},
                     {"for", what_of(wait.use)}, {"whom", OrderedJson::array()},
                     {"more", wait.use.more()},  {"since_s", double(wait.use.ms()) / 1e3},
                     {"why", wait.use.why()}};
    for (std::uint32_t const endpoint : wait.use.whom()) json["whom"].push_back(endpoint);
    return json;
}

OrderedJson of(ChannelView const& channel) {
    OrderedJson json{{"id", channel.id},
                     {"name", channel.name},
                     {"owner", channel.owner},
                     {"state", channel.state},
                     {"generation", channel.generation},
                     {"sources", channel.sources},
                     {"destinations", channel.destinations},
                     {"servers", channel.servers},
                     {"why", channel.why}};
    add(json, channel.flow);
    json["queued"] = channel.queued;
    OrderedJson& paths = json["paths"] = OrderedJson::array();
    for (PathView const& path : channel.paths) paths.push_back(of(path));
    json["more_paths"] = channel.more_paths;
    OrderedJson& waits = json["who_waits"] = OrderedJson::array();
    for (WaitView const& wait : channel.waits) waits.push_back(of(wait));
    json["more_who_wait"] = channel.more_waits;
    return json;
}

OrderedJson of(Counters const& counters) {
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
    OrderedJson json{{"protocol", kProtocol},
                     {"epoch", snapshot.epoch},
                     {"controller", about.controller},
                     {"leader", about.leader.empty()},
                     {"leader_address", about.leader.empty() ? about.controller : about.leader},
                     {"uptime_s", snapshot.uptime_s},
                     {"version", about.version}};
    if (snapshot.owner) json["owner"] = *snapshot.owner;
    OrderedJson& servers = json["servers"] = OrderedJson::array();
    std::unordered_map<std::uint32_t, ServerGraph const*> graphs;
    for (ServerView const& server : snapshot.servers) {
        servers.push_back(of(server));
        graphs[server.id] = server.graph.get();
    }
    OrderedJson& endpoints = json["endpoints"] = OrderedJson::array();
    for (EndpointView const& endpoint : snapshot.endpoints) {
        endpoints.push_back({{"id", endpoint.id},
                             {"server", endpoint.server},
                             {"device", vertex_name(*graphs.at(endpoint.server), endpoint.vertex)},
                             {"application", endpoint.application},
                             {"owner", endpoint.owner}});
    }
    OrderedJson& channels = json["channels"] = OrderedJson::array();
    for (ChannelView const& channel : snapshot.channels) channels.push_back(of(channel));
    OrderedJson& failures = json["failures"] = OrderedJson::array();
    for (FailureView const& failure : snapshot.failures) {
        failures.push_back({{"at_s", failure.at_s}, {"what", failure.what}});
    }
    if (!snapshot.owner) json["counters"] = of(snapshot.counters);
    // Names come from outside: what is no UTF-8 is replaced.
    return json.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
}

}  // namespace mgi::control
