// Who does a thread's work in its place: it rests as long as they do.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <utility>

namespace mgi {

class StandIn {
public:
    // Some of the work was done. By those who do it.
    void note() { rounds_.fetch_add(1, std::memory_order_relaxed); }
    // There is what only the thread itself does. By anybody.
    void wake() {
        {
            std::lock_guard const lock(mutex_);
            woken_ = true;
        }
        changed_.notify_one();
    }

    // Whether any was done since the thread has begun to rest last, or since its start. By the thread, as
    // what follows.
    [[nodiscard]] bool works() const { return rounds_.load(std::memory_order_relaxed) != seen_; }
    // The longer, the longer others have worked without a pause.
    void rest() {
        seen_ = rounds_.load(std::memory_order_relaxed);
        std::unique_lock lock(mutex_);
        changed_.wait_for(lock, time_, [this] { return std::exchange(woken_, false); });
        time_ = std::min(2 * time_, kLongest);
    }
    // The thread works itself.
    void end() { time_ = kShortest; }

private:
    static constexpr std::chrono::microseconds kShortest{500};
    static constexpr std::chrono::microseconds kLongest{2000};

    std::atomic<std::uint64_t> rounds_{0};
    std::uint64_t seen_ = 0;
    std::chrono::microseconds time_ = kShortest;
    std::mutex mutex_;
    std::condition_variable changed_;
    bool woken_ = false;
};

}  // namespace mgi
