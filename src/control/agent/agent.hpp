/// \file
/// The agent's process: one thread that serves applications and controller.
#pragma once

#include <atomic>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "control/agent/applications.hpp"
#include "control/agent/core.hpp"
#include "control/agent/inbox.hpp"
#include "control/agent/link.hpp"
#include "control/agent/nic_poll.hpp"
#include "control/agent/nic_watch.hpp"
#include "control/rpc/security.hpp"
#include "topology/infrastructure.hpp"
#include "topology/machine/local_nics.hpp"

namespace mgi::control {

struct AgentOptions {
    std::string name;                      ///< of this server; empty: the host's
    std::vector<std::string> controllers;  ///< "host:port"
    std::string socket;                    ///< empty: own_socket()
    topology::Infrastructure graph;        ///< of this server
    std::vector<topology::LocalNic> nics;  ///< of the graph, that are watched
    std::filesystem::path sys = "/sys";    ///< where they are
    SecurityOptions security;
    std::int64_t clock_shift_ms = 0;  ///< for tests: how far this server's wall clock is off
};

class Agent final : private AgentPorts {
public:
    /// Listens; throws Error that says what is wrong with an option, or why it cannot.
    explicit Agent(AgentOptions options);
    ~Agent() override;

    /// Serves until `stop`, then takes its leave.
    void run();
    /// From any thread, and from a signal handler.
    void stop() noexcept;

    /// What the agent knows, JSON; from any thread.
    [[nodiscard]] std::string status_json() const;
    [[nodiscard]] std::string const& socket() const { return options_.socket; }

private:
    void open_session(std::uint64_t session, std::string const& controller) override;
    void send(AgentMessage const& message) override { link_->send(message); }
    void close_session() override { link_->close(); }
    void call(CallNumber number, UnaryRequest const& request, Milliseconds limit) override {
        link_->call(number, request, limit);
    }
    void cancel(CallNumber number) override { link_->cancel(number); }
    void tell(ApplicationId application, Json const& message) override {
        applications_->tell(application, message);
    }
    void hand(ApplicationId application, Json const& message, Fd fd) override {
        applications_->tell(application, message, std::move(fd));
    }
    void dismiss(ApplicationId application) override { applications_->dismiss(application); }
    [[nodiscard]] std::int64_t wall_ms() const override;

    void serve_once();
    void publish_status(Time now);
    void watch_nics();
    void nics_read(std::vector<topology::NicState> const& states, Time now);

    AgentOptions options_;
    std::shared_ptr<Inbox> inbox_ = std::make_shared<Inbox>();
    std::atomic<bool> stop_ = false;
    std::unique_ptr<AgentCore> core_;
    std::unique_ptr<ApplicationServer> applications_;
    std::unique_ptr<ControllerLink> link_;
    mutable std::mutex status_mutex_;
    std::string status_;
    Time status_time_{};
    std::unique_ptr<NicWatch> nics_;
    std::unique_ptr<NicPoll> poll_;  ///< the last: its thread ends first
};

/// The graph as the messages have it. Throws Error(InvalidArgument) for one of several servers.
ServerGraph message_of(topology::Infrastructure const& infrastructure);

}  // namespace mgi::control
