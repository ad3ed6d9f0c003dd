#include "control/controller/service.hpp"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "control/state/settings.hpp"
#include "control/state/validation.hpp"

namespace mgi::control {
namespace {

constexpr std::size_t kStatusesAtOnce = 256;

ControllerMessage not_leader_message(std::string leader, std::string text) {
    ControllerMessage message;
    message.set_protocol(kProtocol);
    Refused& refused = *message.mutable_refused();
    refused.set_why(Refused::NOT_LEADER);
    refused.set_leader(std::move(leader));
    refused.set_text(std::move(text));
    return message;
}

Answer failure(Problem problem, std::string text) {
    return {0, problem, std::move(text), 0, 0};
}

}  // namespace

ControlService::ControlService(Security const& security, std::string address)
    : security_(security),
      address_(std::move(address)),
      statuses_("answers with the status that wait", kStatusesAtOnce, "ask later") {}

ControlService::~ControlService() {
    stand_by({});
}

std::unique_ptr<net::Server> ControlService::serve(std::string const& listen) {
    net::ServerOptions options = server_options("controller");
    // All of this machine, and ssh tunnels to it, come from one address.
    if (is_loopback(listen)) options.most_strangers_of_one_address = options.most_strangers;
    return std::make_unique<net::Server>(
        listen, security_.server_tls(),
        [this] {
            return std::make_shared<Session>(next_++, security_, static_cast<SessionOwner&>(*this));
        },
        options);
}

void ControlService::lead(std::shared_ptr<Engine> engine) {
    stand_by({});
    std::lock_guard const lock(mutex_);
    engine_ = std::move(engine);
}

void ControlService::stand_by(std::string const& leader) {
    std::shared_ptr<Engine> engine;
    std::unordered_map<SessionId, std::shared_ptr<Session>> sessions;
    std::unordered_map<CallId, Caller> calls;
    {
        std::lock_guard const lock(mutex_);
        leader_ = leader;
        engine = std::exchange(engine_, nullptr);
        sessions = std::exchange(sessions_, {});
        calls = std::exchange(calls_, {});
        calls_of_.clear();
    }
    if (engine != nullptr) engine->stop();
    for (auto const& [id, call] : calls) {
        call.session->answer(call.number, failure(Problem::Unavailable, not_leader()));
    }
    auto const message =
        std::make_shared<ControllerMessage const>(not_leader_message(leader, not_leader()));
    for (auto const& [id, session] : sessions) {
        session->send({id, message, {}});
        session->close();
    }
}

std::shared_ptr<Engine> ControlService::engine() const {
    std::lock_guard const lock(mutex_);
    return engine_;
}

std::string ControlService::not_leader() const {
    std::lock_guard const lock(mutex_);
    return leader_.empty() ? "not the leader; nobody leads yet, or this controller is stopping"
                           : fmt::format("not the leader; ask {}", leader_);
}

std::shared_ptr<std::string const> ControlService::status_text(
    std::optional<std::string> const& owner) const {
    About about{address_, {}, MGI_VERSION};
    std::shared_ptr<Engine> leading;
    {
        std::lock_guard const lock(mutex_);
        leading = engine_;
        if (leading == nullptr) about.leader = leader_.empty() ? "nobody yet" : leader_;
    }
    if (leading != nullptr) return board_.json(leading, about, owner);
    return std::make_shared<std::string const>(status_json({}, about));
}

std::shared_ptr<Snapshot const> ControlService::snapshot() const {
    auto const leading = engine();
    return leading == nullptr ? none<Snapshot>() : board_.snapshot(leading);
}

std::shared_ptr<Session> ControlService::find(SessionId session) const {
    std::lock_guard const lock(mutex_);
    auto const found = sessions_.find(session);
    return found == sessions_.end() ? nullptr : found->second;
}

void ControlService::carry_out(Send const& send) {
    if (auto const session = find(send.session)) session->send(send);
}

void ControlService::carry_out(Close const& close) {
    if (auto const session = find(close.session)) session->close();
}

void ControlService::carry_out(Answer const& answer) {
    Caller caller;
    {
        std::lock_guard const lock(mutex_);
        auto const found = calls_.find(answer.call);
        if (found == calls_.end()) return;
        caller = std::move(found->second);
        calls_.erase(found);
        auto const of = calls_of_.find(caller.session->id());
        if (of != calls_of_.end()) {
            of->second.erase(caller.number);
            if (of->second.empty()) calls_of_.erase(of);
        }
    }
    caller.session->answer(caller.number, answer);
}

std::shared_ptr<Engine> ControlService::began(std::shared_ptr<Session> const& session,
                                              ControllerMessage& refusal) {
    std::string leader;
    {
        std::lock_guard const lock(mutex_);
        if (engine_ != nullptr) {
            sessions_.emplace(session->id(), session);
            return engine_;
        }
        leader = leader_;
    }
    refusal = not_leader_message(leader, not_leader());
    return nullptr;
}

void ControlService::over(Session& session) {
    std::vector<std::pair<CallId, std::shared_ptr<Engine>>> calls;
    {
        std::lock_guard const lock(mutex_);
        sessions_.erase(session.id());
        auto const of = calls_of_.find(session.id());
        if (of == calls_of_.end()) return;
        for (auto const& [number, call] : of->second) {
            calls.emplace_back(call, calls_.at(call).engine);
        }
    }
    for (auto const& [call, leading] : calls) give_up(call, *leading);
}

void ControlService::cancelled(Session& session, std::uint64_t number) {
    CallId call = 0;
    std::shared_ptr<Engine> leading;
    {
        std::lock_guard const lock(mutex_);
        auto const of = calls_of_.find(session.id());
        if (of == calls_of_.end()) return;
        auto const found = of->second.find(number);
        if (found == of->second.end()) return;
        call = found->second;
        leading = calls_.at(call).engine;
    }
    give_up(call, *leading);
}

void ControlService::give_up(CallId call, Engine& engine) {
    engine.apply([call](Cluster& cluster, Now now, Effects& effects) {
        cluster.call_gone(call, now, effects);
    });
    carry_out(Answer{call, Problem::DeadlineExceeded, "the caller gave up", 0, 0});
}

void ControlService::start(std::shared_ptr<Session> const& session, std::uint64_t number,
                           Ask const& ask) {
    CallId const id = next_++;
    std::shared_ptr<Engine> leading;
    {
        std::lock_guard const lock(mutex_);
        leading = engine_;
        if (leading != nullptr) {
            calls_.emplace(id, Caller{session, number, leading});
            calls_of_[session->id()].emplace(number, id);
        }
    }
    if (leading == nullptr) {
        return session->answer(number, failure(Problem::Unavailable, not_leader()));
    }
    leading->apply(
        [&](Cluster& cluster, Now now, Effects& effects) { ask(cluster, id, now, effects); });
}

void ControlService::asked(std::shared_ptr<Session> const& session, CallRequest const& call) {
    auto const put = [&](auto const& request, auto method) {
        start(session, call.number(), [&](Cluster& cluster, CallId id, Now now, Effects& effects) {
            (cluster.*method)(id, request, now, effects);
        });
    };
    switch (call.request_case()) {
        case CallRequest::kCreateEndpoint:
            return put(call.create_endpoint(), &Cluster::create_endpoint);
        case CallRequest::kDeleteEndpoint:
            return put(call.delete_endpoint(), &Cluster::delete_endpoint);
        case CallRequest::kCreateChannel:
            return put(call.create_channel(), &Cluster::create_channel);
        case CallRequest::kDeleteChannel:
            return put(call.delete_channel(), &Cluster::delete_channel);
        case CallRequest::kGather: return put(call.gather(), &Cluster::gather);
        case CallRequest::kStatus: return tell_status(session, call);
        case CallRequest::REQUEST_NOT_SET: break;
    }
    session->answer(call.number(), failure(Problem::Unimplemented,
                                           "this controller knows no such call; update it"));
}

/// On a thread of its own: a large cluster's status takes longer to write than agents should wait.
void ControlService::tell_status(std::shared_ptr<Session> const& session, CallRequest const& call) {
    std::uint32_t const protocol = call.status().protocol();
    if (protocol != kProtocol) {
        return session->answer(
            call.number(),
            failure(Problem::Unimplemented,
                    fmt::format("protocol {}: this controller speaks {}; update the older side",
                                protocol, kProtocol)));
    }
    std::string const wrong = wrong_owner(call.status().owner());
    if (!wrong.empty()) {
        return session->answer(call.number(), failure(Problem::InvalidArgument, wrong));
    }
    std::optional<std::string> owner;
    if (call.status().has_owner()) owner = call.status().owner();
    std::string full;
    {
        std::lock_guard const lock(mutex_);
        full = statuses_.refusal(owner.value_or(""));
        if (full.empty()) statuses_.add(owner.value_or(""));
    }
    if (!full.empty()) return session->answer(call.number(), failure(Problem::Unavailable, full));
    writes_status_.add([this, session, owner, number = call.number()] {
        session->answer(number, status_text(owner));
        std::lock_guard const lock(mutex_);
        statuses_.remove(owner.value_or(""));
    });
}

}  // namespace mgi::control
