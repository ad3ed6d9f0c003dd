/// \file
/// A controller that serves on a port of this machine, and agents that speak to it.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "control/controller/plans.hpp"
#include "control/controller/service.hpp"
#include "control/rpc/client_side.hpp"
#include "control/state/rig.hpp"

namespace mgi::control::test {

/// Outlives restarts: the engine before may still be asking while the next one begins.
class MemoryStorage final : public Storage {
public:
    [[nodiscard]] std::uint64_t epoch() const override { return epoch_; }
    IdBlock reserve(IdKind kind, std::uint32_t count) override {
        std::lock_guard const lock(mutex_);
        std::uint32_t& next = next_.at(static_cast<std::size_t>(kind));
        IdBlock const block{next, count};
        next += count;
        return block;
    }
    void begin() { ++epoch_; }

private:
    std::atomic<std::uint64_t> epoch_ = 1;
    std::mutex mutex_;
    std::array<std::uint32_t, kIdKinds> next_{1, 1, 1};
};

class Served {
public:
    explicit Served(Settings settings = {}, SecurityOptions security = {})
        : settings_(settings),
          security_(std::make_shared<Security const>(std::move(security))),
          service_(*security_, "here:1"),
          server_(service_.serve("127.0.0.1:0")) {
        lead();
    }
    ~Served() {
        service_.retire();
        server_.reset();
    }
    void lead() {
        service_.lead(std::make_shared<Engine>(settings_, storage_, make_plans(), service_));
    }
    void restart() {
        storage_.begin();
        lead();
    }
    [[nodiscard]] ControlService& service() { return service_; }
    [[nodiscard]] net::Server const& server() const { return *server_; }
    [[nodiscard]] std::uint16_t port() const { return server_->port(); }
    [[nodiscard]] std::string address() const { return "127.0.0.1:" + std::to_string(port()); }
    [[nodiscard]] std::shared_ptr<Security const> const& security() const { return security_; }

private:
    Settings const settings_;
    std::shared_ptr<Security const> const security_;
    MemoryStorage storage_;
    ControlService service_;
    std::unique_ptr<net::Server> server_;
};

/// How a call ended, and what it brought.
struct Ended {
    Outcome outcome;
    CallAnswer answer;

    [[nodiscard]] bool ok() const { return outcome.code() == Outcome::OK; }
    [[nodiscard]] Outcome::Code code() const { return outcome.code(); }
    [[nodiscard]] std::string const& text() const { return outcome.text(); }
};

/// An agent of one thread: it hears when it is told to.
class WireAgent {
public:
    static constexpr std::chrono::seconds kLong{30};

    WireAgent(Served const& served, std::string name)
        : name_(std::move(name)),
          side_(ClientSide::open(client_, served.address(), served.security(),
                                 {[this](ControllerMessage const& message) {
                                      std::lock_guard const lock(mutex_);
                                      heard_.push_back(message);
                                      changed_.notify_all();
                                  },
                                  [this](Outcome const& why) {
                                      std::lock_guard const lock(mutex_);
                                      over_ = why;
                                      changed_.notify_all();
                                  }})) {
        sender.set_protocol(kProtocol);
    }
    ~WireAgent() { side_->close(); }
    WireAgent(WireAgent const&) = delete;
    WireAgent& operator=(WireAgent const&) = delete;

    void say(AgentMessage message) {
        *message.mutable_sender() = sender;
        side_->say(message);
    }
    /// The next message, empty when the session ended.
    ControllerMessage next() {
        std::unique_lock lock(mutex_);
        changed_.wait_for(lock, kLong, [&] { return !heard_.empty() || over_; });
        if (heard_.empty()) return {};
        ControllerMessage message = std::move(heard_.front());
        heard_.pop_front();
        return message;
    }
    /// The next message of a kind; others before it are passed over. Empty when the session ended.
    ControllerMessage hear(ControllerMessage::MessageCase kind) {
        for (;;) {
            ControllerMessage message = next();
            if (message.message_case() == kind ||
                message.message_case() == ControllerMessage::MESSAGE_NOT_SET) {
                return message;
            }
        }
    }
    /// Why the connection is over; empty if it is not for long.
    std::string over() {
        std::unique_lock lock(mutex_);
        changed_.wait_for(lock, kLong, [&] { return over_.has_value(); });
        return over_ ? over_->text() : "";
    }
    bool join(Register held = {}) {
        AgentMessage message;
        *message.mutable_register_() = std::move(held);
        message.mutable_register_()->set_name(name_);
        message.mutable_register_()->set_instance("instance-" + name_);
        *message.mutable_register_()->mutable_graph() = server_graph();
        say(message);
        ControllerMessage const reply = next();
        if (!reply.has_registered()) return false;
        sender.set_agent(reply.registered().agent());
        sender.set_incarnation(reply.registered().incarnation());
        sender.set_epoch(reply.epoch());
        return true;
    }
    /// Begins a call; its number is `last_call()` then.
    std::future<Ended> begin(CallRequest request, std::chrono::milliseconds limit = kLong) {
        request.set_number(++calls_);
        auto const ended = std::make_shared<std::promise<Ended>>();
        side_->call(request, limit, [ended](Outcome const& outcome, CallAnswer const& answer) {
            ended->set_value({outcome, answer});
        });
        return ended->get_future();
    }
    Ended call(CallRequest const& request, std::chrono::milliseconds limit = kLong) {
        return begin(request, limit).get();
    }
    void cancel_last() { side_->cancel(calls_); }

    std::uint32_t endpoint(std::uint32_t vertex) {
        CallRequest call_request;
        CreateEndpointRequest& request = *call_request.mutable_create_endpoint();
        *request.mutable_sender() = sender;
        request.set_request("endpoint-" + name_ + std::to_string(vertex));
        request.set_vertex(vertex);
        Ended const ended = call(call_request);
        EXPECT_TRUE(ended.ok()) << ended.text();
        return ended.answer.create_endpoint().endpoint();
    }
    void accept(ControllerMessage const& prepare) {
        AgentMessage message;
        message.mutable_plan_ack()->set_channel(prepare.prepare_plan().channel());
        message.mutable_plan_ack()->set_generation(prepare.prepare_plan().generation());
        message.mutable_plan_ack()->set_accepted(true);
        say(message);
    }

    Sender sender;

private:
    std::string const name_;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<ControllerMessage> heard_;
    std::optional<Outcome> over_;
    std::uint64_t calls_ = 0;
    net::Client client_;
    std::shared_ptr<ClientSide> side_;
};

}  // namespace mgi::control::test
