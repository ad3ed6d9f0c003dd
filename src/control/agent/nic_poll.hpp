/// \file
/// A thread that reads NICs several times a second, because a driver may take its time to answer and
/// heartbeats do not wait.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "control/agent/inbox.hpp"
#include "control/agent/ports.hpp"
#include "topology/machine/nic_reader.hpp"

namespace mgi::control {

class NicPoll {
public:
    static constexpr Milliseconds kPeriod{200};
    static constexpr int kRatesEvery = 5;  ///< of so many readings one asks for rates

    /// `take` is called on the thread that serves the inbox.
    using Take = std::function<void(std::vector<topology::NicState> const&, Time)>;

    NicPoll(topology::NicReader reader, std::shared_ptr<Inbox> inbox, Take take);
    NicPoll(NicPoll const&) = delete;
    NicPoll& operator=(NicPoll const&) = delete;
    ~NicPoll();

private:
    void run();

    topology::NicReader reader_;
    std::shared_ptr<Inbox> inbox_;
    Take take_;
    std::mutex mutex_;
    std::condition_variable wakes_;
    bool stops_ = false;
    std::thread thread_;
};

}  // namespace mgi::control
