// Servers: registration, leases, presence.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <memory>
#include <utility>
#include <vector>

#include "control/state/cluster.hpp"
#include "control/state/validation.hpp"
#include "core/log.hpp"

namespace mgi::control {
namespace {

ServerNotice::State notice_state(Presence presence) {
    switch (presence) {
        case Presence::Present: return ServerNotice::PRESENT;
        case Presence::Away: return ServerNotice::AWAY;
        case Presence::Failed: return ServerNotice::FAILED;
    }
    return ServerNotice::FAILED;
}

ControllerMessage notice_of(ServerRecord const& server) {
    ControllerMessage message;
    ServerNotice& notice = *message.mutable_server_notice();
    notice.set_agent(server.id);
    notice.set_name(server.name);
    notice.set_state(notice_state(server.presence));
    return message;
}

bool same(ServerGraph const& a, ServerGraph const& b) {
    return a.SerializeAsString() == b.SerializeAsString();
}

}  // namespace

bool Cluster::forget_one() {
    auto oldest = servers_.end();
    for (auto server = servers_.begin(); server != servers_.end(); ++server) {
        if (server->second.presence != Presence::Failed) continue;
        bool const older =
            oldest == servers_.end() || server->second.away_since < oldest->second.away_since;
        if (older) oldest = server;
    }
    if (oldest == servers_.end()) return false;
    forget(oldest->second);
    return true;
}

void Cluster::forget(ServerRecord const& server) {
    log::info("controller: server {} (id {}) is forgotten", server.name, server.id);
    timers_.cancel(Due::Forget, server.id);
    server_names_.erase(server.name);
    servers_.erase(server.id);
}

ServerRecord* Cluster::admit(SessionId session, Sender const& sender, Register const& message,
                             Effects& effects) {
    Limits const& limits = settings_.limits;
    std::string wrong = wrong_name("the server's name", message.name(), limits.text);
    if (wrong.empty()) wrong = wrong_token("the agent's instance", message.instance());
    if (!wrong.empty()) {
        refuse(session, Refused::OTHER, "register: " + wrong, effects);
        return nullptr;
    }
    wrong = wrong_graph(message.graph(), limits);
    if (!wrong.empty()) {
        refuse(session, Refused::BAD_GRAPH,
               fmt::format("graph of server {}: {}", message.name(), wrong), effects);
        return nullptr;
    }
    if (sender.epoch() > epoch_) {
        refuse(session, Refused::NOT_LEADER,
               fmt::format("server {} knows epoch {}, this controller's is {}: a newer controller "
                           "leads, or this one's state is an old copy",
                           message.name(), sender.epoch(), epoch_),
               effects);
        return nullptr;
    }
    auto const named = server_names_.find(message.name());
    if (named != server_names_.end()) {
        ServerRecord& server = servers_.at(named->second);
        if (server.presence == Presence::Present && server.instance != message.instance()) {
            refuse(session, Refused::NAME_IN_USE,
                   fmt::format("another agent named {} is alive (id {}): stop it, or give this one "
                               "another name",
                               server.name, server.id),
                   effects);
            return nullptr;
        }
        return &server;
    }
    if (servers_.size() >= limits.servers && !forget_one()) {
        refuse(session, Refused::LIMIT, fmt::format("{} servers are known", servers_.size()),
               effects);
        return nullptr;
    }
    // An earlier controller gave it an id: it keeps that, unless another name came with it before.
    std::uint32_t id = sender.agent();
    if (!ids_.earlier(IdKind::Agent, id) || servers_.contains(id)) {
        auto const fresh = ids_.take(IdKind::Agent, effects);
        if (!fresh) {
            refuse(session, Refused::OTHER, "ids are being reserved: register again", effects);
            return nullptr;
        }
        id = *fresh;
    }
    ServerRecord& server = servers_[id];
    server.id = id;
    server.name = message.name();
    server.presence = Presence::Failed;  // until it is let in: nothing of it is known
    server_names_.emplace(server.name, id);
    return &server;
}

void Cluster::register_agent(SessionId session, Sender const& sender, Register& message,
                             Effects& effects) {
    ServerRecord* const admitted = admit(session, sender, message, effects);
    if (admitted == nullptr) return;
    ServerRecord& server = *admitted;
    ++counters_.registrations;
    timers_.cancel(Due::Registration, session);
    timers_.cancel(Due::Forget, server.id);
    if (SessionId const old = server.session; old != 0) {
        refuse(old, Refused::STALE, "stale sender: the server registered in another session",
               effects);
    }
    bool const first = server.incarnation == 0;
    bool const was_failed = server.presence == Presence::Failed;
    Telling const telling = server.instance != message.instance() ? Telling::Some
                            : message.more()                      ? Telling::Part
                                                                  : Telling::All;
    bool const new_graph = was_failed || !same(*server.graph, message.graph());
    sessions_[session] = server.id;
    server.session = session;
    server.instance = message.instance();
    server.version = clean_text(message.version(), settings_.limits.text);
    ++server.incarnation;
    server.presence = Presence::Present;
    server.heard = now_;
    server.use = {};
    server.clock_off = message.clock_ms() - wall_;
    if (std::llabs(server.clock_off) > settings_.clock_off_ms) {
        note(
            fmt::format("clock of server {} is {} s off this controller's; leases do not depend "
                        "on it, its logs will mislead",
                        server.name, server.clock_off / 1000));
    }
    timers_.set(Due::Lease, server.id, now_ + settings_.lease_ms);
    if (new_graph) {
        server.graph = std::make_shared<ServerGraph const>(std::move(*message.mutable_graph()));
        effects.emplace_back(LearnServer{server.id, server.name, *server.graph});
        for (std::uint32_t id : server.channels) channels_.at(id).stale_plan = true;
    }
    log::info("controller: server {} (id {}) registered, incarnation {}", server.name, server.id,
              server.incarnation);

    // The answer comes before what follows from what the agent holds.
    ControllerMessage reply;
    Registered& registered = *reply.mutable_registered();
    registered.set_agent(server.id);
    registered.set_incarnation(server.incarnation);
    registered.set_heartbeat_ms(settings_.heartbeat_ms);
    registered.set_lease_ms(settings_.lease_ms);
    registered.set_grace_ms(settings_.grace_ms);
    Effects follow;
    Lost lost;
    hold(server, telling, message.endpoints(), message.channels(), lost, follow);
    registered.mutable_lost_endpoints()->Swap(lost.mutable_endpoints());
    registered.mutable_lost_channels()->Swap(lost.mutable_channels());
    send(session, std::move(reply), effects);
    std::move(follow.begin(), follow.end(), std::back_inserter(effects));

    if (!first) tell_others(server, effects);
    for (auto const& [id, other] : servers_) {
        if (other.presence == Presence::Away) send(session, notice_of(other), effects);
    }
    for (std::uint32_t id : server.channels) {
        if (channels_.at(id).stale_plan) renew(channels_.at(id));
    }
    pump_renewals(effects);
}

void Cluster::heartbeat(ServerRecord& server, Heartbeat& message, Effects& effects) {
    ++counters_.heartbeats;
    std::size_t const channels = server.channels.size() + server.created.size();
    if (message.links_size() > server.graph->links_size() ||
        static_cast<std::size_t>(message.channels_size()) > channels + 1024) {
        refuse(server.session, Refused::LIMIT,
               fmt::format("a heartbeat with figures of {} links and {} channels; {} and {} are "
                           "known",
                           message.links_size(), message.channels_size(),
                           server.graph->links_size(), channels),
               effects);
        return;
    }
    auto figures = static_cast<std::size_t>(message.nics_size());
    for (ChannelUse const& channel : message.channels()) {
        figures += static_cast<std::size_t>(channel.paths_size() + channel.waits_size());
    }
    if (figures > settings_.limits.figures) {
        refuse(server.session, Refused::LIMIT,
               fmt::format("a heartbeat with figures of {} NICs, paths and waits; {} are possible",
                           figures, settings_.limits.figures),
               effects);
        return;
    }
    Use& use = server.use;
    use.links = std::make_shared<LinkFigures const>(std::move(*message.mutable_links()));
    use.last.channels =
        std::make_shared<ChannelFigures const>(std::move(*message.mutable_channels()));
    use.last.nics = std::make_shared<NicFigures const>(std::move(*message.mutable_nics()));
    use.last.at = now_;
    if (use.middle.at == 0 || now_ - use.middle.at >= settings_.rate_ms) {
        use.before = std::exchange(use.middle, use.last);
    }
    server.clock_off = message.clock_ms() - wall_;
    ControllerMessage reply;
    reply.mutable_heartbeat_ack()->set_sequence(message.sequence());
    send(server.session, std::move(reply), effects);
}

void Cluster::link_change(ServerRecord& server, LinkChange const& message, Effects& effects) {
    Link const& link = message.link();
    ServerGraph const& graph = *server.graph;
    std::string const wrong = wrong_link(link, graph.vertices_size());
    auto const known = std::find_if(
        graph.links().begin(), graph.links().end(),
        [&](Link const& one) { return one.from() == link.from() && one.to() == link.to(); });
    bool const is_new = known == graph.links().end();
    bool const full =
        is_new && static_cast<std::size_t>(graph.links_size()) >= settings_.limits.links;
    if (!wrong.empty() || full || link.kind().size() > settings_.limits.text) {
        refuse(server.session, Refused::BAD_GRAPH,
               fmt::format("graph of server {}: {}", server.name,
                           wrong.empty() ? "too many links, or too long a kind" : wrong),
               effects);
        return;
    }
    if (!is_new && known->gbps() == link.gbps()) return;
    // Snapshots may hold the graph as it was.
    auto changed = std::make_shared<ServerGraph>(graph);
    if (is_new) {
        *changed->add_links() = link;
    } else {
        changed->mutable_links(static_cast<int>(known - graph.links().begin()))
            ->set_gbps(link.gbps());
    }
    server.graph = std::move(changed);
    auto const name = [&](std::uint32_t vertex) {
        return server.graph->vertices(static_cast<int>(vertex)).name();
    };
    note(link.gbps() == 0 ? fmt::format("link {} -> {} of server {} is down", name(link.from()),
                                        name(link.to()), server.name)
                          : fmt::format("link {} -> {} of server {} has {} GB/s", name(link.from()),
                                        name(link.to()), server.name, link.gbps()));
    effects.emplace_back(LearnLink{server.id, link});
    for (std::uint32_t id : server.channels) {
        channels_.at(id).stale_plan = true;
        renew(channels_.at(id));
    }
    pump_renewals(effects);
}

void Cluster::heard(ServerRecord& server, Effects& effects) {
    server.heard = now_;
    if (server.presence != Presence::Away) return;
    server.presence = Presence::Present;
    timers_.set(Due::Lease, server.id, now_ + settings_.lease_ms);
    note(fmt::format("server {} is present again", server.name));
    tell_others(server, effects);
    for (std::uint32_t id : server.channels) {
        if (channels_.at(id).stale_plan) renew(channels_.at(id));
    }
    pump_renewals(effects);
}

void Cluster::lease_due(ServerRecord& server, Effects& effects) {
    if (server.presence == Presence::Away) {
        failed(server, fmt::format("was away for {} ms", settings_.grace_ms), effects);
        return;
    }
    // Heartbeats leave the timer alone, for they are many: it looks for itself what came meanwhile.
    Millis const over = server.heard + settings_.lease_ms;
    if (server.presence != Presence::Present) return;
    if (over > now_) {
        timers_.set(Due::Lease, server.id, over);
    } else {
        away(server, fmt::format("no word for {} ms", settings_.lease_ms), effects);
    }
}

void Cluster::away(ServerRecord& server, std::string const& why, Effects& effects) {
    if (server.presence != Presence::Present) return;
    server.presence = Presence::Away;
    server.away_since = now_;
    timers_.set(Due::Lease, server.id, now_ + settings_.grace_ms);
    note(fmt::format("server {} is away: {}", server.name, why));
    tell_others(server, effects);
    break_preparations(server, why, effects);
}

void Cluster::failed(ServerRecord& server, std::string const& why, Effects& effects) {
    server.presence = Presence::Failed;
    server.away_since = now_;
    timers_.cancel(Due::Lease, server.id);
    timers_.cancel(Due::Claims, server.id);
    timers_.set(Due::Forget, server.id, now_ + settings_.forget_ms);
    note(fmt::format("server {} is failed: {}", server.name, why));
    tell_others(server, effects);
    if (server.session != 0) {
        refuse(server.session, Refused::STALE,
               fmt::format("stale sender: server {} {}; register again", server.name, why),
               effects);
    }
    std::string const reason = fmt::format("server {} {}", server.name, why);
    for (std::uint32_t id : std::vector(server.endpoints.begin(), server.endpoints.end())) {
        remove_endpoint(id, reason, effects);
    }
    for (std::uint32_t id : std::vector(server.created.begin(), server.created.end())) {
        end(channels_.at(id), true, Problem::Aborted, "its creator's " + reason, effects);
    }
    server.unclaimed_endpoints.clear();
    server.unclaimed_channels.clear();
    server.unnamed_endpoints.clear();
    server.unnamed_channels.clear();
    server.graph = none<ServerGraph>();
    server.use = {};
    effects.emplace_back(ForgetServer{server.id});
}

void Cluster::tell_others(ServerRecord const& server, Effects& effects) const {
    ControllerMessage message = notice_of(server);
    message.set_protocol(kProtocol);
    message.set_epoch(epoch_);
    auto const shared = std::make_shared<ControllerMessage const>(std::move(message));
    for (auto const& [id, other] : servers_) {
        if (id == server.id || other.session == 0) continue;
        effects.emplace_back(Send{other.session, shared, {}});
    }
}

void Cluster::break_preparations(ServerRecord const& server, std::string const& why,
                                 Effects& effects) {
    std::vector<std::uint32_t> broken;
    for (std::uint32_t id : server.channels) {
        if (channels_.at(id).next) broken.push_back(id);
    }
    std::sort(broken.begin(), broken.end());
    for (std::uint32_t id : broken) {
        abort(channels_.at(id), Problem::Aborted,
              fmt::format("server {} is away: {}", server.name, why), effects);
    }
}

}  // namespace mgi::control
