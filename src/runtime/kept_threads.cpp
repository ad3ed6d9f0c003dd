#include "runtime/kept_threads.hpp"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>

namespace mgi {

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
