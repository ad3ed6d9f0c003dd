#include "control/agent/session.hpp"

#include <algorithm>
#include <utility>

#include "control/state/settings.hpp"
#include "core/log.hpp"

namespace mgi::control {

namespace {

constexpr std::size_t kMostReasons = 64;

// What no waiting cures is tried again all the same, since operators cure it.
bool needs_people(Refused::Why why) {
    return why == Refused::PROTOCOL || why == Refused::BAD_GRAPH || why == Refused::LIMIT;
}

std::string reason_of(Refused const& refused, std::string const& controller) {
    std::string text = "the controller at " + controller + " refused this agent: " + refused.text();
    if (refused.why() == Refused::PROTOCOL) text += "; update the older of the two";
    return text;
}

}  // namespace

ControllerSession::ControllerSession(SessionOptions options, AgentPorts& ports, Owner owner)
    : options_(std::move(options)),
      ports_(ports),
      owner_(std::move(owner)),
      random_(options_.seed),
      pause_(options_.first_pause) {
    sender_.set_protocol(kProtocol);
}

void ControllerSession::send(AgentMessage message) {
    *message.mutable_sender() = sender_;
    ports_.send(message);
}

void ControllerSession::open(Time now) {
    controller_ = leader_ ? *std::exchange(leader_, std::nullopt)
                          : options_.controllers[turn_++ % options_.controllers.size()];
    state_ = State::Registering;
    next_ = now + options_.register_limit;
    ports_.open_session(++number_, controller_);
    AgentMessage message;
    *message.mutable_register_() = owner_.registration();
    send(std::move(message));
}

void ControllerSession::retry(std::string const& why, Time now) {
    bool const was_joined = state_ == State::Joined;
    // Each reason is a warning once in an outage, however many controllers and attempts it has.
    if (warned_.size() >= kMostReasons) warned_.clear();
    bool const is_new = warned_.insert(why).second;
    log::format(is_new ? log::Level::Warn : log::Level::Debug, "agent: {}", why);
    away_ = why;
    ports_.close_session();
    state_ = State::Waiting;
    auto const half = pause_ / 2;
    next_ = now + half + Milliseconds(random_() % std::uint64_t(half.count() + 1));
    // Each controller of the list is asked once before the pause grows.
    if (turn_ % options_.controllers.size() == 0) {
        pause_ = std::min(pause_ * 2, options_.longest_pause);
    }
    if (was_joined) owner_.lost(why);
}

void ControllerSession::register_again(std::string const& why, Time now) {
    if (state_ != State::Joined) return;
    // The same one first: it may know us by another incarnation.
    leader_ = controller_;
    retry(why, now);
}

void ControllerSession::broken(std::uint64_t session, std::string const& why, Time now) {
    if (session != number_ || state_ == State::Waiting) return;
    retry(why, now);
}

void ControllerSession::refused(Refused const& refused, Time now) {
    std::string const why = reason_of(refused, controller_);
    if (refused.why() == Refused::NOT_LEADER && !refused.leader().empty() &&
        refused.leader() != controller_) {
        leader_ = refused.leader();
    } else if (refused.why() == Refused::STALE) {
        leader_ = controller_;
    }
    if (needs_people(refused.why())) pause_ = options_.longest_pause;
    retry(why, now);
}

void ControllerSession::received(std::uint64_t session, ControllerMessage const& message,
                                 Time now) {
    if (session != number_ || state_ == State::Waiting) return;
    if (message.protocol() != kProtocol) {
        Refused other;
        other.set_why(Refused::PROTOCOL);
        other.set_text("it speaks version " + std::to_string(message.protocol()) +
                       " of the protocol, this agent version " + std::to_string(kProtocol));
        return refused(other, now);
    }
    if (message.has_refused()) return refused(message.refused(), now);
    if (state_ == State::Registering) {
        if (!message.has_registered()) {
            return retry("the controller at " + controller_ +
                             " did not answer a registration with one of its own words",
                         now);
        }
        Registered const& registered = message.registered();
        sender_.set_agent(registered.agent());
        sender_.set_incarnation(registered.incarnation());
        sender_.set_epoch(message.epoch());
        heartbeat_ = Milliseconds(std::max(registered.heartbeat_ms(), 1u));
        lease_ms_ = std::max(registered.lease_ms(), 1u);
        state_ = State::Joined;
        pause_ = options_.first_pause;
        away_.clear();
        warned_.clear();
        heard_ = now;
        next_ = now;
        log::info("agent {}: registered at {}, incarnation {}, epoch {}", registered.agent(),
                  controller_, registered.incarnation(), message.epoch());
        return owner_.joined(registered);
    }
    if (message.epoch() != sender_.epoch()) {
        return register_again("the controller at " + controller_ + " speaks for epoch " +
                                  std::to_string(message.epoch()) + ", not " +
                                  std::to_string(sender_.epoch()),
                              now);
    }
    heard_ = now;
    if (!message.has_heartbeat_ack() && !message.has_registered()) owner_.received(message);
}

void ControllerSession::beat(Time now) {
    AgentMessage message;
    Heartbeat& heartbeat = *message.mutable_heartbeat();
    heartbeat.set_sequence(++sequence_);
    heartbeat.set_clock_ms(ports_.wall_ms());
    owner_.heartbeat(heartbeat);
    send(std::move(message));
    next_ = now + heartbeat_;
}

void ControllerSession::tick(Time now) {
    if (now < next_) return;
    switch (state_) {
        case State::Waiting: return open(now);
        case State::Registering:
            return retry("the controller at " + controller_ + " has not answered for " +
                             std::to_string(options_.register_limit.count()) + " ms",
                         now);
        case State::Joined: break;
    }
    // Every heartbeat is answered. A process that was frozen finds no answer, asks once and waits.
    if (now - heard_ > Milliseconds(lease_ms_) && now - next_ < heartbeat_) {
        return retry("the controller at " + controller_ + " has said nothing for " +
                         std::to_string(lease_ms_) + " ms",
                     now);
    }
    beat(now);
}

}  // namespace mgi::control
