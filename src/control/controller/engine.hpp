/// \file
/// Runs the cluster's state machine: one lock around it, a clock, a thread that plans, one that
/// reserves ids, and effects that leave in the order in which they arose.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "control/controller/plans.hpp"
#include "control/controller/storage.hpp"
#include "control/controller/worker.hpp"
#include "control/state/cluster.hpp"

namespace mgi::control {

/// Where messages and answers go. Called by any thread, by one at a time; must not block.
class Outlet {
public:
    virtual ~Outlet() = default;
    virtual void carry_out(Send const& send) = 0;
    virtual void carry_out(Close const& close) = 0;
    virtual void carry_out(Answer const& answer) = 0;
};

/// One life of a controller, or one time that it leads. Thread-safe.
class Engine {
public:
    /// Reserves the first ids. Throws what `storage` throws, and Error(InvalidArgument) for settings
    /// that cannot be. Storage and outlet must outlive it.
    Engine(Settings const& settings, Storage& storage, std::unique_ptr<ChannelPlans> plans,
           Outlet& outlet);
    ~Engine() { stop(); }
    Engine(Engine const&) = delete;
    Engine& operator=(Engine const&) = delete;

    /// Ends its threads. Later events have no effect. Not from an outlet's call.
    void stop();

    using Event = std::function<void(Cluster&, Now, Effects&)>;
    /// Applies an event and carries out its effects, or leaves them to the thread that is at it. What
    /// throws ends the program, with a word why: half an event, or an effect that never happened, would
    /// leave agents with another truth than this one, while a new controller learns all from them.
    void apply(Event const& event) noexcept;

    [[nodiscard]] Snapshot snapshot() const;
    [[nodiscard]] std::uint64_t epoch() const { return epoch_; }

private:
    void apply_or_throw(Event const& event);
    void deliver(Effects const& effects);
    void carry_out(Send const& send) { outlet_.carry_out(send); }
    void carry_out(Close const& close) { outlet_.carry_out(close); }
    void carry_out(Answer const& answer) { outlet_.carry_out(answer); }
    void carry_out(Reserve const& reserve);
    void carry_out(LearnServer const& server);
    void carry_out(LearnLink const& link);
    void carry_out(ForgetServer const& server);
    void carry_out(MakePlan const& plan);
    void watch_time();

    Storage& storage_;
    std::unique_ptr<ChannelPlans> plans_;
    Outlet& outlet_;
    Settings const settings_;
    std::uint64_t const epoch_;

    mutable std::mutex mutex_;
    std::condition_variable stopped_;
    bool stopping_ = false;
    bool delivering_ = false;
    Effects outbox_;
    Cluster cluster_;

    Worker planner_;
    Worker reserver_;
    std::thread clock_;
};

}  // namespace mgi::control
