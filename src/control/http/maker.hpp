/// \file
/// Makes what the web side shows, on a thread of its own: the thread that serves connections never
/// waits for the state machine's lock or for a large cluster's text.
#pragma once

#include <array>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "control/http/answer.hpp"
#include "control/net/protocol.hpp"

namespace mgi::control {

/// Where an answer is put for a connection, whose protocol takes it out once it is woken. Thread-safe.
class HttpReply {
public:
    explicit HttpReply(std::shared_ptr<net::Connection> connection)
        : connection_(std::move(connection)) {}

    /// Nothing happens where the connection has ended.
    void give(HttpAnswer answer);
    /// Empty until it was given.
    std::optional<HttpAnswer> take();

private:
    std::shared_ptr<net::Connection> const connection_;
    std::mutex mutex_;
    std::optional<HttpAnswer> answer_;
};

/// Thread-safe.
class AnswerMaker {
public:
    using Clock = std::chrono::steady_clock;
    enum class What : std::uint8_t { Status, Metrics };

    /// The functions are called by the maker's thread alone. What they throw is logged, and answered
    /// with 500.
    AnswerMaker(std::function<std::string()> status, std::function<std::string()> metrics);
    /// Waits for what is being made; what is not yet made stays so.
    ~AnswerMaker();
    AnswerMaker(AnswerMaker const&) = delete;
    AnswerMaker& operator=(AnswerMaker const&) = delete;

    /// Makes it after this call. All who have asked by then get the same.
    void make(What what, std::shared_ptr<HttpReply> reply);
    /// Gives an answer after a while.
    void give_later(std::shared_ptr<HttpReply> reply, HttpAnswer answer, Clock::duration pause);

private:
    using Replies = std::vector<std::shared_ptr<HttpReply>>;
    struct Delayed {
        std::shared_ptr<HttpReply> reply;
        HttpAnswer answer;
    };

    void run();
    [[nodiscard]] HttpAnswer made(What what) const;
    /// With the lock held, which is given up meanwhile.
    bool make_next(std::unique_lock<std::mutex>& lock);
    bool give_due(std::unique_lock<std::mutex>& lock);

    std::array<std::function<std::string()>, 2> const contents_;
    std::mutex mutex_;
    std::condition_variable changed_;
    bool stopping_ = false;
    std::array<Replies, 2> waiting_;
    std::size_t next_ = 0;  // takes turns, so that one kind never waits for the other's crowd
    std::multimap<Clock::time_point, Delayed> delayed_;
    std::thread thread_;
};

}  // namespace mgi::control
