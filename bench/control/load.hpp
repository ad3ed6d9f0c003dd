/// \file
/// Agents that only speak: what a controller sees of a thousand servers, made by one process.
#pragma once

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "control/proto/control.grpc.pb.h"

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
class LoadAgent final : public grpc::ClientBidiReactor<AgentMessage, ControllerMessage> {
public:
    LoadAgent(std::string name, std::shared_ptr<grpc::Channel> const& channel, Latencies& beats);

    void start();
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
    void OnReadDone(bool ok) override;
    void OnWriteDone(bool ok) override;
    void OnDone(grpc::Status const& status) override;
    void say(AgentMessage message);
    void write_next();
    [[nodiscard]] std::string request_name();

    std::string const name_;
    std::unique_ptr<Control::Stub> const stub_;
    Latencies& beats_;
    grpc::ClientContext context_;
    ControllerMessage read_;
    Sender sender_;
    std::uint32_t endpoint_ = 0;

    std::mutex mutex_;
    std::condition_variable changed_;
    bool registered_ = false;
    bool over_ = false;
    std::string refused_;
    std::deque<AgentMessage> queue_;
    bool writing_ = false;
    AgentMessage written_;
    std::uint64_t sequence_ = 0;
    Clock::time_point beat_at_;
    std::atomic<std::uint64_t> requests_{0};
};

}  // namespace mgi::control::bench
