// What the status page shows.
#include <algorithm>
#include <iterator>
#include <unordered_map>

#include "control/state/cluster.hpp"
#include "control/state/use_views.hpp"

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
    view.graph = server.graph;
    view.use = server.use;
    return view;
}

}  // namespace

void complete(Snapshot& snapshot) {
    std::sort(snapshot.endpoints.begin(), snapshot.endpoints.end(),
              [](EndpointView const& a, EndpointView const& b) { return a.id < b.id; });
    add_uses(snapshot);
}

Snapshot seen_by(std::string const& owner, Snapshot const& all) {
    Snapshot made;
    made.epoch = all.epoch;
    made.owner = owner;
    made.uptime_s = all.uptime_s;
    auto const is_his = [&](auto const& one) { return one.owner == owner; };
    std::copy_if(all.endpoints.begin(), all.endpoints.end(), std::back_inserter(made.endpoints),
                 is_his);
    std::copy_if(all.channels.begin(), all.channels.end(), std::back_inserter(made.channels),
                 is_his);
    std::unordered_map<std::uint32_t, std::size_t> count;
    for (EndpointView const& endpoint : made.endpoints) ++count[endpoint.server];
    made.servers = all.servers;
    for (ServerView& server : made.servers) server.endpoints = count[server.id];
    return made;
}

Snapshot Cluster::snapshot(Now now) const {
    Snapshot made;
    made.epoch = epoch_;
    made.uptime_s = static_cast<double>(now.steady - started_) / 1e3;
    Millis const time = std::max(now.steady - slept_, now_);
    for (auto const& [id, server] : servers_) {
        Millis const left = server.heard + settings_.lease_ms - time;
        made.servers.push_back(
            view(server, server.presence == Presence::Present ? std::max<Millis>(left, 0) : 0));
    }
    for (auto const& [id, endpoint] : endpoints_) {
        made.endpoints.push_back(
            {id, endpoint.server, endpoint.vertex, endpoint.application, endpoint.owner});
    }
    for (auto const& [id, channel] : channels_) {
        char const* const state = channel.recovery          ? "recovering"
                                  : channel.generation == 0 ? "preparing"
                                                            : "running";
        made.channels.push_back({id,
                                 channel.spec.name(),
                                 channel.owner,
                                 state,
                                 channel.generation,
                                 static_cast<std::size_t>(channel.spec.sources_size()),
                                 static_cast<std::size_t>(channel.spec.destinations_size()),
                                 {channel.servers.begin(), channel.servers.end()},
                                 {}});
    }
    made.channels.insert(made.channels.end(), ended_.begin(), ended_.end());
    made.failures.assign(failures_.begin(), failures_.end());
    made.counters = counters_;
    return made;
}

}  // namespace mgi::control
