// Channels: creation and renewal in two steps.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <utility>

#include <mgi/channel.hpp>

#include "control/state/cluster.hpp"
#include "control/state/validation.hpp"
#include "core/log.hpp"

namespace mgi::control {
namespace {

std::size_t ends_of(ChannelSpec const& spec) {
    return static_cast<std::size_t>(spec.sources_size()) +
           static_cast<std::size_t>(spec.destinations_size());
}

std::uint64_t fingerprint(PlanMade const& plan) {
    std::uint64_t hash = std::hash<std::string>{}(plan.directory);
    for (auto const& [agent, table] : plan.tables) {
        hash = (hash ^ agent ^ std::hash<std::string>{}(table)) * 0x9e3779b97f4a7c15ULL;
    }
    return hash;
}

}  // namespace

ControllerMessage whole(Send send) {
    ControllerMessage message = *send.message;
    if (message.has_prepare_plan()) {
        message.mutable_prepare_plan()->set_table(std::move(send.table));
    }
    return message;
}

bool Cluster::has_endpoint_of_others(ChannelSpec const& spec, std::string const& owner) const {
    auto const is_of_others = [&](std::uint32_t id) {
        auto const endpoint = endpoints_.find(id);
        return endpoint != endpoints_.end() && endpoint->second.owner != owner;
    };
    return std::any_of(spec.sources().begin(), spec.sources().end(), is_of_others) ||
           std::any_of(spec.destinations().begin(), spec.destinations().end(), is_of_others);
}

Cluster::Failure Cluster::check_spec(ChannelSpec const& spec, std::string const& owner) const {
    std::string const wrong = wrong_spec(spec, settings_.limits);
    if (!wrong.empty()) return {Problem::InvalidArgument, wrong};
    for (auto const* ends : {&spec.sources(), &spec.destinations()}) {
        for (std::uint32_t id : *ends) {
            auto const endpoint = endpoints_.find(id);
            if (endpoint == endpoints_.end() && may_come_back(id)) {
                return {Problem::Unavailable,
                        fmt::format("the server of endpoint {} has not come back yet after the "
                                    "controller was restarted",
                                    id)};
            }
            // Whether somebody else has it is nobody's business.
            if (endpoint == endpoints_.end() || endpoint->second.owner != owner) {
                return {Problem::NotFound, fmt::format("there is no endpoint {}", id)};
            }
            ServerRecord const& server = servers_.at(endpoint->second.server);
            if (server.presence != Presence::Present || server.session == 0) {
                return {Problem::Unavailable,
                        fmt::format("server {} of endpoint {} is away", server.name, id)};
            }
            if (server.unclaimed_endpoints.contains(id)) {
                return {Problem::Unavailable,
                        fmt::format("the application of endpoint {} has not come back yet after "
                                    "the agent of server {} was restarted",
                                    id, server.name)};
            }
        }
    }
    std::string full = channels_of_.refusal(owner);
    if (full.empty()) full = channel_endpoints_of_.refusal(owner, ends_of(spec));
    if (!full.empty()) return {Problem::ResourceExhausted, full};
    full = creations_of_.refusal(owner);
    if (!full.empty()) return {Problem::Unavailable, full};
    return {};
}

bool Cluster::may_come_back(std::uint32_t endpoint) const {
    return young() && ids_.earlier(IdKind::Endpoint, endpoint) &&
           !ended_earlier_endpoints_.contains(endpoint);
}

bool Cluster::answer_known_request(CallId call, CreateChannelRequest const& request,
                                   Effects& effects) {
    constexpr auto kOther = "this request was used for another channel";
    std::string const spec = request.spec().SerializeAsString();
    auto const over = over_.find(request.request());
    if (over != over_.end()) {
        bool const same = over->second.spec == std::hash<std::string>{}(spec) &&
                          over->second.owner == request.owner();
        answer(call, same ? over->second.failure : Failure{Problem::InvalidArgument, kOther},
               effects);
        return true;
    }
    auto const known = channel_requests_.find(request.request());
    if (known == channel_requests_.end()) return false;
    ChannelRecord& channel = channels_.at(known->second);
    if (channel.spec.SerializeAsString() != spec || channel.owner != request.owner()) {
        answer(call, {Problem::InvalidArgument, kOther}, effects);
        return true;
    }
    ServerRecord& server = servers_.at(request.sender().agent());
    if (server.unnamed_channels.contains(channel.id)) {
        answer(call, {Problem::Unavailable, kInParts}, effects);
        return true;
    }
    if (channel.creator == 0) set_creator(channel, server);  // nobody else knows the request
    bool const came_back =
        channel.creator == server.id && server.unclaimed_channels.erase(channel.id) != 0;
    if (came_back && channel.servers.contains(server.id)) {
        // The agent was restarted before its application had the answer: nobody there has the plan.
        channel.stale_plan = channel.must_renew = true;
        renew(channel);
    }
    if (channel.generation == 0) {
        wait_for(call, channel, request.deadline_ms());
    } else {
        effects.emplace_back(Answer{call, Problem::None, {}, channel.id, channel.generation});
    }
    return true;
}

void Cluster::create_channel(CallId call, CreateChannelRequest const& request, Now now,
                             Effects& effects) {
    advance(now, effects);
    ++counters_.calls;
    ServerRecord* const creator = sender_of(call, request.sender(), effects);
    if (creator == nullptr) return;
    std::string wrong = wrong_token("the request's name", request.request());
    if (wrong.empty()) wrong = wrong_owner(request.owner());
    if (!wrong.empty()) return answer(call, {Problem::InvalidArgument, wrong}, effects);
    std::string const full = calls_of_.refusal(request.owner());
    if (!full.empty()) return answer(call, {Problem::Unavailable, full}, effects);
    if (answer_known_request(call, request, effects)) return;
    Failure failure = check_spec(request.spec(), request.owner());
    if (failure.problem != Problem::None) {
        failure.text = fmt::format("channel '{}': {}", request.spec().name(), failure.text);
        return answer(call, std::move(failure), effects);
    }
    auto const id = ids_.take(IdKind::Channel, effects);
    if (!id) {
        return answer(call, {Problem::Unavailable, "ids are being reserved: repeat"}, effects);
    }
    ChannelRecord& channel = channels_[*id];
    channel.id = *id;
    channel.spec = request.spec();
    channel.owner = request.owner();
    channel.request = request.request();
    set_creator(channel, *creator);
    add_channel(channel);
    log::info("controller: channel {} ({}) is asked for by server {}: {} sources, {} destinations",
              *id, channel.spec.name(), creator->name, channel.spec.sources_size(),
              channel.spec.destinations_size());
    wait_for(call, channel, request.deadline_ms());
    start_plan(channel, request.deadline_ms(), effects);
}

Millis Cluster::limit(std::uint32_t deadline_ms) const {
    return deadline_ms == 0 ? settings_.call_ms : std::min(deadline_ms, settings_.most_call_ms);
}

void Cluster::wait_for(CallId call, ChannelRecord& channel, std::uint32_t deadline_ms) {
    channel.calls.insert(call);
    calls_[call] = channel.id;
    calls_of_.add(channel.owner);
    timers_.set(Due::Call, call, now_ + limit(deadline_ms));
}

void Cluster::call_gone(CallId call, Now now, Effects& effects) {
    advance(now, effects);
    gathers_.gone(call, timers_);
    stop_waiting(call);
}

void Cluster::stop_waiting(CallId call) {
    auto const waits = calls_.find(call);
    if (waits == calls_.end()) return;
    ChannelRecord& channel = channels_.at(waits->second);
    channel.calls.erase(call);
    calls_of_.remove(channel.owner);
    calls_.erase(waits);
    timers_.cancel(Due::Call, call);
}

void Cluster::add_channel(ChannelRecord& channel) {
    channels_of_.add(channel.owner);
    channel_endpoints_of_.add(channel.owner, ends_of(channel.spec));
    if (!channel.request.empty()) channel_requests_.emplace(channel.request, channel.id);
    for (auto const* ends : {&channel.spec.sources(), &channel.spec.destinations()}) {
        for (std::uint32_t endpoint : *ends) {
            if (channel.left.contains(endpoint)) continue;
            if (endpoints_.contains(endpoint)) {
                join(channel, endpoint);
            } else {
                channel.recovery->missing.insert(endpoint);
                awaited_[endpoint].insert(channel.id);
            }
        }
    }
}

void Cluster::set_creator(ChannelRecord& channel, ServerRecord& server) {
    channel.creator = server.id;
    server.created.insert(channel.id);
}

void Cluster::join(ChannelRecord& channel, std::uint32_t endpoint) {
    EndpointRecord& end = endpoints_.at(endpoint);
    end.channels.insert(channel.id);
    channel.servers.insert(end.server);
    servers_.at(end.server).channels.insert(channel.id);
}

void Cluster::start_plan(ChannelRecord& channel, std::uint32_t deadline_ms, Effects& effects) {
    channel.next.emplace();
    channel.next->generation = ++channel.last_given;
    if (channel.generation != 0) {
        ++renewing_;
    } else {
        creations_of_.add(channel.owner);
    }
    timers_.set(Due::Preparation, channel.id, now_ + limit(deadline_ms));
    to_plan_.add(channel.owner, channel.id, channel.generation != 0);
    pump_plans(effects);
}

// The planner makes one plan after the other. It gets few at a time, so that the next one is whoever's turn
// it is, and made from what is known by then.
void Cluster::pump_plans(Effects& effects) {
    while (!to_plan_.empty() && planning_.size() < settings_.limits.planning) {
        ChannelRecord& channel = channels_.at(to_plan_.take());
        if (channel.generation != 0 && one_side_left(channel)) {  // while it waited
            clear_next(channel);
            continue;
        }
        channel.stale_plan = false;
        planning_.emplace(channel.id, channel.next->generation);
        effects.emplace_back(plan_of(channel));
    }
}

MakePlan Cluster::plan_of(ChannelRecord const& channel) const {
    MakePlan plan;
    plan.channel = channel.id;
    plan.generation = channel.next->generation;
    auto const places = [&](auto const& ids, std::vector<Place>& to) {
        to.reserve(static_cast<std::size_t>(ids.size()));
        for (std::uint32_t id : ids) {
            if (channel.left.contains(id)) continue;
            EndpointRecord const& endpoint = endpoints_.at(id);
            to.push_back({id, endpoint.server, endpoint.vertex});
        }
    };
    places(channel.spec.sources(), plan.sources);
    places(channel.spec.destinations(), plan.destinations);
    plan.routing = channel.spec.routing();
    plan.relay_gpus = channel.spec.relay_gpus();
    plan.relay_host = channel.spec.relay_host();
    plan.max_nics = channel.spec.max_nics();
    return plan;
}

void Cluster::planned(std::uint32_t id, std::uint64_t generation, PlanMade plan, Now now,
                      Effects& effects) {
    advance(now, effects);
    if (planning_.erase({id, generation}) == 0) return;
    auto const found = channels_.find(id);
    bool const wanted = found != channels_.end() && found->second.next &&
                        found->second.next->generation == generation && !found->second.next->sent;
    if (wanted) plan_made(found->second, std::move(plan), effects);
    pump_plans(effects);
}

void Cluster::plan_made(ChannelRecord& channel, PlanMade plan, Effects& effects) {
    std::uint32_t const id = channel.id;
    std::uint64_t const generation = channel.next->generation;
    for (std::uint32_t agent : channel.servers) {
        if (plan.error.empty() && !plan.tables.contains(agent)) {
            plan.error = fmt::format("its plan has no table for server {}", name_of(agent));
        }
    }
    if (!plan.error.empty() && channel.generation == 0) {
        return end(channel, true, Problem::InvalidArgument, plan.error, effects);
    }
    std::uint64_t const print = fingerprint(plan);
    bool const same = print == channel.fingerprint && !channel.must_renew;
    if (!plan.error.empty() || same) {
        if (!same) note(fmt::format("channel {} goes on by its old plan: {}", id, plan.error));
        clear_next(channel);
        if (channel.stale_plan) {  // something changed while it was planned
            renew(channel);
        } else if (!same && channel.must_renew) {
            channel.stale_plan = true;
            timers_.set(Due::Replan, id, now_ + settings_.retry_ms);
        }
        return pump_renewals(effects);
    }
    log::info("controller: channel {} generation {} is planned, {} servers are to accept", id,
              generation, channel.servers.size());
    Preparation& next = *channel.next;
    next.sent = true;
    next.fingerprint = print;
    next.waiting = channel.servers;
    ControllerMessage common;
    common.set_protocol(kProtocol);
    common.set_epoch(epoch_);
    PreparePlan& prepare = *common.mutable_prepare_plan();
    prepare.set_channel(id);
    prepare.set_generation(generation);
    *prepare.mutable_spec() = channel.spec;
    prepare.set_directory(std::move(plan.directory));
    prepare.set_request(channel.request);
    prepare.set_owner(channel.owner);
    auto const shared = std::make_shared<ControllerMessage const>(std::move(common));
    for (std::uint32_t agent : channel.servers) {
        SessionId const session = servers_.at(agent).session;
        if (session == 0) continue;
        effects.emplace_back(Send{session, shared, std::move(plan.tables.at(agent))});
    }
}

void Cluster::plan_ack(ServerRecord& server, PlanAck const& ack, Effects& effects) {
    auto const found = channels_.find(ack.channel());
    if (found == channels_.end()) return;
    ChannelRecord& channel = found->second;
    if (!channel.next || channel.next->generation != ack.generation() || !channel.next->sent)
        return;
    if (!ack.accepted()) {
        return abort(channel, Problem::Aborted,
                     fmt::format("server {} refused its plan: {}", server.name, ack.why()),
                     effects);
    }
    log::debug("controller: channel {} generation {} is accepted by server {}", channel.id,
               ack.generation(), server.name);
    channel.next->waiting.erase(server.id);
    if (channel.next->waiting.empty()) commit(channel, effects);
}

void Cluster::commit(ChannelRecord& channel, Effects& effects) {
    if (channel.generation == 0) {
        ++counters_.channels_created;
    } else {
        ++counters_.plans_renewed;
    }
    std::uint64_t const generation = channel.next->generation;
    channel.fingerprint = channel.next->fingerprint;
    clear_next(channel);
    channel.generation = generation;
    channel.must_renew = false;
    ControllerMessage message;
    message.mutable_commit_plan()->set_channel(channel.id);
    message.mutable_commit_plan()->set_generation(generation);
    send_to_all(channel.servers, std::move(message), effects);
    log::info("controller: channel {} runs by generation {}", channel.id, generation);
    answer_all(channel, {}, effects);
    if (channel.stale_plan) renew(channel);
    pump_renewals(effects);
}

void Cluster::abort(ChannelRecord& channel, Problem problem, std::string const& why,
                    Effects& effects) {
    ++counters_.plans_aborted;
    if (channel.generation == 0) return end(channel, true, problem, why, effects);
    note(fmt::format("channel {} goes on by its old plan: {}", channel.id, why));
    if (channel.next->sent) {
        ControllerMessage message;
        message.mutable_abort_plan()->set_channel(channel.id);
        message.mutable_abort_plan()->set_generation(channel.next->generation);
        message.mutable_abort_plan()->set_why(why);
        send_to_all(channel.servers, std::move(message), effects);
    }
    clear_next(channel);
    channel.stale_plan = true;
    timers_.set(Due::Replan, channel.id, now_ + settings_.retry_ms);
    pump_renewals(effects);
}

void Cluster::clear_next(ChannelRecord& channel) {
    if (!channel.next) return;
    channel.next.reset();
    if (channel.generation != 0) {
        --renewing_;
    } else {
        creations_of_.remove(channel.owner);
    }
    to_plan_.remove(channel.owner, channel.id);
    timers_.cancel(Due::Preparation, channel.id);
}

void Cluster::pump_renewals(Effects& effects) {
    while (!to_renew_.empty() && renewing_ < settings_.limits.replanning) {
        ChannelRecord& channel = channels_.at(to_renew_.take());
        // What cannot be renewed now is looked at again when it is created, or its servers are back.
        bool const possible =
            channel.generation != 0 && !channel.next && channel.stale_plan &&
            !one_side_left(channel) &&
            std::all_of(channel.servers.begin(), channel.servers.end(), [&](std::uint32_t id) {
                ServerRecord const& server = servers_.at(id);
                return server.presence == Presence::Present && server.session != 0 &&
                       !server.unclaimed_channels.contains(channel.id) &&
                       !server.unnamed_channels.contains(channel.id);
            });
        if (possible) start_plan(channel, 0, effects);
    }
}

}  // namespace mgi::control
