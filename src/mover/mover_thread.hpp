// The mover of a device: a host thread that works for all channels of that device whose segments move.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>

#include <mgi/error.hpp>

#include "core/stand_in.hpp"
#include "mover/work.hpp"

namespace mgi::mover {

// Starts its thread with the first channel; ends it with itself. Thread-safe.
class MoverThread {
public:
    MoverThread() = default;
    ~MoverThread();
    MoverThread(MoverThread const&) = delete;
    MoverThread& operator=(MoverThread const&) = delete;

    // Called with the reason when a step throws; makes the work done, and throws nothing itself.
    using Fail = std::function<void(ErrorCode, char const* reason)>;
    // `keep` owns the memory that it works on; `id` names the channel. Throws std::system_error when
    // there can be no thread.
    void add(std::uint64_t id, std::unique_ptr<Work> work, std::shared_ptr<void> keep, Fail fail);
    // When this returns, the mover no longer touches the channel.
    void remove(std::uint64_t id);

    // A round of its work on the calling thread, unless another one does it; never waits. The mover's own
    // thread rests while others drive. True if anything moved.
    bool drive() noexcept;

private:
    void run();
    [[nodiscard]] bool has_work() const;

    struct Entry {
        std::shared_ptr<void> keep;  // outlives the work, which may still copy
        std::unique_ptr<Work> work;
        Fail fail;
    };
    static bool step(Entry& entry);
    bool step_all();
    // Of its own thread, and who adds or removes a channel: not kept waiting by who drives again and again.
    [[nodiscard]] std::unique_lock<std::mutex> locked();
    std::mutex mutex_;
    std::atomic<int> wanted_{0};
    StandIn others_;
    std::condition_variable changed_;
    std::multimap<std::uint64_t, Entry> entries_;
    bool stop_ = false;
    std::thread thread_;
};

}  // namespace mgi::mover
