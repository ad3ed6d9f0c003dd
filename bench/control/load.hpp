/// \file
/// Agents that only speak: what a controller sees of a thousand servers, made by one process.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "control/net/client.hpp"
#include "control/rpc/client_side.hpp"

namespace mgi::control::bench {

using Clock = std::chrono::steady_clock;

/// Times in microseconds, of many threads.
class Latencies {
public:
    void add(Clock::time_point since) {
        auto const took = std::chrono::duration<double, std::micro>(Clock::now() - since).count();
        std::lock_guard const lock(mutex_);
        taken_.push_back(took);
    }
    /// Sorted; what was taken is forgotten.
    std::vector<double> take();

private:
    std::mutex mutex_;
    std::vector<double> taken_;
};

/// One server of 8 GPUs: registers, sends heartbeats with figures, accepts every plan at once.
class LoadAgent {
public:
    LoadAgent(std::string name, Latencies& beats);

    void start(net::Client& client, std::string const& address,
               std::shared_ptr<Security const> const& security);
    /// False when the session did not come to stand in time.
    bool wait_registered(std::chrono::seconds limit);
    bool create_endpoint();
    void heartbeat();
    /// `done` gets the channel's id, 0 where it was not created.
    void create_channel(std::uint32_t destination, std::function<void(std::uint32_t)> done);
    void delete_channel(std::uint32_t channel, std::function<void(bool)> done);
    void stop();

    [[nodiscard]] std::uint32_t endpoint() const { return endpoint_; }
    [[nodiscard]] std::string const& refused() const { return refused_; }

private:
    void heard(ControllerMessage const& message);
    void over(std::string const& why);
    void say(AgentMessage message);
    CallRequest next_call();
    [[nodiscard]] std::string request_name();

    std::string const name_;
    std::shared_ptr<ClientSide> side_;
    Latencies& beats_;
    Sender sender_;
    std::uint32_t endpoint_ = 0;

    std::mutex mutex_;
    std::condition_variable changed_;
    bool registered_ = false;
    bool over_ = false;
    std::string refused_;
    std::uint64_t sequence_ = 0;
    Clock::time_point beat_at_;
    std::atomic<std::uint64_t> requests_{0};
    std::atomic<std::uint64_t> calls_{0};
};

}  // namespace mgi::control::bench
