// How channels end, and what is remembered of them.
#include <fmt/format.h>

#include <functional>
#include <utility>

#include "control/state/cluster.hpp"
#include "core/log.hpp"

namespace mgi::control {

void Cluster::delete_channel(CallId call, DeleteChannelRequest const& request, Now now,
                             Effects& effects) {
    advance(now, effects);
    ++counters_.calls;
    ServerRecord const* const server = sender_of(call, request.sender(), effects);
    if (server == nullptr) return;
    auto const found = channels_.find(request.channel());
    if (found == channels_.end() && ids_.given(IdKind::Channel, request.channel())) {
        // Perhaps by this very call, whose answer got lost; or its servers have not come back yet.
        if (ids_.earlier(IdKind::Channel, request.channel())) {
            note_ended(ended_earlier_, settings_.limits.channels, request.channel());
        }
        return answer(call, {}, effects);
    }
    bool const others = found == channels_.end() || (found->second.creator != server->id &&
                                                     !found->second.servers.contains(server->id));
    bool const unsure = others && found != channels_.end() &&
                        (found->second.recovery || (found->second.creator == 0 && young()));
    if (unsure) {
        return answer(call,
                      {Problem::Unavailable,
                       fmt::format("not all that have channel {} have come back yet after the "
                                   "controller was restarted",
                                   request.channel())},
                      effects);
    }
    if (others) {
        return answer(call,
                      {Problem::NotFound,
                       fmt::format("server {} has no channel {}", server->name, request.channel())},
                      effects);
    }
    end(found->second, false, Problem::Aborted, fmt::format("deleted by server {}", server->name),
        effects);
    answer(call, {}, effects);
}

void Cluster::end(ChannelRecord& channel, bool failure, Problem problem, std::string const& why,
                  Effects& effects) {
    std::uint32_t const id = channel.id;
    ControllerMessage message;
    if (channel.generation == 0 && !channel.recovery) {
        message.mutable_abort_plan()->set_channel(id);
        message.mutable_abort_plan()->set_generation(channel.last_given);
        message.mutable_abort_plan()->set_why(why);
    } else {
        message.mutable_channel_ended()->set_channel(id);
        message.mutable_channel_ended()->set_failed(failure);
        message.mutable_channel_ended()->set_why(why);
    }
    // Its creator's application waits for that word, even if no endpoint is there.
    std::set<std::uint32_t> told = channel.servers;
    if (message.has_channel_ended() && channel.creator != 0) told.insert(channel.creator);
    if (channel.recovery) {
        for (auto const& [agent, report] : channel.recovery->reports) told.insert(agent);
    }
    bool const nobody_knows = channel.next && channel.generation == 0 && !channel.next->sent;
    if (!nobody_knows) send_to_all(told, std::move(message), effects);

    if (failure) {
        ++counters_.channels_failed;
        note(fmt::format("channel {} ({}) failed: {}", id, channel.spec.name(), why));
    } else {
        log::info("controller: channel {} ({}) ended: {}", id, channel.spec.name(), why);
    }
    Failure const told_callers{problem,
                               fmt::format("channel {} ({}): {}", id, channel.spec.name(), why)};
    answer_all(channel, told_callers, effects);
    clear_next(channel);
    forget(channel, told_callers, failure ? "failed" : "deleted");
}

// Full, nothing is learned any more, so that nothing needs to be kept out.
void Cluster::note_ended(std::unordered_set<std::uint32_t>& ended, std::size_t most,
                         std::uint32_t id) {
    if (ended.size() < most) ended.insert(id);
}

void Cluster::answer_all(ChannelRecord& channel, Failure const& failure, Effects& effects) {
    calls_of_.remove(channel.owner, channel.calls.size());
    for (CallId call : std::exchange(channel.calls, {})) {
        calls_.erase(call);
        timers_.cancel(Due::Call, call);
        if (failure.problem != Problem::None) {
            answer(call, failure, effects);
        } else {
            effects.emplace_back(Answer{call, Problem::None, {}, channel.id, channel.generation});
        }
    }
}

void Cluster::remember(ChannelRecord const& channel, Failure const& failure) {
    auto const request = channel_requests_.find(channel.request);
    if (request == channel_requests_.end() || request->second != channel.id) return;
    over_[channel.request] = {failure, std::hash<std::string>{}(channel.spec.SerializeAsString()),
                              channel.owner};
    channel_requests_.erase(request);
    over_kept_.add(channel.owner, channel.request);
    if (over_kept_.size() > settings_.limits.remembered) over_.erase(over_kept_.drop_of_largest());
}

void Cluster::forget(ChannelRecord& channel, Failure const& failure, std::string const& state) {
    Limits const& limits = settings_.limits;
    std::uint32_t const id = channel.id;
    channels_of_.remove(channel.owner);
    for (auto const* ends : {&channel.spec.sources(), &channel.spec.destinations()}) {
        channel_endpoints_of_.remove(channel.owner, static_cast<std::size_t>(ends->size()));
        for (std::uint32_t endpoint : *ends) {
            auto const known = endpoints_.find(endpoint);
            if (known != endpoints_.end()) known->second.channels.erase(id);
        }
    }
    if (channel.recovery) {
        for (std::uint32_t endpoint : channel.recovery->missing) {
            auto const awaited = awaited_.find(endpoint);
            awaited->second.erase(id);
            if (awaited->second.empty()) awaited_.erase(awaited);
        }
    }
    for (std::uint32_t agent : channel.servers) {
        ServerRecord& server = servers_.at(agent);
        server.channels.erase(id);
        server.unclaimed_channels.erase(id);
        server.unnamed_channels.erase(id);
    }
    if (auto const creator = servers_.find(channel.creator); creator != servers_.end()) {
        creator->second.created.erase(id);
        creator->second.unclaimed_channels.erase(id);
    }
    timers_.cancel(Due::Recovery, id);
    timers_.cancel(Due::Replan, id);
    to_renew_.remove(channel.owner, id);
    if (ids_.earlier(IdKind::Channel, id)) note_ended(ended_earlier_, limits.channels, id);

    remember(channel, failure);
    ended_.push_back({id,
                      channel.spec.name(),
                      channel.owner,
                      state,
                      channel.generation,
                      static_cast<std::size_t>(channel.spec.sources_size()),
                      static_cast<std::size_t>(channel.spec.destinations_size()),
                      {channel.servers.begin(), channel.servers.end()},
                      failure.text});
    if (ended_.size() > limits.failures) ended_.pop_front();
    channels_.erase(id);
}

}  // namespace mgi::control
