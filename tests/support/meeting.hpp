/// \file
/// Processes of this machine that are joined for a test, without a control plane: who starts them holds a meeting,
/// in which they get their numbers, hear what all say, and hand each other a channel's memory.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <mgi/runtime.hpp>

namespace mgi::test {

/// Where a process that was started finds its socket.
inline constexpr int kMeetingSocket = 3;

/// Of who starts them. Throws std::runtime_error.
class Meeting {
public:
    explicit Meeting(std::uint32_t size);
    Meeting(Meeting const&) = delete;
    Meeting& operator=(Meeting const&) = delete;
    /// Kills who still runs.
    ~Meeting();

    /// Starts the next rank: a program and its arguments, with these variables set beside those of this process.
    void start(std::vector<std::string> const& command,
               std::vector<std::pair<std::string, std::string>> const& set = {});
    /// How it has ended: empty for status 0.
    std::string wait(std::uint32_t rank, std::chrono::milliseconds limit);

private:
    struct Member {
        int socket = -1;  // of this side
        int theirs = -1;
        pid_t process = -1;
        bool is_over = false;
    };
    void serve();
    // False when it has gone.
    bool answer(std::uint32_t rank);
    void gather(std::uint32_t rank, std::string const& key, std::uint32_t as, std::uint32_t size,
                std::string said);
    void hand_over(std::string const& part);

    std::vector<Member> members_;
    std::uint32_t started_ = 0;
    int waker_ = -1;
    // Of the serving thread:
    std::uint32_t next_endpoint_ = 1;
    std::uint32_t next_channel_ = 1;
    struct Gathering {
        std::map<std::uint32_t, std::string> said;   // by who says it
        std::map<std::uint32_t, std::uint32_t> who;  // rank, by the same
    };
    std::map<std::string, Gathering> gatherings_;
    std::map<std::string, int> parts_;                           // by channel
    std::map<std::string, std::vector<std::uint32_t>> awaited_;  // who waits for them
    std::jthread thread_;
};

/// The runtime of a process that a meeting has started.
Runtime join_meeting(std::uint32_t rank, std::uint32_t size, RuntimeOptions const& options);

/// How many destinations of other processes this one copies into itself.
std::uint32_t copied_into(Channel const& channel);

/// Stops this process, which goes on so long after.
void stop_for(std::chrono::seconds time);

}  // namespace mgi::test
