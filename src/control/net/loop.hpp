/// \file
/// A thread that waits for descriptors, deadlines and other threads' words.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "control/local/socket.hpp"

namespace mgi::control::net {

class Loop : public std::enable_shared_from_this<Loop> {
public:
    using Clock = std::chrono::steady_clock;
    using Time = Clock::time_point;
    static constexpr Time kNever = Time::max();

    /// What the loop watches. Its functions are called by the loop's thread alone, and catch what they
    /// may throw.
    class Source {
    public:
        Source() = default;
        Source(Source const&) = delete;
        Source& operator=(Source const&) = delete;
        virtual ~Source() = default;

        virtual void ready(std::uint32_t events) = 0;  ///< of epoll
        virtual void due() {}                          ///< its deadline passed
        virtual void poked() {}                        ///< after `poke`
        /// The loop ends: no more calls follow.
        virtual void stopped() {}
        /// Comes after all others that are ready: a listener, so that those who came first are heard.
        [[nodiscard]] virtual bool waits_for_others() const { return false; }

    private:
        friend class Loop;
        std::uint64_t token_ = 0;  ///< 0: not watched
        int fd_ = -1;
        Time due_ = kNever;
    };

    /// Error(OutOfMemory) where the system has no descriptors for it.
    static std::shared_ptr<Loop> make();
    ~Loop();
    Loop(Loop const&) = delete;
    Loop& operator=(Loop const&) = delete;

    /// Ends the thread, after `stopped` of all sources. Not from the loop's thread.
    void stop();
    /// Runs a task on the loop's thread; false where the loop has ended. Thread-safe.
    bool post(std::function<void()> task);
    /// Has `poked` of a source called. Thread-safe.
    void poke(std::shared_ptr<Source> source);
    [[nodiscard]] bool here() const { return std::this_thread::get_id() == thread_.get_id(); }

    // The rest is for the loop's thread.

    /// Watches a descriptor and holds its source until `forget`. Error(OutOfMemory) if it cannot.
    void watch(std::shared_ptr<Source> const& source, int fd, std::uint32_t events);
    /// Holds a source that has a deadline alone, until `forget`.
    void wait(std::shared_ptr<Source> const& source, Time due);
    void change(Source& source, std::uint32_t events);
    /// Its descriptor may be closed, and its deadline is no more.
    void forget(Source& source);
    void set_due(Source& source, Time due);
    /// Space to read into; what is in it is nobody's after the call.
    [[nodiscard]] std::array<char, 1 << 16>& space() { return *space_; }
    [[nodiscard]] std::array<char, 1 << 16>& second_space() { return *second_space_; }

private:
    Loop();
    void run();
    void serve_inbox();
    [[nodiscard]] int time_left() const;
    std::shared_ptr<Source> find(std::uint64_t token) const;

    Fd epoll_;
    Waker waker_;
    std::unique_ptr<std::array<char, 1 << 16>> space_;
    std::unique_ptr<std::array<char, 1 << 16>> second_space_;
    std::uint64_t next_token_ = 1;
    std::unordered_map<std::uint64_t, std::shared_ptr<Source>> sources_;
    std::set<std::pair<Time, std::uint64_t>> deadlines_;

    std::mutex mutex_;
    bool stopping_ = false;
    std::vector<std::function<void()>> tasks_;
    std::vector<std::shared_ptr<Source>> poked_;
    std::thread thread_;
};

}  // namespace mgi::control::net
