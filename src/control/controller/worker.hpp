/// \file
/// A thread that does one task after the other, for what may take long: planning, writing to a disk.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

namespace mgi::control {

class Worker {
public:
    Worker() : thread_([this] { run(); }) {}
    ~Worker() { stop(); }
    Worker(Worker const&) = delete;
    Worker& operator=(Worker const&) = delete;

    /// Tasks must not throw. After `stop` they are dropped. Thread-safe.
    void add(std::function<void()> task) {
        {
            std::lock_guard const lock(mutex_);
            if (stopping_) return;
            tasks_.push_back(std::move(task));
        }
        changed_.notify_one();
    }

    /// Waits for the task at hand and drops the others. Not from a task.
    void stop() {
        {
            std::lock_guard const lock(mutex_);
            stopping_ = true;
            tasks_.clear();
        }
        changed_.notify_one();
        if (thread_.joinable()) thread_.join();
    }

private:
    void run() {
        std::unique_lock lock(mutex_);
        while (true) {
            changed_.wait(lock, [this] { return stopping_ || !tasks_.empty(); });
            if (stopping_) return;
            std::function<void()> task = std::move(tasks_.front());
            tasks_.pop_front();
            lock.unlock();
            task();
            task = nullptr;
            lock.lock();
        }
    }

    std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<std::function<void()>> tasks_;
    bool stopping_ = false;
    std::thread thread_;
};

}  // namespace mgi::control
