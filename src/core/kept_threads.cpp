#include "core/kept_threads.hpp"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

namespace mgi {

namespace {

// What a thread that waits for others does at first, since they are soon over, and then.
constexpr unsigned kYields = 10'000;
constexpr auto kNap = std::chrono::microseconds(20);

}  // namespace

struct KeptThreads::State {
    std::mutex mutex;
    std::condition_variable changed;
    std::deque<Work> coming;  // never more than there are threads without work
    std::size_t idle = 0;
    bool over = false;
};

KeptThreads::KeptThreads() : state_(std::make_shared<State>()) {}

KeptThreads::~KeptThreads() {
    {
        std::lock_guard const lock(state_->mutex);
        state_->over = true;
    }
    state_->changed.notify_all();
}

void KeptThreads::run(Work work) {
    {
        std::lock_guard const lock(state_->mutex);
        if (state_->idle > state_->coming.size()) {
            state_->coming.push_back(std::move(work));
            state_->changed.notify_one();
            return;
        }
    }
    std::thread([state = state_, work = std::move(work)]() mutable {
        live(state, std::move(work));
    }).detach();
}

void KeptThreads::run_all(std::vector<std::function<void()>> const& all) {
    std::mutex mutex;
    std::exception_ptr failure;
    std::atomic<std::size_t> left{all.size()};
    auto const run_one = [&](std::function<void()> const& work) noexcept {
        try {
            work();
        } catch (...) {
            std::lock_guard const lock(mutex);
            if (!failure) failure = std::current_exception();
        }
        // release: what it has done, and how it failed. Nothing here is touched behind that.
        left.fetch_sub(1, std::memory_order_release);
    };
    for (std::size_t i = 1; i < all.size(); ++i) {
        try {
            run([&run_one, &work = all[i]] { run_one(work); });
        } catch (std::exception const&) {
            run_one(all[i]);  // no thread could be started
        }
    }
    if (!all.empty()) run_one(all.front());
    for (unsigned round = 0; left.load(std::memory_order_acquire) != 0; ++round) {
        if (round < kYields) {
            std::this_thread::yield();
        } else {
            std::this_thread::sleep_for(kNap);
        }
    }
    if (failure) std::rethrow_exception(failure);
}

void KeptThreads::live(std::shared_ptr<State> const& state, Work work) {
    for (;;) {
        work();
        work = nullptr;  // what it held goes before the thread has none
        std::unique_lock lock(state->mutex);
        ++state->idle;
        state->changed.wait(lock, [&] { return state->over || !state->coming.empty(); });
        --state->idle;
        if (state->coming.empty()) return;
        work = std::move(state->coming.front());
        state->coming.pop_front();
    }
}

}  // namespace mgi
