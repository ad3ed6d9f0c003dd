// The agent and the controller: registration, plans in two steps, and word of what has ended.
#include <algorithm>
#include <utility>

#include <mgi/device/assert.hpp>

#include "control/agent/core.hpp"
#include "control/local/words.hpp"
#include "core/log.hpp"

namespace mgi::control {

AgentCore::AgentCore(CoreOptions options, AgentPorts& ports)
    : options_(std::move(options)),
      graph_(options_.graph),
      ports_(ports),
      session_(options_.session, ports,
               {[this] { return registration(); },
                [this](Registered const& registered) { joined(registered); },
                [this](ControllerMessage const& message) { received(message); },
                [this](std::string const& why) { tell_controller_state(false, why); },
                [this](Heartbeat& heartbeat) { add_figures(heartbeat); }}) {}

void AgentCore::session_received(std::uint64_t session, ControllerMessage const& message,
                                 Time now) {
#if MGI_ASSERTIONS_ACTIVE
    check_invariants();
#endif
    now_ = now;
    session_.received(session, message, now);
    dispatch(now);
}

void AgentCore::session_broken(std::uint64_t session, std::string const& why, Time now) {
    now_ = now;
    session_.broken(session, why, now);
}

void AgentCore::tick(Time now) {
#if MGI_ASSERTIONS_ACTIVE
    check_invariants();
#endif
    now_ = now;
    session_.tick(now);
    for (auto at = applications_.begin(); at != applications_.end();) {
        ApplicationId const id = at->first;
        Application const& application = (at++)->second;
        if (!application.name.empty() || now - application.since < kHelloLimit) continue;
        ports_.tell(id,
                    {{"id", 0u},
                     {"error", error_value(ErrorCode::Timeout,
                                           "no hello for " + std::to_string(kHelloLimit.count()) +
                                               " ms; a connection begins with one")}});
        ports_.dismiss(id);
        application_left(id, "it said no hello", now);
    }
    forget_left(now);
    end_part_waits([&](PartWait const& wait) { return now >= wait.deadline; },
                   {{"error", error_value(ErrorCode::Timeout,
                                          "get_part took too long: no process of server " +
                                              options_.name + " has put the channel's part")}});
    dispatch(now);
}

Time AgentCore::next() const {
    Time next = session_.next();
    for (PartWait const& wait : part_waits_) next = std::min(next, wait.deadline);
    if (session_.joined()) {
        for (auto const& [channel, until] : left_) next = std::min(next, until);
    }
    for (auto const& [id, application] : applications_) {
        if (application.name.empty()) next = std::min(next, application.since + kHelloLimit);
    }
    for (auto const& [id, request] : requests_) {
        if (expires(request)) next = std::min(next, request.deadline);
        if (request.call == 0 && request.made == 0 && session_.joined() &&
            request.answered_by != session_.sender().epoch()) {
            next = std::min(next, request.again);
        }
    }
    return next;
}

std::string AgentCore::name_of(ApplicationId application) const {
    auto const found = applications_.find(application);
    return found == applications_.end() ? "" : found->second.name;
}

std::string AgentCore::owner_of(ApplicationId application) const {
    auto const found = applications_.find(application);
    return found == applications_.end() ? "" : found->second.owner;
}

Json AgentCore::told_plan(HeldPlans const& held) const {
    Json told = json_of(*held.running);
    told["ticket"] = bytes_value(tickets_.of_plan(held.owner, *held.running));
    return told;
}

Json AgentCore::told_creator(Json told, HeldPlans const& held) const {
    told["creator_ticket"] = bytes_value(tickets_.of_creator(held.owner, held.running->channel));
    return told;
}

Register AgentCore::registration() {
    unsaid_.clear();
    Register message;
    message.set_name(options_.name);
    message.set_instance(options_.instance);
    message.set_version(options_.version);
    message.set_clock_ms(ports_.wall_ms());
    *message.mutable_graph() = graph_;
    // A link that is down is none of a graph's; once it is up it is told as any change.
    message.mutable_graph()->clear_links();
    for (Link const& link : graph_.links()) {
        if (link.gbps() > 0) *message.mutable_graph()->add_links() = link;
    }
    holdings_.forget_told();
    in_parts_ = !tell_some(*message.mutable_endpoints(), *message.mutable_channels());
    message.set_more(in_parts_);
    return message;
}

void AgentCore::joined(Registered const& registered) {
    for (std::uint32_t const id : registered.lost_channels()) {
        end_channel(id, true, "it was given up while the server " + options_.name + " was away");
    }
    for (std::uint32_t const id : registered.lost_endpoints()) {
        lose_endpoint(id, "it was given up while the server " + options_.name + " was away");
    }
    for (AgentMessage& message : std::exchange(unsaid_, {})) session_.send(std::move(message));
    renew_give_backs();
    repeat_gathers();
    for (auto& [channel, until] : left_) until = now_ + kRepeatLeaving;
    announce();
    tell_controller_state(true, "");
}

// While there is no session, the next registration says it by naming what there is.
void AgentCore::report(AgentMessage message) {
    if (session_.joined()) {
        session_.send(std::move(message));
    } else if (session_.registering()) {
        unsaid_.push_back(std::move(message));
    }
}

bool AgentCore::tell_some(google::protobuf::RepeatedPtrField<HeldEndpoint>& endpoints,
                          google::protobuf::RepeatedPtrField<HeldChannel>& channels) {
    return holdings_.tell(
        options_.part_bytes, [this](ApplicationId id) { return name_of(id); }, endpoints, channels);
}

// What the registration had no room for, and what applications have brought since it was sent.
void AgentCore::announce() {
    if (!session_.joined()) return;
    for (bool all = false; !all;) {
        AgentMessage message;
        Held& held = *message.mutable_held();
        all = tell_some(*held.mutable_endpoints(), *held.mutable_channels());
        held.set_last(all && std::exchange(in_parts_, false));
        bool const empty = held.endpoints_size() == 0 && held.channels_size() == 0;
        if (!empty || held.last()) session_.send(std::move(message));
    }
}

void AgentCore::received(ControllerMessage const& message) {
    if (message.has_prepare_plan()) {
        prepare(message.prepare_plan());
    } else if (message.has_commit_plan()) {
        commit(message.commit_plan());
    } else if (message.has_abort_plan()) {
        AbortPlan const& abort = message.abort_plan();
        log::info("channel {}, generation {}: aborted: {}", abort.channel(), abort.generation(),
                  abort.why());
        holdings_.abort(abort.channel(), abort.generation());
    } else if (message.has_channel_ended()) {
        ChannelEnded const& ended = message.channel_ended();
        if (ended.goes_on()) {
            goes_on_elsewhere(ended.channel());
        } else {
            end_channel(ended.channel(), ended.failed(), ended.why());
        }
    } else if (message.has_channel_left()) {
        channel_left(message.channel_left());
    } else if (message.has_lost()) {
        for (std::uint32_t const id : message.lost().channels()) {
            end_channel(id, true, "it had ended when the agent was started again");
        }
        for (std::uint32_t const id : message.lost().endpoints()) {
            lose_endpoint(id, "it was given up before the agent was started again");
        }
    } else if (message.has_server_notice()) {
        ServerNotice const& notice = message.server_notice();
        char const* const state = notice.state() == ServerNotice::PRESENT ? "present"
                                  : notice.state() == ServerNotice::AWAY  ? "away"
                                                                          : "failed";
        log::info("server {} is {}", notice.name(), state);
        tell_all({{"notice", "server"}, {"server", notice.name()}, {"state", state}});
    }
}

void AgentCore::prepare(PreparePlan const& prepare) {
    ClusterPlan plan;
    plan.channel = prepare.channel();
    plan.generation = prepare.generation();
    plan.spec = spec_of(prepare.spec());
    plan.directory = prepare.directory();
    plan.table = prepare.table();
    plan.request = prepare.request();
    std::string const why = holdings_.prepare(std::move(plan), prepare.owner());
    log::info("channel {}, generation {}: {}", prepare.channel(), prepare.generation(),
              why.empty() ? "prepared" : "refused: " + why);
    AgentMessage message;
    PlanAck& ack = *message.mutable_plan_ack();
    ack.set_channel(prepare.channel());
    ack.set_generation(prepare.generation());
    ack.set_accepted(why.empty());
    if (!why.empty()) ack.set_why("server " + options_.name + ": " + why);
    session_.send(std::move(message));
}

void AgentCore::commit(CommitPlan const& commit) {
    ClusterPlan const* const plan = holdings_.commit(commit.channel(), commit.generation());
    if (plan == nullptr) {
        HeldPlans const* const held = holdings_.channel(commit.channel());
        bool const runs =
            held != nullptr && held->running && held->running->generation == commit.generation();
        // Nothing is lost yet: what runs is said again, and so is what is missing.
        if (!runs) {
            session_.register_again("the controller committed generation " +
                                        std::to_string(commit.generation()) + " of channel " +
                                        std::to_string(commit.channel()) +
                                        ", which was not prepared here",
                                    now_);
        }
        return;
    }
    log::info("channel {}, generation {}: committed", plan->channel, plan->generation);
    // Whoever has asked for the channel gets its plan as the answer.
    ApplicationId asked = 0;
    for (auto at = requests_.begin(); at != requests_.end();) {
        auto const request = at++;
        bool const this_one = request->second.made == plan->channel;
        if (this_one && request->second.generation <= plan->generation) {
            asked = request->second.application;
            answer_channel(request);
        }
    }
    HeldPlans const& held = *holdings_.channel(commit.channel());
    Json notice = told_plan(held);
    notice["notice"] = "plan";
    for (ApplicationId const id : holdings_.parties(held)) {
        if (id == asked) continue;
        if (id == held.creator) {
            ports_.tell(id, told_creator(notice, held));
        } else {
            ports_.tell(id, notice);
        }
    }
}

void AgentCore::end_channel(std::uint32_t id, bool failed, std::string const& why,
                            ApplicationId but) {
    HeldPlans const* const held = holdings_.channel(id);
    if (held == nullptr) return;
    log::info("channel {}: {}: {}", id, failed ? "failed" : "ended", why);
    Json notice = {{"notice", "channel_ended"}, {"channel", id}, {"failed", failed}, {"why", why}};
    auto const parties = holdings_.parties(*held);
    auto const leavers = held->leavers;
    holdings_.remove_channel(id);
    left_.erase(id);
    usage_.forget_channel(id);
    for (ApplicationId const application : parties) {
        if (application != but) ports_.tell(application, notice);
    }
    notice["failed"] = false;  // it ends well for who has left it
    for (ApplicationId const application : leavers) {
        if (!parties.contains(application)) ports_.tell(application, notice);
    }
    end_part_waits([&](PartWait const& wait) { return wait.channel == id; },
                   {{"error", error_value(ErrorCode::Refused, "channel " + std::to_string(id) +
                                                                  " has ended: " + why)}});
    for (auto at = requests_.begin(); at != requests_.end();) {
        auto const request = at++;
        if (request->second.made == id) fail(request, ErrorCode::Refused, why);
    }
}

void AgentCore::lose_endpoint(std::uint32_t id, std::string const& why) {
    auto const found = holdings_.endpoints().find(id);
    if (found == holdings_.endpoints().end()) return;
    ApplicationId const application = found->second.application;
    holdings_.remove_endpoint(id);
    log::info("endpoint {} is lost: {}", id, why);
    ports_.tell(application, {{"notice", "endpoint_lost"}, {"endpoint", id}, {"why", why}});
}

void AgentCore::tell_controller_state(bool reached, std::string const& why) {
    tell_all({{"notice", "controller"}, {"reached", reached}, {"why", why}});
}

void AgentCore::tell_all(Json const& notice) {
    for (auto const& [id, application] : applications_) {
        if (!application.name.empty()) ports_.tell(id, notice);
    }
}

void AgentCore::add_figures(Heartbeat& heartbeat) const {
    usage_.add_to(heartbeat);
    for (LinkUse const& use : links_used_) *heartbeat.add_links() = use;
}

void AgentCore::link_changed(std::uint32_t from, std::uint32_t to, double gbps) {
    for (Link& link : *graph_.mutable_links()) {
        if (link.from() != from || link.to() != to) continue;
        link.set_gbps(gbps);
        AgentMessage message;
        *message.mutable_link_change()->mutable_link() = link;
        report(std::move(message));
    }
}

bool AgentCore::leave(std::string const& why) {
    // What applications hold outlives the agent: the next one is told of it.
    bool const holds = !holdings_.endpoints().empty() || holdings_.channels().size() > left_.size();
    if (!session_.joined() || holds) return false;
    AgentMessage message;
    message.mutable_leave()->set_why(why);
    session_.send(std::move(message));
    return true;
}

Json AgentCore::status() const {
    Json applications = Json::array();
    for (auto const& [id, application] : applications_) {
        if (application.name.empty()) continue;
        applications.push_back({{"name", application.name},
                                {"pid", application.pid},
                                {"endpoints", holdings_.endpoints_of(id).size()}});
    }
    std::size_t running = 0;
    for (auto const& [id, held] : holdings_.channels()) {
        running += held.running && !left_.contains(id) ? 1 : 0;
    }
    return {{"server", options_.name},
            {"version", options_.version},
            {"agent", session_.sender().agent()},
            {"incarnation", session_.sender().incarnation()},
            {"epoch", session_.sender().epoch()},
            {"controller", session_.controller()},
            {"reached", session_.joined()},
            {"why", session_.away()},
            {"sessions", session_.number()},
            {"applications", std::move(applications)},
            {"endpoints", holdings_.endpoints().size()},
            {"channels", running},
            {"requests", requests_.size()}};
}

}  // namespace mgi::control
