/// \file
/// An agent in a thread, over its own sockets, and a controller in the same process.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include <mgi/cluster.hpp>

#include "control/agent/agent.hpp"
#include "control/controller/service.hpp"
#include "control/controller/state_file.hpp"
#include "support/temporary_folder.hpp"

namespace mgi::control::test {

using mgi::test::TemporaryFolder;

class SmallPlans final : public ChannelPlans {
public:
    void learn(LearnServer const&) override {}
    void learn(LearnLink const&) override {}
    void forget(std::uint32_t) override {}
    PlanMade plan(MakePlan const& request) override {
        PlanMade made;
        made.directory = "directory";
        for (auto const* places : {&request.sources, &request.destinations}) {
            for (Place const& place : *places) made.tables[place.agent] = "table";
        }
        return made;
    }
};

/// One life of a controller.
class Controller {
public:
    Controller(std::string const& state, std::string const& address)
        : storage_(state), security_(SecurityOptions{}), service_(security_, address) {
        Settings settings;
        settings.heartbeat_ms = 100;
        settings.lease_ms = 2000;  // a sanitized build on a busy machine keeps it
        settings.grace_ms = 20'000;
        service_.lead(
            std::make_shared<Engine>(settings, storage_, std::make_unique<SmallPlans>(), service_));
        server_ = service_.serve(address);
    }
    Controller(Controller const&) = delete;
    Controller& operator=(Controller const&) = delete;
    ~Controller() {
        service_.retire();
        server_.reset();
    }
    [[nodiscard]] std::string address() const {
        return "127.0.0.1:" + std::to_string(server_->port());
    }
    [[nodiscard]] Snapshot snapshot() const { return *service_.snapshot(); }

private:
    StateFile storage_;
    Security security_;
    ControlService service_;
    std::unique_ptr<net::Server> server_;
};

inline topology::Infrastructure small_server() {
    topology::GraphBuilder builder;
    auto const cpu = builder.add(VertexKind::Cpu, "cpu0", 0);
    auto const gpu = builder.add(VertexKind::Gpu, "gpu0", 0);
    builder.hang(gpu, cpu, 24, "pcie");
    return std::move(builder).finish(1);
}

class AgentProcess : public ::testing::Test {
protected:
    AgentProcess()
        : controller_(std::make_unique<Controller>(folder_.file("state"), "127.0.0.1:0")),
          address_(controller_->address()) {}
    ~AgentProcess() override { stop(); }

    void start() {
        AgentOptions options;
        options.name = "node1";
        options.controllers = {address_};
        options.socket = folder_.file("agent.sock");
        options.graph = small_server();
        agent_ = std::make_unique<Agent>(std::move(options));
        thread_ = std::thread([this] { agent_->run(); });
    }
    void stop() {
        if (!thread_.joinable()) return;
        agent_->stop();
        thread_.join();
        agent_ = nullptr;
    }
    ClusterOptions client() const {
        ClusterOptions options;
        options.agent = folder_.file("agent.sock");
        options.name = "test";
        options.timeout = std::chrono::milliseconds(30'000);
        return options;
    }
    static ClusterChannelSpec flow(ClusterEndpoint const& from, ClusterEndpoint const& to) {
        ClusterChannelSpec spec;
        spec.name = "flow";
        spec.sources = {from.id};
        spec.destinations = {to.id};
        return spec;
    }
    /// A connection that may say anything; waits where the agent has too many to accept.
    Fd raw() const {
        for (;;) {
            try {
                return connect_to_agent(folder_.file("agent.sock"));
            } catch (Error const& error) {
                if (error.code() != ErrorCode::Timeout) throw;
                std::this_thread::sleep_for(std::chrono::milliseconds(1));
            }
        }
    }
    /// Everything until the agent closes it.
    static std::string rest(Fd const& fd) {
        std::string all;
        char buffer[4096];
        for (;;) {
            pollfd polled{fd.get(), POLLIN, 0};
            if (poll(&polled, 1, 30'000) <= 0) return all + " (and then nothing for long)";
            ssize_t const got = ::read(fd.get(), buffer, sizeof(buffer));
            if (got <= 0) return all;
            all.append(buffer, std::size_t(got));
        }
    }
    static void say(Fd const& fd, std::string const& bytes) {
        for (std::size_t sent = 0; sent < bytes.size();) {
            pollfd polled{fd.get(), POLLOUT, 0};
            if (poll(&polled, 1, 30'000) <= 0) return;
            ssize_t const now = ::send(fd.get(), bytes.data() + sent, bytes.size() - sent,
                                       MSG_NOSIGNAL | MSG_DONTWAIT);
            if (now < 0) return;
            sent += std::size_t(now);
        }
    }
    bool eventually(std::function<bool()> const& holds) {
        auto const end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
        while (!holds()) {
            if (std::chrono::steady_clock::now() > end) return false;
            std::this_thread::sleep_for(std::chrono::milliseconds(5));
        }
        return true;
    }

    TemporaryFolder folder_;
    std::unique_ptr<Controller> controller_;
    std::string address_;
    std::unique_ptr<Agent> agent_;
    std::thread thread_;
};

}  // namespace mgi::control::test
