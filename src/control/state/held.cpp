// What agents hold when they register: the way back after a restart of theirs, or of the controller.
#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "control/state/cluster.hpp"
#include "control/state/validation.hpp"
#include "core/log.hpp"

namespace mgi::control {

void Cluster::hold(ServerRecord& server, Telling telling,
                   google::protobuf::RepeatedPtrField<HeldEndpoint> const& endpoints,
                   google::protobuf::RepeatedPtrField<HeldChannel> const& channels, Lost& lost,
                   Effects& effects) {
    // First all endpoints, since they say which servers a channel has.
    std::set<std::uint32_t> named;
    std::set<std::uint32_t> to_recover;
    for (HeldEndpoint const& held : endpoints) {
        if (!hold_endpoint(server, held)) {
            lost.add_endpoints(held.id());
            auto const known = endpoints_.find(held.id());
            bool const its = known != endpoints_.end() && known->second.server == server.id;
            if (its && !carries_endpoints(*server.graph, held.vertex())) {
                remove_endpoint(held.id(), "its device is gone", effects);
            }
            continue;
        }
        named.insert(held.id());
        server.unclaimed_endpoints.erase(held.id());
        server.unnamed_endpoints.erase(held.id());
        auto const& of = endpoints_.at(held.id()).channels;
        to_recover.insert(of.begin(), of.end());
    }
    std::map<std::uint32_t, HeldPlans> plans;
    for (HeldChannel const& held : channels) {
        HeldPlans& plan = plans[held.id()];
        plan.any = &held;
        std::uint64_t& generation = held.committed() ? plan.committed : plan.prepared;
        generation = std::max<std::uint64_t>(generation, held.generation());
        plan.creator = plan.creator || held.creator();
        plan.creator_left = plan.creator_left || held.creator_left();
        plan.left.insert(held.left().begin(), held.left().end());
    }
    for (auto const& [id, held] : plans) {
        server.unnamed_channels.erase(id);
        if (hold_channel(server, id, held, effects)) {
            server.unclaimed_channels.erase(id);
            if (channels_.at(id).stale_plan) renew(channels_.at(id));
            to_recover.insert(id);
        } else {
            lost.add_channels(id);
        }
    }
    if (telling != Telling::More) note_unnamed(server, telling, named, plans);
    if (telling == Telling::All) drop_unnamed(server, effects);
    for (std::uint32_t id : to_recover) {
        auto const channel = channels_.find(id);
        if (channel != channels_.end()) try_recover(channel->second, effects);
    }
}

void Cluster::note_unnamed(ServerRecord& server, Telling telling,
                           std::set<std::uint32_t> const& endpoints,
                           std::map<std::uint32_t, HeldPlans> const& channels) {
    bool const some = telling == Telling::Some;
    server.unnamed_endpoints.clear();
    server.unnamed_channels.clear();
    for (std::uint32_t id : server.endpoints) {
        if (endpoints.contains(id) || server.unclaimed_endpoints.contains(id)) continue;
        (some ? server.unclaimed_endpoints : server.unnamed_endpoints).insert(id);
    }
    for (std::uint32_t id : server.channels) {
        if (channels.contains(id) || server.unclaimed_channels.contains(id)) continue;
        ChannelRecord& channel = channels_.at(id);
        if (channel.recovery && telling != Telling::Part) {
            channel.recovery->reports.erase(server.id);  // the others' time to come back decides
        } else {
            (some ? server.unclaimed_channels : server.unnamed_channels).insert(id);
        }
    }
    for (std::uint32_t id : server.created) {
        // The same instance may be asking for it yet: that request will be repeated.
        if (some && !channels.contains(id)) server.unclaimed_channels.insert(id);
    }
    if (server.unclaimed_endpoints.empty() && server.unclaimed_channels.empty()) {
        timers_.cancel(Due::Claims, server.id);
    } else if (some) {
        timers_.set(Due::Claims, server.id, now_ + settings_.grace_ms);
    }
}

void Cluster::drop_unnamed(ServerRecord& server, Effects& effects) {
    for (std::uint32_t id : std::exchange(server.unnamed_endpoints, {})) {
        remove_endpoint(id, "its server holds it no more", effects);
    }
    for (std::uint32_t id : std::exchange(server.unnamed_channels, {})) {
        auto const channel = channels_.find(id);
        if (channel == channels_.end()) continue;
        if (channel->second.recovery) {
            channel->second.recovery->reports.erase(server.id);
            continue;
        }
        end(channel->second, true, Problem::Aborted,
            fmt::format("server {} holds it no more", server.name), effects);
    }
}

void Cluster::claims_due(ServerRecord& server, Effects& effects) {
    std::string const why =
        fmt::format("its application did not come back after the agent of server {} was restarted",
                    server.name);
    ControllerMessage message;
    for (std::uint32_t id : std::exchange(server.unclaimed_endpoints, {})) {
        remove_endpoint(id, why, effects);
        message.mutable_lost()->add_endpoints(id);
    }
    if (message.has_lost()) send_to(server.id, std::move(message), effects);
    for (std::uint32_t id : std::exchange(server.unclaimed_channels, {})) {
        auto const channel = channels_.find(id);
        if (channel != channels_.end()) end(channel->second, true, Problem::Aborted, why, effects);
    }
}

bool Cluster::hold_endpoint(ServerRecord& server, HeldEndpoint const& held) {
    if (!carries_endpoints(*server.graph, held.vertex())) return false;
    auto const known = endpoints_.find(held.id());
    if (known != endpoints_.end()) {
        EndpointRecord& endpoint = known->second;
        if (endpoint.server != server.id || endpoint.owner != held.owner()) return false;
        if (endpoint.vertex == held.vertex()) return true;
        endpoint.vertex = held.vertex();
        for (std::uint32_t id : endpoint.channels) {
            channels_.at(id).stale_plan = true;
            renew(channels_.at(id));
        }
        return true;
    }
    std::size_t const most = settings_.limits.endpoints;
    if (!ids_.earlier(IdKind::Endpoint, held.id()) ||
        ended_earlier_endpoints_.contains(held.id()) || ended_earlier_endpoints_.size() >= most ||
        endpoints_.size() >= most || !wrong_owner(held.owner()).empty() ||
        is_awaited_of_others(held)) {
        return false;
    }
    EndpointRecord& endpoint = endpoints_[held.id()];
    endpoint.owner = held.owner();
    endpoints_of_.add(endpoint.owner);
    endpoint.server = server.id;
    endpoint.vertex = held.vertex();
    endpoint.application = clean_text(held.application(), settings_.limits.text);
    server.endpoints.insert(held.id());
    auto const awaited = awaited_.extract(held.id());
    if (awaited.empty()) return true;
    for (std::uint32_t id : awaited.mapped()) {
        ChannelRecord& channel = channels_.at(id);
        channel.recovery->missing.erase(held.id());
        join(channel, held.id());
    }
    return true;
}

// A channel that is being recovered waits for endpoints of its own owner alone.
bool Cluster::is_awaited_of_others(HeldEndpoint const& held) const {
    auto const awaited = awaited_.find(held.id());
    if (awaited == awaited_.end()) return false;
    return std::any_of(awaited->second.begin(), awaited->second.end(),
                       [&](std::uint32_t id) { return channels_.at(id).owner != held.owner(); });
}

bool Cluster::hold_channel(ServerRecord& server, std::uint32_t id, HeldPlans const& held,
                           Effects& effects) {
    auto const found = channels_.find(id);
    ChannelRecord* const channel =
        found != channels_.end() ? &found->second : learn_channel(id, *held.any);
    if (channel == nullptr || channel->owner != held.any->owner()) return false;
    if (held.creator_left) creator_left(*channel, server, effects);
    if (!held.left.empty()) leave(*channel, held.left, effects);
    if (!channels_.contains(id)) return false;  // all have left it
    if (channel->recovery) {
        if (channel->spec.SerializeAsString() != held.any->spec().SerializeAsString()) {
            end(*channel, true, Problem::Aborted,
                fmt::format("server {} holds another channel by this id", server.name), effects);
            return false;
        }
        if (held.creator && channel->creator == 0) set_creator(*channel, server);
        channel->recovery->reports[server.id] = {held.committed, held.prepared};
        channel->last_given = std::max({channel->last_given, held.committed, held.prepared});
        return true;
    }
    if (held.creator && channel->creator == 0) set_creator(*channel, server);
    // A creator without endpoints of it gets no plans: what it says of generations does not count.
    if (!channel->servers.contains(server.id)) {
        return held.creator && channel->creator == server.id;
    }
    if (channel->generation != 0) settle_plans(*channel, server.id, held, effects);
    if (channel->left.size() > held.left.size()) tell_left(*channel, server.id, effects);
    return true;
}

// What is there goes on, whatever its owner's share: that is for what is asked for.
ChannelRecord* Cluster::learn_channel(std::uint32_t id, HeldChannel const& held) {
    Limits const& limits = settings_.limits;
    if (!ids_.earlier(IdKind::Channel, id) || ended_earlier_.contains(id) ||
        ended_earlier_.size() >= limits.channels || channels_.size() >= limits.channels ||
        !wrong_spec(held.spec(), limits).empty() || held.request().size() > limits.text ||
        !wrong_owner(held.owner()).empty() || has_endpoint_of_others(held.spec(), held.owner())) {
        return nullptr;
    }
    std::size_t const ends = static_cast<std::size_t>(held.spec().sources_size()) +
                             static_cast<std::size_t>(held.spec().destinations_size());
    if (channel_endpoints_of_.all() + ends > limits.all_channel_endpoints) return nullptr;
    ChannelRecord& channel = channels_[id];
    channel.id = id;
    channel.spec = held.spec();
    channel.owner = held.owner();
    channel.request = held.request();
    channel.recovery.emplace();
    channel.left.insert(held.left().begin(), held.left().end());
    add_channel(channel);
    timers_.set(Due::Recovery, id, now_ + settings_.grace_ms);
    log::info("controller: channel {} ({}) is learned from its servers", id, channel.spec.name());
    return &channel;
}

void Cluster::try_recover(ChannelRecord& channel, Effects& effects) {
    if (!channel.recovery || !channel.recovery->missing.empty()) return;
    if (channel.servers.empty()) {
        return end(channel, false, Problem::Aborted, "all have left it", effects);
    }
    std::uint64_t committed = 0;
    for (std::uint32_t agent : channel.servers) {
        auto const report = channel.recovery->reports.find(agent);
        if (report == channel.recovery->reports.end()) return;
        committed = std::max(committed, report->second.committed);
    }
    if (committed == 0) {
        end(channel, true, Problem::Aborted,
            "the controller's restart cut its creation short; create it again", effects);
        return;
    }
    // A plan is committed anywhere only after all have accepted it: so all can run by it.
    channel.generation = committed;
    auto const reports = std::move(channel.recovery->reports);
    channel.recovery.reset();
    timers_.cancel(Due::Recovery, channel.id);
    log::info("controller: channel {} is recovered, generation {}", channel.id, committed);
    for (auto const& [agent, report] : reports) {
        if (channel.servers.contains(agent)) {
            HeldPlans plans;
            plans.committed = report.committed;
            plans.prepared = report.prepared;
            settle_plans(channel, agent, plans, effects);
            if (!channel.left.empty()) tell_left(channel, agent, effects);
        } else if (agent != channel.creator) {
            detach(channel, agent, effects);  // it has left, and does not know that this is known
        }
    }
    answer_all(channel, {}, effects);
    // Links may have changed while no controller saw it.
    channel.stale_plan = true;
    renew(channel);
    pump_renewals(effects);
}

void Cluster::recovery_due(ChannelRecord& channel, Effects& effects) {
    auto const& reports = channel.recovery->reports;
    bool const held = std::any_of(reports.begin(), reports.end(), [&](auto const& report) {
        return channel.servers.contains(report.first) || report.first == channel.creator;
    });
    // Who has left may remember it longer than it was there.
    end(channel, held, Problem::Aborted,
        held ? "after the controller's restart not all of its servers came back"
             : "after the controller's restart nobody came who had not left it",
        effects);
}

void Cluster::settle_plans(ChannelRecord& channel, std::uint32_t agent, HeldPlans const& held,
                           Effects& effects) {
    std::uint64_t const current = channel.generation;
    if (held.committed != current && held.prepared == current) {
        ControllerMessage message;
        message.mutable_commit_plan()->set_channel(channel.id);
        message.mutable_commit_plan()->set_generation(current);
        send_to(agent, std::move(message), effects);
    } else if (held.committed != current) {
        channel.stale_plan = channel.must_renew = true;
        renew(channel);
    }
    if (held.prepared == 0 || held.prepared == current) return;
    if (channel.next && channel.next->generation == held.prepared) return;
    ControllerMessage message;
    message.mutable_abort_plan()->set_channel(channel.id);
    message.mutable_abort_plan()->set_generation(held.prepared);
    message.mutable_abort_plan()->set_why("it was given up");
    send_to(agent, std::move(message), effects);
}

}  // namespace mgi::control
