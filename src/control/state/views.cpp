// What the status page shows.
#include <algorithm>
#include <cstdint>
#include <map>
#include <unordered_map>
#include <utility>

#include "control/state/cluster.hpp"

namespace mgi::control {
namespace {

char const* to_string(Presence presence) {
    switch (presence) {
        case Presence::Present: return "present";
        case Presence::Away: return "away";
        case Presence::Failed: return "failed";
    }
    return "?";
}

/// Names of vertices; figures name them by position, which a peer may get wrong.
std::string vertex_name(ServerGraph const& graph, std::uint32_t vertex) {
    if (vertex >= static_cast<std::uint32_t>(graph.vertices_size())) return "?";
    return graph.vertices(static_cast<int>(vertex)).name();
}

struct Moved {
    std::uint64_t rows = 0;
    std::uint64_t bytes = 0;
    double gbps = 0;
};

void add_use(Use const& use, std::unordered_map<std::uint32_t, Moved>& moved) {
    struct Then {
        std::uint64_t bytes = 0;
        Millis at = 0;
    };
    std::unordered_map<std::uint32_t, Then> before;
    for (Use::Sample const* sample : {&use.before, &use.middle}) {  // the older one, if it is there
        for (ChannelUse const& figure : sample->channels) {
            before.try_emplace(figure.channel(), Then{figure.bytes(), sample->at});
        }
    }
    for (ChannelUse const& figure : use.last.channels) {
        Moved& to = moved[figure.channel()];
        to.rows += figure.rows();
        to.bytes += figure.bytes();
        auto const old = before.find(figure.channel());
        if (old == before.end() || old->second.at >= use.last.at) continue;
        if (figure.bytes() < old->second.bytes) continue;  // its application began again
        to.gbps += static_cast<double>(figure.bytes() - old->second.bytes) /
                   (static_cast<double>(use.last.at - old->second.at) * 1e6);
    }
}

ServerView view(ServerRecord const& server, Millis lease_left) {
    ServerView view;
    view.id = server.id;
    view.name = server.name;
    view.state = to_string(server.presence);
    view.version = server.version;
    view.incarnation = server.incarnation;
    view.endpoints = server.endpoints.size();
    view.lease_left_ms = lease_left;
    view.clock_off_ms = server.clock_off;
    for (Vertex const& vertex : server.graph.vertices()) {
        view.vertices.push_back({vertex.name(), vertex.kind(), vertex.parent(), vertex.note()});
    }
    std::map<std::pair<std::uint32_t, std::uint32_t>, double> used;
    for (LinkUse const& figure : server.use.links) {
        used[{figure.from(), figure.to()}] = figure.gbps();
    }
    for (Link const& link : server.graph.links()) {
        auto const figure = used.find({link.from(), link.to()});
        view.links.push_back({vertex_name(server.graph, link.from()),
                              vertex_name(server.graph, link.to()), link.gbps(),
                              figure == used.end() ? 0 : figure->second, link.kind()});
    }
    return view;
}

}  // namespace

Snapshot Cluster::snapshot(Now now) const {
    Snapshot made;
    made.epoch = epoch_;
    made.uptime_s = static_cast<double>(now.steady - started_) / 1e3;
    std::unordered_map<std::uint32_t, Moved> moved;
    Millis const time = std::max(now.steady - slept_, now_);
    for (auto const& [id, server] : servers_) {
        Millis const left = server.heard + settings_.lease_ms - time;
        made.servers.push_back(
            view(server, server.presence == Presence::Present ? std::max<Millis>(left, 0) : 0));
        add_use(server.use, moved);
    }
    for (auto const& [id, endpoint] : endpoints_) {
        made.endpoints.push_back({id, endpoint.server,
                                  vertex_name(servers_.at(endpoint.server).graph, endpoint.vertex),
                                  endpoint.application});
    }
    std::sort(made.endpoints.begin(), made.endpoints.end(),
              [](EndpointView const& a, EndpointView const& b) { return a.id < b.id; });
    for (auto const& [id, channel] : channels_) {
        Moved const figures = moved[id];
        char const* const state = channel.recovery          ? "recovering"
                                  : channel.generation == 0 ? "preparing"
                                                            : "running";
        made.channels.push_back({id,
                                 channel.spec.name(),
                                 state,
                                 channel.generation,
                                 static_cast<std::size_t>(channel.spec.sources_size()),
                                 static_cast<std::size_t>(channel.spec.destinations_size()),
                                 {channel.servers.begin(), channel.servers.end()},
                                 figures.rows,
                                 figures.bytes,
                                 figures.gbps,
                                 {}});
    }
    made.channels.insert(made.channels.end(), ended_.begin(), ended_.end());
    made.failures.assign(failures_.begin(), failures_.end());
    made.counters = counters_;
    return made;
}

}  // namespace mgi::control
