#include "control/state/status_json.hpp"

#include <nlohmann/json.hpp>

#include <mgi/graph.hpp>

#include "control/state/settings.hpp"

namespace mgi::control {
namespace {

using Json = nlohmann::ordered_json;

Json of(ServerView const& server, bool graph) {
    Json json{{"id", server.id},
              {"name", server.name},
              {"state", server.state},
              {"version", server.version},
              {"incarnation", server.incarnation},
              {"endpoints", server.endpoints},
              {"lease_left_ms", server.lease_left_ms},
              {"clock_off_ms", server.clock_off_ms}};
    if (graph) {
        Json& vertices = json["vertices"] = Json::array();
        for (VertexView const& vertex : server.vertices) {
            vertices.push_back({{"name", vertex.name},
                                {"kind", to_string(static_cast<VertexKind>(vertex.kind))},
                                {"parent", vertex.parent},
                                {"note", vertex.note}});
        }
    }
    Json& links = json["links"] = Json::array();
    for (LinkView const& link : server.links) {
        links.push_back({{"from", link.from},
                         {"to", link.to},
                         {"kind", link.kind},
                         {"gbps", link.gbps},
                         {"used_gbps", link.used_gbps}});
    }
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

std::string status_json(Snapshot const& snapshot, About const& about, bool graph) {
    Json json{{"protocol", kProtocol},
              {"epoch", snapshot.epoch},
              {"controller", about.controller},
              {"leader", about.leader.empty()},
              {"leader_address", about.leader.empty() ? about.controller : about.leader},
              {"uptime_s", snapshot.uptime_s},
              {"version", about.version}};
    Json& servers = json["servers"] = Json::array();
    for (ServerView const& server : snapshot.servers) servers.push_back(of(server, graph));
    Json& endpoints = json["endpoints"] = Json::array();
    for (EndpointView const& endpoint : snapshot.endpoints) {
        endpoints.push_back({{"id", endpoint.id},
                             {"server", endpoint.server},
                             {"device", endpoint.device},
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
