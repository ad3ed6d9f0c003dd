// The mover of a device: a host thread that moves the segments of all channels of that device by copy.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
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

    // `keep` owns the memory that the moves work on; `id` names the channel. `fail` is called with the
    // reason when a step throws, and makes the moves done.
    void add(std::uint64_t id, std::unique_ptr<ChannelMoves> moves, std::shared_ptr<void> keep,
             std::function<void(std::string const&)> fail);
    // When this returns, the mover no longer touches the channel.
    void remove(std::uint64_t id);

private:
    void run();
    [[nodiscard]] bool has_work() const;

    struct Entry {
        std::unique_ptr<ChannelMoves> moves;
        std::shared_ptr<void> keep;
        std::function<void(std::string const&)> fail;
    };
    static bool step(Entry& entry);
    std::mutex mutex_;
    std::condition_variable changed_;
    std::map<std::uint64_t, Entry> entries_;
    bool stop_ = false;
    std::thread thread_;
};

}  // namespace mgi::mover
