// Requests that the controller decides: asked again until it answers or the caller's time is up.
#include <algorithm>
#include <type_traits>
#include <utility>

#include <mgi/device/assert.hpp>

#include "control/agent/core.hpp"
#include "control/local/words.hpp"
#include "core/log.hpp"

namespace mgi::control {

namespace {

constexpr Milliseconds kAgain{100};  // until a call that met no controller is repeated
// Before a gather's own deadline: its controller's, so that the word of who is missing comes in time.
constexpr Milliseconds kLastWord{300};

template <class Message>
Message const* get_if(UnaryRequest const& request) {
    return std::get_if<Message>(&request);
}

// The device may be another one: what it is made on was decided when it was asked for first.
bool same_request(UnaryRequest const& one, UnaryRequest const& other) {
    if (auto const* endpoint = get_if<CreateEndpointRequest>(one)) {
        auto const* again = get_if<CreateEndpointRequest>(other);
        return again != nullptr && again->request() == endpoint->request() &&
               again->owner() == endpoint->owner();
    }
    auto const* channel = get_if<CreateChannelRequest>(one);
    auto const* again = get_if<CreateChannelRequest>(other);
    return channel != nullptr && again != nullptr && again->request() == channel->request() &&
           again->owner() == channel->owner() &&
           again->spec().SerializeAsString() == channel->spec().SerializeAsString();
}

}  // namespace

void AgentCore::ask(Request request) {
    if (take_over(request)) return;
    request.bytes =
        std::visit([](auto const& message) { return message.ByteSizeLong(); }, request.message);
    if (auto const found = applications_.find(request.application); found != applications_.end()) {
        check_room(request);
        if (found->second.request_bytes + request.bytes > kMostRequestBytes) {
            throw Error(ErrorCode::Refused,
                        request.op + ": requests of " + std::to_string(kMostRequestBytes) +
                            " bytes of this application wait already, the most");
        }
        ++found->second.requests;
        found->second.request_bytes += request.bytes;
    }
    add(next_request_++, std::move(request));
}

void AgentCore::add(std::uint64_t number, Request request) {
    if (!request.user.empty()) requests_of_.add(request.user);
    requests_.emplace(number, std::move(request));
}

// Only what is about to wait is refused: a part that is put or a channel that is left ends what others wait
// for. A deletion waits, too, but not for its user's share, since it is what makes room.
void AgentCore::check_room(Request const& request) const {
    if (applications_.at(request.application).requests >= kMostRequests) {
        throw Error(ErrorCode::Refused, request.op + ": " + std::to_string(kMostRequests) +
                                            " requests of this application wait already, the most");
    }
    if (get_if<DeleteEndpointRequest>(request.message) != nullptr ||
        get_if<DeleteChannelRequest>(request.message) != nullptr) {
        return;
    }
    std::string const full = requests_of_.refusal(request.user);
    if (!full.empty()) throw Error(ErrorCode::Refused, request.op + ": " + full);
}

// An application whose connection broke asks again for what is under way for nobody: both would get the
// same answer, of which one is theirs, and the other one gives back.
bool AgentCore::take_over(Request const& request) {
    if (!makes(request.message)) return false;
    for (auto& [number, orphan] : requests_) {
        bool const same = orphan.application == 0 && orphan.made == 0 &&
                          same_request(orphan.message, request.message);
        if (!same) continue;
        orphan.application = request.application;
        orphan.id = request.id;
        orphan.op = request.op;
        orphan.deadline = request.deadline;
        ++applications_.at(request.application).requests;
        applications_.at(request.application).request_bytes += orphan.bytes;
        return true;
    }
    return false;
}

bool AgentCore::makes(UnaryRequest const& message) {
    return get_if<CreateEndpointRequest>(message) != nullptr ||
           get_if<CreateChannelRequest>(message) != nullptr;
}

// What nobody waits for has its time while a controller is there to answer.
bool AgentCore::expires(Request const& request) const {
    return request.application != 0 || session_.joined();
}

// Sends what waits, and ends what has waited too long.
void AgentCore::dispatch(Time now, std::uint64_t first) {
    for (auto at = requests_.lower_bound(first); at != requests_.end();) {
        auto const request = at++;
        Request& waiting = request->second;
        bool const late = now >= waiting.deadline && expires(waiting);
        if (late && waiting.answered_by != 0) {
            drop(request);
        } else if (late && is_gather(waiting) && session_.joined() && !waiting.trouble.empty()) {
            fail(request, ErrorCode::Timeout, waiting.trouble);
        } else if (late) {
            std::string const why =
                !session_.joined()  ? session_.away()
                : waiting.made != 0 ? "this server has not got the plan"
                : waiting.call != 0
                    ? "the controller at " + session_.controller() + " has not answered"
                : waiting.trouble.empty() ? "the controller was not asked"
                                          : waiting.trouble;
            fail(request, ErrorCode::Timeout, waiting.op + " took too long: " + why);
        } else if (session_.joined() && waiting.call == 0 && waiting.made == 0 &&
                   now >= waiting.again && waiting.answered_by != session_.sender().epoch()) {
            send(request, now);
        }
    }
}

// Not at every word of an application, which may flood.
#if MGI_ASSERTIONS_ACTIVE
void AgentCore::check_invariants() const {
    constexpr std::size_t kMost = 200;  // more take too long for each event
    if (applications_.size() + requests_.size() + holdings_.endpoints().size() +
            holdings_.channels().size() >
        kMost)
        return;
    std::map<ApplicationId, std::size_t> waiting;
    std::size_t counted_for_users = part_waits_.size();
    for (auto const& [number, request] : requests_) {
        ++waiting[request.application];
        counted_for_users += request.user.empty() ? 0 : 1;
        MGI_ASSERT(request.application == 0 || applications_.contains(request.application), number,
                   request.application);
        auto const call = calls_.find(request.call);
        MGI_ASSERT(request.call == 0 || (call != calls_.end() && call->second == number), number,
                   request.call);
    }
    for (PartWait const& wait : part_waits_) {
        ++waiting[wait.application];
        MGI_ASSERT(applications_.contains(wait.application), wait.application, wait.channel);
    }
    MGI_ASSERT(requests_of_.all() == counted_for_users, requests_of_.all(), counted_for_users);
    MGI_ASSERT(applications_of_.all() == applications_.size(), applications_of_.all());
    for (auto const& [id, application] : applications_) {
        auto const found = waiting.find(id);
        std::size_t const counted = found == waiting.end() ? 0 : found->second;
        MGI_ASSERT(application.requests == counted, id, application.requests, counted);
    }
    for (auto const& [id, place] : holdings_.endpoints()) {
        MGI_ASSERT(applications_.contains(place.application), id, place.application);
    }
    for (auto const& [id, held] : holdings_.channels()) {
        MGI_ASSERT(held.creator == 0 || (held.created && applications_.contains(held.creator)), id,
                   held.creator, held.created);
        MGI_ASSERT(!held.running || !held.awaited, id);
        for (auto const* plan : {&held.running, &held.prepared, &held.awaited}) {
            MGI_ASSERT(!*plan || (*plan)->channel == id, id, (*plan)->channel);
        }
    }
}
#endif

void AgentCore::send(Requests::iterator at, Time now) {
    Request& request = at->second;
    request.call = next_call_++;
    request.session = session_.number();
    calls_[request.call] = at->first;
    auto const limit =
        std::min(std::chrono::duration_cast<Milliseconds>(request.deadline - now), kLongestLimit);
    std::visit(
        [&](auto& message) {
            using Message = std::decay_t<decltype(message)>;
            if constexpr (std::is_same_v<Message, StatusRequest>) {
                message.set_protocol(session_.sender().protocol());
            } else {
                *message.mutable_sender() = session_.sender();
            }
            if constexpr (std::is_same_v<Message, CreateChannelRequest>) {
                message.set_deadline_ms(static_cast<std::uint32_t>(limit.count()));
            }
            if constexpr (std::is_same_v<Message, GatherRequest>) {
                auto const early = std::max(limit - kLastWord, limit / 2);
                message.set_deadline_ms(
                    std::max(static_cast<std::uint32_t>(early.count()), std::uint32_t(1)));
                message.set_answered(request.answered_by != 0);
            }
        },
        request.message);
    ports_.call(request.call, request.message, std::max(limit, Milliseconds(1)));
}

void AgentCore::call_ended(CallNumber number, CallOutcome outcome, Time now) {
#if MGI_ASSERTIONS_ACTIVE
    check_invariants();
#endif
    now_ = now;
    auto const found = calls_.find(number);
    if (found == calls_.end()) return;
    auto const at = requests_.find(found->second);
    calls_.erase(found);
    if (at == requests_.end()) return;
    Request& request = at->second;
    request.call = 0;
    // Under an older incarnation the answer may not be ours any more: the same request finds the same.
    bool const older = !session_.joined() || request.session != session_.number();
    if (older) outcome.kind = CallOutcome::Kind::Repeat;
    switch (outcome.kind) {
        case CallOutcome::Kind::Done: done(at, outcome); break;
        case CallOutcome::Kind::Failed: {
            // What others have ended is a failure of theirs where processes meet, else a refusal.
            bool const refused = outcome.code == ErrorCode::GroupFailed && !is_gather(request);
            fail(at, refused ? ErrorCode::Refused : outcome.code, outcome.text);
            break;
        }
        case CallOutcome::Kind::Stale:
            request.trouble = outcome.text;
            session_.register_again(outcome.text, now);
            break;
        case CallOutcome::Kind::Repeat:
            request.trouble = outcome.text;
            request.again = now + kAgain;
            // A repetition at the last moment would know less of who is missing.
            if (is_gather(request) && request.deadline - now < kLastWord) {
                request.again = request.deadline;
            }
            break;
    }
    dispatch(now);
}

void AgentCore::done(Requests::iterator at, CallOutcome const& outcome) {
    Request& request = at->second;
    if (auto const* made = get_if<CreateEndpointRequest>(request.message)) {
        if (request.application == 0) {  // its application ended meanwhile
            forget(at);
            AgentMessage message;
            message.mutable_endpoints_gone()->add_endpoints(outcome.id);
            message.mutable_endpoints_gone()->set_why("its application has ended");
            return session_.send(std::move(message));
        }
        holdings_.add_endpoint(outcome.id,
                               {made->vertex(), request.application, true, made->owner()});
        answer(request, {{"endpoint", outcome.id},
                         {"vertex", made->vertex()},
                         {"device", graph_.vertices(static_cast<int>(made->vertex())).name()},
                         {"ticket", bytes_value(tickets_.of_endpoint(made->owner(), outcome.id,
                                                                     made->vertex()))}});
    } else if (auto const* gone = get_if<DeleteEndpointRequest>(request.message)) {
        holdings_.remove_endpoint(gone->endpoint());
        answer(request, Json::object());
    } else if (auto const* channel = get_if<CreateChannelRequest>(request.message)) {
        std::string const wrong = holdings_.created(
            {outcome.id, outcome.generation, spec_of(channel->spec()), "", "", channel->request()},
            request.application, channel->owner());
        if (request.application == 0 || !wrong.empty()) {
            DeleteChannelRequest undo;
            undo.set_channel(outcome.id);
            if (wrong.empty()) {
                forget(at);
            } else {
                fail(at, ErrorCode::Internal,
                     "the controller made channel " + std::to_string(outcome.id) + ": " + wrong);
            }
            return give_back(std::move(undo));
        }
        request.made = outcome.id;
        request.generation = outcome.generation;
        HeldPlans const* const held = holdings_.channel(outcome.id);
        // The commit comes by the session, the answer by a call of its own: either may be first.
        if (held->running && held->running->generation >= outcome.generation) answer_channel(at);
        return;
    } else if (auto const* ended = get_if<DeleteChannelRequest>(request.message)) {
        end_channel(ended->channel(), false, "it was deleted", request.application);
        answer(request, Json::object());
    } else if (is_gather(request)) {
        return gathered(at, *outcome.gathered);
    } else {
        answer(request, {{"status", outcome.text}});
    }
    forget(at);
}

void AgentCore::answer_channel(Requests::iterator at) {
    Request const& request = at->second;
    HeldPlans const* const held = holdings_.channel(request.made);
    Json told = told_plan(*held);
    bool const creator = held->creator == request.application;
    answer(request, creator ? told_creator(std::move(told), *held) : std::move(told));
    forget(at);
}

void AgentCore::answer(Request const& request, Json message) {
    if (request.application == 0) return;
    message["id"] = request.id;
    if (!has(message, "error")) message["ok"] = true;
    ports_.tell(request.application, message);
}

void AgentCore::fail(Requests::iterator at, ErrorCode code, std::string const& text) {
    Request const& request = at->second;
    if (request.answered_by != 0) return drop(at);
    if (request.application == 0) {
        log::warn("{} for an application that has ended: {}", request.op, text);
    }
    // What may have been made for a call that nobody waits for any more.
    bool const unknown = code == ErrorCode::Timeout && request.session != 0 && request.made == 0;
    if (auto const* gone = get_if<DeleteEndpointRequest>(request.message);
        gone != nullptr && code == ErrorCode::NotFound) {
        holdings_.remove_endpoint(gone->endpoint());
    }
    auto const* deleted = get_if<DeleteChannelRequest>(request.message);
    if (deleted != nullptr && code == ErrorCode::NotFound) {
        end_channel(deleted->channel(), true, text);
    }
    answer(request, {{"error", error_value(code, text)}});
    if (deleted != nullptr && code == ErrorCode::Timeout && request.application != 0) {
        // Whoever deletes it needs it no more, and may not ask again.
        DeleteChannelRequest undo = *deleted;
        forget(at);
        if (!is_given_back(undo.channel())) give_back(std::move(undo));
        return;
    }
    if (unknown && request.application != 0 && makes(request.message)) {
        // It goes on for nobody, and is undone when its outcome is known.
        Request orphan = request;
        orphan.application = 0;
        orphan.deadline = now_ + kGiveBackLimit;
        std::uint64_t const number = next_request_++;
        if (orphan.call != 0) calls_[orphan.call] = number;
        forget(at);
        add(number, std::move(orphan));
        return;
    }
    if (request.made != 0 && code == ErrorCode::Timeout) {
        DeleteChannelRequest undo;
        undo.set_channel(request.made);
        forget(at);
        return give_back(std::move(undo));
    }
    forget(at);
}

AgentCore::Requests::iterator AgentCore::forget(Requests::iterator at) {
    if (auto const found = applications_.find(at->second.application);
        found != applications_.end()) {
        --found->second.requests;
        found->second.request_bytes -= at->second.bytes;
    }
    if (!at->second.user.empty()) requests_of_.remove(at->second.user);
    return requests_.erase(at);
}

// What nobody waits for and nobody needs.
void AgentCore::drop(Requests::iterator at) {
    if (CallNumber const call = at->second.call; call != 0) {
        calls_.erase(call);
        ports_.cancel(call);
    }
    forget(at);
}

bool AgentCore::is_given_back(std::uint32_t channel) const {
    return std::any_of(requests_.begin(), requests_.end(), [&](auto const& entry) {
        auto const* deleted = get_if<DeleteChannelRequest>(entry.second.message);
        return entry.second.application == 0 && deleted != nullptr && deleted->channel() == channel;
    });
}

// Deletes what nobody holds any more, however long the controller is away: nobody else would do it.
void AgentCore::give_back(UnaryRequest message, Time not_before) {
    Request request;
    request.op = "giving back";
    request.message = std::move(message);
    request.deadline = Time::max();
    request.again = not_before;
    ask(std::move(request));
}

// What was asked for and may have been made has its whole time again with each controller.
void AgentCore::renew_give_backs() {
    for (auto& [number, request] : requests_) {
        bool const orphan = request.application == 0 && makes(request.message);
        if (orphan) request.deadline = now_ + kGiveBackLimit;
    }
}

}  // namespace mgi::control
