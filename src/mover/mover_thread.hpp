// The mover of a device: a host thread that moves the segments of all channels of that device by copy.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>

#include "mover/channel_moves.hpp"

namespace mgi::mover {

// Starts its thread with the first channel; ends it with itself. Thread-safe.
class MoverThread {
public:
    MoverThread() = default;
    ~MoverThread();
    MoverThread(MoverThread const&) = delete;
    MoverThread& operator=(MoverThread const&) = delete;

    // Called with the reason when a step throws; makes the moves done, and throws nothing itself.
    using Fail = std::function<void(ErrorCode, char const* reason)>;
    // `keep` owns the memory that the moves work on; `id` names the channel. Throws std::system_error
    // when there can be no thread.
    void add(std::uint64_t id, std::unique_ptr<ChannelMoves> moves, std::shared_ptr<void> keep,
             Fail fail);
    // When this returns, the mover no longer touches the channel.
    void remove(std::uint64_t id);

private:
    void run();
    [[nodiscard]] bool has_work() const;

    struct Entry {
        std::unique_ptr<ChannelMoves> moves;
        std::shared_ptr<void> keep;
        Fail fail;
    };
    static bool step(Entry& entry);
    std::mutex mutex_;
    std::condition_variable changed_;
    std::map<std::uint64_t, Entry> entries_;
    bool stop_ = false;
    std::thread thread_;
};

}  // namespace mgi::mover
