#include "mover/mover_thread.hpp"

#include <algorithm>
#include <new>

#include <mgi/device/atomics.hpp>

namespace mgi::mover {

MoverThread::~MoverThread() {
    {
        std::lock_guard const lock(mutex_);
        stop_ = true;
    }
    changed_.notify_all();
    if (thread_.joinable()) thread_.join();
}

void MoverThread::add(std::uint64_t id, std::unique_ptr<ChannelMoves> moves,
                      std::shared_ptr<void> keep, Fail fail) {
    {
        std::lock_guard const lock(mutex_);
        entries_.insert_or_assign(id, Entry{std::move(moves), std::move(keep), std::move(fail)});
        if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
    }
    changed_.notify_all();
}

void MoverThread::remove(std::uint64_t id) {
    Entry gone;  // dies behind the lock: it may be the last owner of a channel
    std::lock_guard const lock(mutex_);
    auto const at = entries_.find(id);
    if (at == entries_.end()) return;
    gone = std::move(at->second);
    entries_.erase(at);
}

bool MoverThread::has_work() const {
    return std::any_of(entries_.begin(), entries_.end(),
                       [](auto const& entry) { return !entry.second.moves->done(); });
}

bool MoverThread::step(Entry& entry) {
    try {
        return entry.moves->step();
    } catch (std::bad_alloc const& error) {
        entry.fail(ErrorCode::OutOfMemory, error.what());
        return false;
    } catch (std::exception const& error) {
        entry.fail(ErrorCode::Internal, error.what());
        return false;
    }
}

void MoverThread::run() {
    std::uint32_t idle = 0;
    while (true) {
        {
            std::unique_lock lock(mutex_);
            changed_.wait(lock, [&] { return stop_ || has_work(); });
            if (stop_) return;
            bool moved = false;
            for (auto& [id, entry] : entries_) moved |= step(entry);
            idle = moved ? 0 : idle + 1;
        }
        if (idle != 0) device::backoff(idle);
    }
}

}  // namespace mgi::mover
