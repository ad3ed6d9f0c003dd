#include "mover/mover_thread.hpp"

#include <sys/prctl.h>

#include <algorithm>
#include <new>

#include <mgi/device/atomics.hpp>

namespace mgi::mover {

namespace {

// Rounds without anything to move (some tenths of a second) after which a mover looks but now and then,
// so that channels that nobody uses cost next to nothing.
constexpr std::uint32_t kQuiet = 1500;
constexpr unsigned long kTimerSlackNs = 1000;

}  // namespace

MoverThread::~MoverThread() {
    {
        auto const lock = locked();
        stop_ = true;
    }
    changed_.notify_all();
    others_.wake();
    if (thread_.joinable()) thread_.join();
}

std::unique_lock<std::mutex> MoverThread::locked() {
    wanted_.fetch_add(1, std::memory_order_relaxed);
    std::unique_lock lock(mutex_);
    wanted_.fetch_sub(1, std::memory_order_relaxed);
    return lock;
}

void MoverThread::add(std::uint64_t id, std::unique_ptr<Work> work, std::shared_ptr<void> keep,
                      Fail fail) {
    {
        auto const lock = locked();
        entries_.emplace(id, Entry{std::move(keep), std::move(work), std::move(fail)});
        if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
    }
    changed_.notify_all();
}

void MoverThread::remove(std::uint64_t id) {
    std::multimap<std::uint64_t, Entry>
        gone;  // dies behind the lock: may be a channel's last owner
    auto const lock = locked();
    for (auto at = entries_.find(id); at != entries_.end(); at = entries_.find(id)) {
        gone.insert(entries_.extract(at));
    }
}

bool MoverThread::has_work() const {
    return std::any_of(entries_.begin(), entries_.end(),
                       [](auto const& entry) { return !entry.second.work->done(); });
}

bool MoverThread::step(Entry& entry) {
    try {
        return entry.work->step();
    } catch (std::bad_alloc const& error) {
        entry.fail(ErrorCode::OutOfMemory, error.what());
        return false;
    } catch (std::exception const& error) {
        entry.fail(ErrorCode::Internal, error.what());
        return false;
    }
}

bool MoverThread::step_all() {
    bool moved = false;
    for (auto& [id, entry] : entries_) moved |= step(entry);
    return moved;
}

bool MoverThread::drive() noexcept {
    if (wanted_.load(std::memory_order_relaxed) != 0) return false;
    std::unique_lock const lock(mutex_, std::try_to_lock);
    if (!lock || stop_) return false;
    others_.note();
    return step_all();
}

void MoverThread::run() {
    // Naps end when they are to: the usual 50 us of grace are longer than a copy to a GPU takes.
    (void)prctl(PR_SET_TIMERSLACK, kTimerSlackNs, 0, 0, 0);
    std::uint32_t idle = 0;
    while (true) {
        while (others_.works()) others_.rest();
        others_.end();
        {
            auto lock = locked();
            changed_.wait(lock, [&] { return stop_ || has_work(); });
            if (stop_) return;
            idle = step_all() ? 0 : idle + 1;
        }
        if (idle != 0) device::backoff(idle < kQuiet ? idle : device::kRest);
    }
}

}  // namespace mgi::mover
