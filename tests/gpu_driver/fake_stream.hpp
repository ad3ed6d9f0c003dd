// What was asked of a stream of the fake driver, in its order.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace mgi::fake {

struct When {
    enum Kind : std::uint8_t { AtOnce, Late, Waited, Threads } kind = AtOnce;
    std::uint32_t polls = 0;
};

class Work {
public:
    explicit Work(When when) : when_(when) {
        if (when_.kind == When::Threads) thread_ = std::thread([this] { run(); });
    }
    ~Work() {
        drain();
        {
            std::lock_guard const lock(mutex_);
            ending_ = true;
        }
        changed_.notify_all();
        if (thread_.joinable()) thread_.join();
    }

    // Its ticket: done() tells when it is done.
    std::uint64_t add(std::function<void()> task) {
        std::unique_lock lock(mutex_);
        if (tasks_.empty()) polls_ = 0;
        tasks_.push_back(std::move(task));
        std::uint64_t const ticket = ++asked_;
        if (when_.kind == When::AtOnce) run_all(lock);
        changed_.notify_all();
        return ticket;
    }

    std::uint64_t last() {
        std::lock_guard const lock(mutex_);
        return asked_;
    }

    // A poll: late work may be done by it.
    bool done(std::uint64_t ticket) {
        std::unique_lock lock(mutex_);
        if (done_ < ticket && when_.kind == When::Late && ++polls_ >= when_.polls) run_all(lock);
        return done_ >= ticket;
    }

    void drain() { wait(last()); }
    void wait(std::uint64_t ticket) {
        std::unique_lock lock(mutex_);
        if (when_.kind != When::Threads) run_all(lock);
        changed_.wait(lock, [&] { return done_ >= ticket; });
    }

private:
    void run_all(std::unique_lock<std::mutex>& lock) {
        // Whoever runs already goes on with what is added meanwhile, also by a task itself.
        while (!running_ && !tasks_.empty()) {
            auto const task = std::move(tasks_.front());
            tasks_.pop_front();
            running_ = true;
            lock.unlock();
            task();
            lock.lock();
            running_ = false;
            ++done_;
            changed_.notify_all();
        }
    }

    void run() {
        std::unique_lock lock(mutex_);
        while (!ending_) {
            run_all(lock);
            changed_.wait(lock, [&] { return ending_ || !tasks_.empty(); });
        }
    }

    When when_;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<std::function<void()>> tasks_;
    std::uint64_t asked_ = 0;
    std::uint64_t done_ = 0;
    std::uint32_t polls_ = 0;
    bool running_ = false;
    bool ending_ = false;
    std::thread thread_;
};

}  // namespace mgi::fake
