#include "control/controller/service.hpp"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "control/rpc/handover.hpp"

namespace mgi::control {
namespace {

grpc::StatusCode code_of(Problem problem) {
    switch (problem) {
        case Problem::None: return grpc::StatusCode::OK;
        case Problem::InvalidArgument: return grpc::StatusCode::INVALID_ARGUMENT;
        case Problem::NotFound: return grpc::StatusCode::NOT_FOUND;
        case Problem::FailedPrecondition: return grpc::StatusCode::FAILED_PRECONDITION;
        case Problem::ResourceExhausted: return grpc::StatusCode::RESOURCE_EXHAUSTED;
        case Problem::Unavailable: return grpc::StatusCode::UNAVAILABLE;
        case Problem::DeadlineExceeded: return grpc::StatusCode::DEADLINE_EXCEEDED;
        case Problem::Aborted: return grpc::StatusCode::ABORTED;
        case Problem::Unimplemented: return grpc::StatusCode::UNIMPLEMENTED;
    }
    return grpc::StatusCode::INTERNAL;
}

grpc::ServerUnaryReactor* finish(grpc::CallbackServerContext* context, grpc::Status status) {
    grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
    reactor->Finish(std::move(status));
    return reactor;
}

using Stream = grpc::ServerBidiReactor<AgentMessage, ControllerMessage>;

/// A session that is not let in.
class Refusal final : public Stream {
public:
    explicit Refusal(grpc::Status status) {
        hand_over(this);
        Finish(std::move(status));
    }
    explicit Refusal(ControllerMessage message) : message_(std::move(message)) {
        hand_over(this);
        StartWriteAndFinish(&message_, {}, grpc::Status::OK);
    }
    void OnDone() override {
        take_over(this);
        delete this;
    }

private:
    ControllerMessage message_;
};

ControllerMessage not_leader_message(std::string leader, std::string text) {
    ControllerMessage message;
    message.set_protocol(kProtocol);
    Refused& refused = *message.mutable_refused();
    refused.set_why(Refused::NOT_LEADER);
    refused.set_leader(std::move(leader));
    refused.set_text(std::move(text));
    return message;
}

}  // namespace

/// Whoever takes it out of the service's list finishes it; so it is finished once.
class Call final : public grpc::ServerUnaryReactor {
public:
    Call(ControlService& service, CallId id, std::shared_ptr<Engine> engine,
         std::function<void(Answer const&)> fill)
        : service_(service), id_(id), engine_(std::move(engine)), fill_(std::move(fill)) {}

    void finish(Answer const& answer) {
        if (answer.problem == Problem::None) fill_(answer);
        hand_over(this);
        Finish(grpc::Status(code_of(answer.problem), answer.text));
    }
    void OnCancel() override {
        take_over(this);
        service_.cancelled(id_, *engine_);
        hand_over(this);
    }
    void OnDone() override {
        take_over(this);
        delete this;
    }

private:
    ControlService& service_;
    CallId const id_;
    std::shared_ptr<Engine> const engine_;
    std::function<void(Answer const&)> const fill_;
};

ControlService::ControlService(Security const& security, std::string address)
    : security_(security), address_(std::move(address)) {}

ControlService::~ControlService() {
    stand_by({});
}

void ControlService::lead(std::shared_ptr<Engine> engine) {
    stand_by({});
    std::lock_guard const lock(mutex_);
    engine_ = std::move(engine);
}

void ControlService::stand_by(std::string const& leader) {
    std::shared_ptr<Engine> engine;
    std::unordered_map<SessionId, std::shared_ptr<control::Session>> sessions;
    std::unordered_map<CallId, Call*> calls;
    {
        std::lock_guard const lock(mutex_);
        leader_ = leader;
        engine = std::exchange(engine_, nullptr);
        // They stay listed until their streams end, so that nobody counts them twice.
        sessions = sessions_;
        calls = std::exchange(calls_, {});
    }
    if (engine != nullptr) engine->stop();
    auto const message =
        std::make_shared<ControllerMessage const>(not_leader_message(leader, not_leader()));
    for (auto const& [id, session] : sessions) {
        session->send({id, message, {}});
        session->close();
    }
    for (auto const& [id, call] : calls) {
        call->finish({id, Problem::Unavailable, not_leader(), 0, 0});
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

std::string ControlService::status() const {
    About about{address_, {}, MGI_VERSION};
    std::shared_ptr<Engine> leading;
    {
        std::lock_guard const lock(mutex_);
        leading = engine_;
        if (leading == nullptr) about.leader = leader_.empty() ? "nobody yet" : leader_;
    }
    return leading == nullptr ? status_json({}, about) : *board_.json(leading, about);
}

std::shared_ptr<Snapshot const> ControlService::snapshot() const {
    auto const leading = engine();
    return leading == nullptr ? none<Snapshot>() : board_.snapshot(leading);
}

std::shared_ptr<control::Session> ControlService::find(SessionId session) const {
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
    Call* call = nullptr;
    {
        std::lock_guard const lock(mutex_);
        auto const found = calls_.find(answer.call);
        if (found == calls_.end()) return;
        call = found->second;
        calls_.erase(found);
    }
    call->finish(answer);
}

void ControlService::cancelled(CallId call, Engine& engine) {
    engine.apply([call](Cluster& cluster, Now now, Effects& effects) {
        cluster.call_gone(call, now, effects);
    });
    carry_out(Answer{call, Problem::DeadlineExceeded, "the caller gave up", 0, 0});
}

Stream* ControlService::Session(Context* context) {
    grpc::Status admitted = security_.admit(*context);
    if (!admitted.ok()) return new Refusal(std::move(admitted));
    SessionId const id = next_++;
    std::shared_ptr<control::Session> session;
    std::string leader;
    {
        std::lock_guard const lock(mutex_);
        leader = leader_;
        if (engine_ != nullptr) {
            session =
                std::make_shared<control::Session>(id, context, engine_, [this](SessionId over) {
                    std::lock_guard const over_lock(mutex_);
                    sessions_.erase(over);
                });
            sessions_.emplace(id, session);
        }
    }
    if (session == nullptr) return new Refusal(not_leader_message(leader, not_leader()));
    session->start();
    return session.get();
}

ControlService::Reactor* ControlService::start(
    Context* context, std::function<void(Cluster&, CallId, Now, Effects&)> const& ask,
    std::function<void(Answer const&)> fill) {
    grpc::Status admitted = security_.admit(*context);
    if (!admitted.ok()) return finish(context, std::move(admitted));
    CallId const id = next_++;
    std::shared_ptr<Engine> leading;
    Call* call = nullptr;
    {
        std::lock_guard const lock(mutex_);
        leading = engine_;
        if (leading != nullptr) {
            call = new Call(*this, id, leading, std::move(fill));
            calls_.emplace(id, call);
        }
    }
    if (leading == nullptr) {
        return finish(context, {grpc::StatusCode::UNAVAILABLE, not_leader()});
    }
    leading->apply(
        [&](Cluster& cluster, Now now, Effects& effects) { ask(cluster, id, now, effects); });
    hand_over(call);
    return call;
}

ControlService::Reactor* ControlService::CreateEndpoint(Context* context,
                                                        CreateEndpointRequest const* request,
                                                        CreateEndpointReply* reply) {
    return start(
        context,
        [request](Cluster& cluster, CallId call, Now now, Effects& effects) {
            cluster.create_endpoint(call, *request, now, effects);
        },
        [reply](Answer const& answer) { reply->set_endpoint(answer.id); });
}

ControlService::Reactor* ControlService::DeleteEndpoint(Context* context,
                                                        DeleteEndpointRequest const* request,
                                                        DeleteReply* /*reply*/) {
    return start(
        context,
        [request](Cluster& cluster, CallId call, Now now, Effects& effects) {
            cluster.delete_endpoint(call, *request, now, effects);
        },
        [](Answer const&) {});
}

ControlService::Reactor* ControlService::CreateChannel(Context* context,
                                                       CreateChannelRequest const* request,
                                                       CreateChannelReply* reply) {
    return start(
        context,
        [request](Cluster& cluster, CallId call, Now now, Effects& effects) {
            cluster.create_channel(call, *request, now, effects);
        },
        [reply](Answer const& answer) {
            reply->set_channel(answer.id);
            reply->set_generation(answer.generation);
        });
}

ControlService::Reactor* ControlService::DeleteChannel(Context* context,
                                                       DeleteChannelRequest const* request,
                                                       DeleteReply* /*reply*/) {
    return start(
        context,
        [request](Cluster& cluster, CallId call, Now now, Effects& effects) {
            cluster.delete_channel(call, *request, now, effects);
        },
        [](Answer const&) {});
}

ControlService::Reactor* ControlService::Gather(Context* context, GatherRequest const* request,
                                                GatherReply* reply) {
    return start(
        context,
        [request](Cluster& cluster, CallId call, Now now, Effects& effects) {
            cluster.gather(call, *request, now, effects);
        },
        [reply](Answer const& answer) { *reply = *answer.gathered; });
}

ControlService::Reactor* ControlService::Status(Context* context, StatusRequest const* request,
                                                StatusReply* reply) {
    grpc::Status admitted = security_.admit(*context);
    if (!admitted.ok()) return finish(context, std::move(admitted));
    if (request->protocol() != kProtocol) {
        return finish(context, {grpc::StatusCode::UNIMPLEMENTED,
                                fmt::format("protocol {}: this controller speaks {}; update the "
                                            "older side",
                                            request->protocol(), kProtocol)});
    }
    reply->set_json(status());
    return finish(context, grpc::Status::OK);
}

}  // namespace mgi::control
