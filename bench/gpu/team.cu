#include "team.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <optional>
#include <string_view>

#include "check.hpp"
#include "support/meeting.hpp"

namespace mgi::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kPatience = std::chrono::seconds(60);
constexpr auto kGrace = std::chrono::seconds(10);
constexpr std::string_view kError = "error ";
constexpr int kFirstSocket = 10;  // a member has the meeting's below

std::string own_path() {
    std::array<char, 4096> path{};
    ssize_t const size = readlink("/proc/self/exe", path.data(), path.size());
    require(size > 0, "no path of this program");
    return {path.data(), std::size_t(size)};
}

/// A line from a socket, and what is behind it stays in `heard`; none where the other side has closed it or says nothing.
std::optional<std::string> line_from(int socket, std::string& heard, Clock::duration patience) {
    auto const deadline = Clock::now() + patience;
    for (;;) {
        if (std::size_t const end = heard.find('\n'); end != std::string::npos) {
            std::string line = heard.substr(0, end);
            heard.erase(0, end + 1);
            return line;
        }
        auto const left =
            std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
        pollfd wanted{socket, POLLIN, 0};
        if (left.count() <= 0 || poll(&wanted, 1, int(left.count())) <= 0) return std::nullopt;
        std::array<char, 4096> piece{};
        ssize_t const got = read(socket, piece.data(), piece.size());
        if (got <= 0) return std::nullopt;
        heard.append(piece.data(), std::size_t(got));
    }
}

/// False where nobody listens.
bool write_line(int socket, std::string const& line) {
    std::string const all = line + '\n';
    for (std::size_t at = 0; at < all.size();) {
        ssize_t const sent = send(socket, all.data() + at, all.size() - at, MSG_NOSIGNAL);
        if (sent <= 0) return false;
        at += std::size_t(sent);
    }
    return true;
}

}  // namespace

Team::Team(std::string const& kind, Load const& load)
    : kind_(kind), meeting_(std::make_unique<test::Meeting>(load.gpus)) {
    for (u32 rank = 0; rank < load.gpus; ++rank) {
        std::array<int, 2> ends{};
        require(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) == 0,
                "no sockets for a team");
        members_.push_back({ends[0], {}});
        int const theirs = fcntl(ends[1], F_DUPFD, kFirstSocket);  // it goes with the program
        close(ends[1]);
        require(theirs >= 0, "no sockets for a team");
        std::vector<std::string> command{own_path(), "--member", kind, std::to_string(theirs),
                                         std::to_string(rank)};
        for (std::string const& word : words_of(load)) command.push_back(word);
        meeting_->start(command);
        close(theirs);
    }
}

Team::~Team() {
    for (Member const& member : members_) close(member.socket);
    // Those who do not end in time the meeting kills.
    auto const deadline = Clock::now() + kGrace;
    for (u32 rank = 0; rank < members_.size(); ++rank) {
        auto const left =
            std::max(Clock::duration(deadline - Clock::now()), Clock::duration::zero());
        (void)meeting_->wait(rank, std::chrono::duration_cast<std::chrono::milliseconds>(left));
    }
}

void Team::say(std::string const& line) {
    for (Member const& member : members_) (void)write_line(member.socket, line);
}

std::vector<std::string> Team::hear() {
    std::vector<std::string> lines;
    for (u32 rank = 0; rank < members_.size(); ++rank) lines.push_back(line_of(rank));
    return lines;
}

std::string Team::line_of(u32 rank) {
    auto const line = line_from(members_[rank].socket, members_[rank].heard, kPatience);
    std::string const who = kind_ + ": process " + std::to_string(rank);
    require(line.has_value(), who + " has ended, or says nothing");
    if (!line->starts_with(kError)) return *line;
    fail(who + ": " + line->substr(kError.size()), std::source_location::current());
}

bool Leader::hear(std::string& line) {
    auto const next = line_from(socket_, heard_, std::chrono::hours(1));
    line = next.value_or("");
    return next.has_value();
}

void Leader::say(std::string const& line) {
    require(write_line(socket_, line), "the process that leads this one has gone");
}

int run_member(std::vector<std::string> const& words) {
    // It may hang where it does not see that its leader has gone.
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (words.size() < 3) return 2;
    Leader leader(std::stoi(words[1]));
    auto const rank = u32(std::stoul(words[2]));
    try {
        Load const load = load_of({words.begin() + 3, words.end()});
        auto* const work = words[0] == "mgi"         ? exchange_by_channel
                           : words[0] == "operators" ? operate
                                                     : exchange_by_ucx;
        work(rank, load, leader);
        return 0;
    } catch (std::exception const& error) {
        std::fprintf(stderr, "process %u: %s\n", rank, error.what());
        try {
            leader.say(std::string(kError) + error.what());
        } catch (std::exception const&) {  // it knows, then
        }
        return 1;
    }
}

}  // namespace mgi::bench
