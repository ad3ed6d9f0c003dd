#include "control/agent/nic_poll.hpp"

#include <exception>
#include <utility>

#include "core/log.hpp"

namespace mgi::control {

NicPoll::NicPoll(topology::NicReader reader, std::shared_ptr<Inbox> inbox, Take take)
    : reader_(std::move(reader)),
      inbox_(std::move(inbox)),
      take_(std::move(take)),
      thread_([this] { run(); }) {}

NicPoll::~NicPoll() {
    {
        std::lock_guard const lock(mutex_);
        stops_ = true;
    }
    wakes_.notify_one();
    thread_.join();
}

void NicPoll::run() {
    std::unique_lock lock(mutex_);
    for (int reading = 1; !wakes_.wait_for(lock, kPeriod, [this] { return stops_; }); ++reading) {
        lock.unlock();
        try {
            auto states = reader_.read(reading % kRatesEvery == 0);
            inbox_->post([take = take_, states = std::move(states),
                          now = std::chrono::steady_clock::now()] { take(states, now); });
        } catch (std::exception const& error) {
            log::error("agent: NICs cannot be read: {}", error.what());
        }
        lock.lock();
    }
}

}  // namespace mgi::control
