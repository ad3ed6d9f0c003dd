#include "support/meeting.hpp"

#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <memory>
#include <mutex>
#include <stdexcept>

#include "runtime/channel_impl.hpp"
#include "runtime/runtime_impl.hpp"

namespace mgi::test {

namespace {

// What is said at once, in one packet.
constexpr std::size_t kMostBytes = 128 << 10;
constexpr std::chrono::seconds kMeetingPatience{30};

// With a descriptor, or without. False: nobody is there, or nothing came in time.
bool say(int socket, std::string const& words, int descriptor = -1) {
    iovec piece{const_cast<char*>(words.data()), words.size()};
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> room{};
    msghdr message{};
    message.msg_iov = &piece;
    message.msg_iovlen = 1;
    if (descriptor >= 0) {
        message.msg_control = room.data();
        message.msg_controllen = room.size();
        cmsghdr* const control = CMSG_FIRSTHDR(&message);
        control->cmsg_level = SOL_SOCKET;
        control->cmsg_type = SCM_RIGHTS;
        control->cmsg_len = CMSG_LEN(sizeof(int));
        std::memcpy(CMSG_DATA(control), &descriptor, sizeof(int));
    }
    return sendmsg(socket, &message, MSG_NOSIGNAL) == ssize_t(words.size());
}

struct Heard {
    std::string words;
    int descriptor = -1;
};

std::optional<Heard> hear(int socket) {
    Heard heard;
    heard.words.resize(kMostBytes);
    iovec piece{heard.words.data(), heard.words.size()};
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> room{};
    msghdr message{};
    message.msg_iov = &piece;
    message.msg_iovlen = 1;
    message.msg_control = room.data();
    message.msg_controllen = room.size();
    ssize_t const bytes = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
    if (bytes <= 0 || (message.msg_flags & MSG_TRUNC) != 0) return std::nullopt;
    heard.words.resize(std::size_t(bytes));
    if (cmsghdr const* const control = CMSG_FIRSTHDR(&message)) {
        std::memcpy(&heard.descriptor, CMSG_DATA(control), sizeof(int));
    }
    return heard;
}

// The first line, which is taken off.
std::string line_of(std::string& words) {
    std::size_t const end = words.find('\n');
    if (end == std::string::npos) throw std::runtime_error("a meeting heard '" + words + "'");
    std::string line = words.substr(0, end);
    words.erase(0, end + 1);
    return line;
}

std::uint32_t number_of(std::string& words) {
    return std::uint32_t(std::stoul(line_of(words)));
}

// Of a member: each call is a question to the meeting.
class MeetingCoordinator final : public Coordinator {
public:
    MeetingCoordinator(std::uint32_t rank, std::uint32_t size) {
        job_.name = "meeting";
        job_.rank = job_.local_rank = rank;
        job_.size = job_.local_size = size;
        job_.server = "here";
        timeval const limit{kMeetingPatience.count(), 0};
        (void)setsockopt(kMeetingSocket, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    }

    std::uint32_t create_endpoint(Device const&) override {
        std::string words = ask("endpoint\n").words;
        return number_of(words);
    }
    void delete_endpoint(std::uint32_t) override {}
    std::uint32_t create_channel(ChannelSpec const&) override {
        std::string words = ask("channel\n").words;
        return number_of(words);
    }
    void check_channel(std::uint32_t) const override {}
    void delete_channel(std::uint32_t) noexcept override {}
    void leave_channel(std::uint32_t) noexcept override {}
    void put_part(std::uint32_t id, int descriptor) override {
        (void)ask("put\n" + std::to_string(id) + '\n', descriptor);
    }
    int get_part(std::uint32_t id) override {
        return ask("get\n" + std::to_string(id) + '\n').descriptor;
    }
    int share_board(int) override { throw Error(ErrorCode::Refused, "a meeting has no board"); }
    [[nodiscard]] Job job() const override { return job_; }
    [[nodiscard]] std::string server() const override { return job_.server; }
    std::vector<std::string> gather(ClusterGather const& said) override {
        std::string words = ask("gather\n" + said.key + '\n' + std::to_string(said.rank) + '\n' +
                                std::to_string(said.size) + '\n' + said.data)
                                .words;
        std::vector<std::string> all;
        while (all.size() < said.size) {
            std::uint32_t const bytes = number_of(words);
            all.push_back(words.substr(0, bytes));
            words.erase(0, bytes);
        }
        return all;
    }
    [[nodiscard]] std::string elsewhere() const override { return "or somebody's at no meeting"; }
    [[nodiscard]] bool may_wait() const override { return true; }
    void interrupt() noexcept override {}

private:
    Heard ask(std::string const& words, int descriptor = -1) {
        std::lock_guard const lock(mutex_);
        if (say(kMeetingSocket, words, descriptor)) {
            if (auto heard = hear(kMeetingSocket)) return *std::move(heard);
        }
        throw Error(ErrorCode::Timeout,
                    "a meeting has not answered to " + words.substr(0, words.find('\n')));
    }

    Job job_;
    std::mutex mutex_;
};

}  // namespace

Meeting::Meeting(std::uint32_t size) : waker_(eventfd(0, EFD_CLOEXEC)) {
    for (std::uint32_t rank = 0; rank < size; ++rank) {
        std::array<int, 2> ends{};
        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) {
            throw std::runtime_error("no sockets for a meeting");
        }
        members_.push_back({ends[0], ends[1]});
    }
    thread_ = std::jthread([this] { serve(); });
}

Meeting::~Meeting() {
    for (Member& member : members_) {
        if (member.process <= 0 || member.is_over) continue;
        (void)kill(member.process, SIGKILL);
        (void)waitpid(member.process, nullptr, 0);
    }
    std::uint64_t const one = 1;
    (void)!write(waker_, &one, sizeof(one));
    thread_.join();
    for (Member& member : members_) {
        close(member.socket);
        if (member.theirs >= 0) close(member.theirs);
    }
    for (auto const& [channel, part] : parts_) close(part);
    close(waker_);
}

void Meeting::start(std::vector<std::string> const& command,
                    std::vector<std::pair<std::string, std::string>> const& set) {
    Member& member = members_.at(started_++);
    std::vector<std::string> words{"env"};
    for (auto const& [name, value] : set) words.push_back(name + '=' + value);
    words.insert(words.end(), command.begin(), command.end());
    std::vector<char*> raw;
    for (std::string& word : words) raw.push_back(word.data());
    raw.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, member.theirs, kMeetingSocket);
    int const refused =
        posix_spawnp(&member.process, raw[0], &actions, nullptr, raw.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    if (refused != 0) throw std::runtime_error("cannot start " + command[0]);
    close(member.theirs);
    member.theirs = -1;
}

std::string Meeting::wait(std::uint32_t rank, std::chrono::milliseconds limit) {
    Member& member = members_.at(rank);
    auto const deadline = std::chrono::steady_clock::now() + limit;
    int status = 0;
    while (waitpid(member.process, &status, WNOHANG) != member.process) {
        if (std::chrono::steady_clock::now() > deadline) return "has not ended in time";
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    member.is_over = true;
    if (WIFSIGNALED(status)) return std::string("ended by ") + strsignal(WTERMSIG(status));
    return WEXITSTATUS(status) == 0 ? "" : "exit status " + std::to_string(WEXITSTATUS(status));
}

void Meeting::serve() {
    std::vector<pollfd> polled;
    for (Member const& member : members_) polled.push_back({member.socket, POLLIN, 0});
    polled.push_back({waker_, POLLIN, 0});
    while (polled.back().revents == 0) {
        if (poll(polled.data(), polled.size(), -1) < 0) continue;
        for (std::uint32_t rank = 0; rank < members_.size(); ++rank) {
            if (polled[rank].revents != 0 && !answer(rank)) polled[rank].fd = -1;
        }
    }
}

bool Meeting::answer(std::uint32_t rank) {
    auto heard = hear(members_[rank].socket);
    if (!heard) return false;
    std::string& words = heard->words;
    std::string const what = line_of(words);
    if (what == "endpoint") {
        (void)say(members_[rank].socket, std::to_string(next_endpoint_++) + '\n');
    } else if (what == "channel") {
        (void)say(members_[rank].socket, std::to_string(next_channel_++) + '\n');
    } else if (what == "gather") {
        std::string const key = line_of(words);
        std::uint32_t const as = number_of(words);
        std::uint32_t const size = number_of(words);
        gather(rank, key, as, size, std::move(words));
    } else if (what == "put") {
        std::string const channel = line_of(words);
        auto const [at, is_new] = parts_.try_emplace(channel, heard->descriptor);
        if (!is_new) close(std::exchange(at->second, heard->descriptor));
        (void)say(members_[rank].socket, "\n");
        hand_over(channel);
    } else if (what == "get") {
        std::string const channel = line_of(words);
        awaited_[channel].push_back(rank);
        hand_over(channel);
    }
    return true;
}

void Meeting::gather(std::uint32_t rank, std::string const& key, std::uint32_t as,
                     std::uint32_t size, std::string said) {
    Gathering& gathering = gatherings_[key];
    gathering.said[as] = std::move(said);
    gathering.who[as] = rank;
    if (gathering.said.size() < size) return;
    std::string all;
    for (auto const& [number, words] : gathering.said) {
        all += std::to_string(words.size()) + '\n' + words;
    }
    for (auto const& [number, who] : gathering.who) (void)say(members_[who].socket, all);
    gatherings_.erase(key);
}

void Meeting::hand_over(std::string const& part) {
    auto const at = parts_.find(part);
    if (at == parts_.end()) return;
    for (std::uint32_t const rank : awaited_[part]) {
        (void)say(members_[rank].socket, "\n", at->second);
    }
    awaited_.erase(part);
}

Runtime join_meeting(std::uint32_t rank, std::uint32_t size, RuntimeOptions const& options) {
    return Runtime::Impl::joined(options, std::make_unique<MeetingCoordinator>(rank, size));
}

std::uint32_t copied_into(Channel const& channel) {
    if (!channel.impl()->shared()) return 0;
    PartMembers const& members = channel.impl()->part()->members();
    std::uint32_t count = 0;
    for (std::uint32_t d = 0; d < members.destination_member.size(); ++d) {
        if (members.writes_into(members.me, d)) ++count;
    }
    return count;
}

void stop_for(std::chrono::seconds time) {
    pid_t const me = getpid();
    if (fork() == 0) {
        sleep(static_cast<unsigned>(time.count()));
        kill(me, SIGCONT);
        _exit(0);
    }
    raise(SIGSTOP);
}

}  // namespace mgi::test
