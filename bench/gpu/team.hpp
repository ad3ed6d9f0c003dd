/// \file
/// Processes that do something together at the word of a leader, the process that started them. Each is this program again, as
/// a member of a meeting (tests/support/meeting.hpp), and speaks lines with the leader.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "load.hpp"

namespace mgi::test {
class Meeting;
}

namespace mgi::bench {

/// Of the leader.
class Team {
public:
    /// Starts one for each of the load's GPUs; `kind` says what they do.
    Team(std::string const& kind, Load const& load);
    /// Tells them to end, and sees to it.
    ~Team();
    Team(Team const&) = delete;
    Team& operator=(Team const&) = delete;

    void say(std::string const& line);
    /// A line of each, by rank. Throws when one has failed, ended or is late.
    std::vector<std::string> hear();

private:
    struct Member {
        int socket;
        std::string heard;
    };
    std::string line_of(u32 rank);

    std::string const kind_;
    std::unique_ptr<test::Meeting> meeting_;
    std::vector<Member> members_;
};

/// Of a member.
class Leader {
public:
    explicit Leader(int socket) : socket_(socket) {}
    /// The next line; false when it wants no more.
    bool hear(std::string& line);
    void say(std::string const& line);

private:
    int const socket_;
    std::string heard_;
};

/// A member from its start to its end: `words` are those that it was started with. Its exit status.
int run_member(std::vector<std::string> const& words);

// What the kinds do: until the leader wants no more.
void exchange_by_channel(u32 rank, Load const& load, Leader& leader);  // "mgi"
void exchange_by_ucx(u32 rank, Load const& load, Leader& leader);      // "ucx"
void operate(u32 rank, Load const& load, Leader& leader);              // "operators"

}  // namespace mgi::bench
