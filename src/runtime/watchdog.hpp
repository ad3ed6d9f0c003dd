// Sees to it that no wait is for ever: a thread that fails channels in which no row moves any more
// and nobody will make one move (DESIGN section 4, promise 5).
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "runtime/awaited.hpp"
#include "runtime/registry.hpp"

namespace mgi {

class Watchdog {
public:
    // `idle`: what is done at each look while no kernel runs on a GPU, and no launch begins; it must not throw.
    explicit Watchdog(std::shared_ptr<Registry> registry, std::function<void()> idle = {});
    ~Watchdog();
    Watchdog(Watchdog const&) = delete;
    Watchdog& operator=(Watchdog const&) = delete;

private:
    using Clock = std::chrono::steady_clock;
    struct Seen {
        std::uint64_t progress = 0;
        Clock::time_point since;       // no row has moved
        Clock::time_point gone_since;  // and who is awaited has been gone
        struct Heart {
            std::uint64_t beat = 0;
            Clock::time_point since;
        };
        std::vector<Heart> hearts = {};  // of a shared channel's members
    };

    void run();
    void look(Clock::time_point now);
    [[nodiscard]] bool is_idle() const;
    void skip(Clock::duration time);
    static Silent listen(ChannelImpl& channel, Seen& seen, Clock::time_point now);
    [[nodiscard]] std::string report(ChannelImpl& channel, Silent const& silent,
                                     Clock::time_point now) const;
    void look_at(ChannelImpl& channel, Seen& seen, Silent const& silent, Clock::time_point now);

    std::shared_ptr<Registry> registry_;
    std::function<void()> idle_;
    std::map<std::uint32_t, Seen> seen_;
    Clock::time_point last_look_ = Clock::now();
    std::mutex mutex_;
    std::condition_variable wake_;
    bool stop_ = false;
    std::thread thread_;
};

}  // namespace mgi
