#include "control/agent/applications.hpp"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <exception>
#include <utility>
#include <vector>

#include "control/local/words.hpp"
#include "core/log.hpp"

namespace mgi::control {

namespace {

// Of an event of the outer epoll: else it is a user's epoll.
constexpr std::uint64_t kListener = UINT64_MAX;
// Of an epoll event: whether it is about the process, not the socket.
constexpr std::uint64_t kProcess = 1ULL << 63;
constexpr int kAcceptedAtOnce = 16;

void add(int poll, int fd, std::uint32_t events, std::uint64_t data) {
    epoll_event event{};
    event.events = events;
    event.data.u64 = data;
    if (epoll_ctl(poll, EPOLL_CTL_ADD, fd, &event) != 0) {
        throw Error(ErrorCode::OutOfMemory, with_errno("epoll_ctl", errno));
    }
}

// None where the kernel has no pidfds: the socket's end tells, too.
Fd process_of(pid_t pid) {
    return pid > 0 ? Fd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0))) : Fd();
}

Fd spare_descriptor() {
    return Fd(open("/dev/null", O_RDONLY | O_CLOEXEC));
}

}  // namespace

ApplicationServer::ApplicationServer(std::string path, Events events)
    : path_(std::move(path)),
      events_(std::move(events)),
      listener_(listen_for_applications(path_)),
      poll_(epoll_create1(EPOLL_CLOEXEC)),
      spare_(spare_descriptor()) {
    if (!poll_) throw Error(ErrorCode::OutOfMemory, with_errno("an epoll", errno));
    add(poll_.get(), listener_.socket.get(), EPOLLIN, kListener);
}

ApplicationServer::~ApplicationServer() {
    unlink(path_.c_str());
}

ApplicationServer::Peer* ApplicationServer::peer(ApplicationId id) {
    auto const found = peers_.find(id);
    return found == peers_.end() ? nullptr : &found->second;
}

bool ApplicationServer::serve() {
    std::array<epoll_event, 16> events;
    int const ready = epoll_wait(poll_.get(), events.data(), int(events.size()), 0);
    for (int i = 0; i < ready; ++i) {
        std::uint64_t const data = events[std::size_t(i)].data.u64;
        if (data == kListener) {
            accept_some();
        } else {
            serve_user(std::uint32_t(data));
        }
    }
    close_broken();
    return ready > 0;
}

void ApplicationServer::serve_user(std::uint32_t uid) {
    auto const found = users_.find(uid);
    if (found == users_.end()) return;
    std::array<epoll_event, kAtOnce> events;
    int const ready = epoll_wait(found->second.poll.get(), events.data(), kAtOnce, 0);
    for (int i = 0; i < ready; ++i) {
        std::uint64_t const data = events[std::size_t(i)].data.u64;
        ApplicationId const id = data & ~kProcess;
        Peer* const at = peer(id);
        if (at == nullptr || !at->broken.empty()) continue;
        if ((data & kProcess) != 0) {
            // What it said before its end still counts.
            read(id, *at);
            if (at->broken.empty()) at->broken = "its process has ended";
            continue;
        }
        if ((events[std::size_t(i)].events & EPOLLOUT) != 0) write(id, *at);
        if ((events[std::size_t(i)].events & ~std::uint32_t(EPOLLOUT)) != 0) read(id, *at);
    }
}

ApplicationServer::User& ApplicationServer::user(std::uint32_t uid) {
    auto const found = users_.find(uid);
    if (found != users_.end()) return found->second;
    Fd poll(epoll_create1(EPOLL_CLOEXEC));
    if (!poll) throw Error(ErrorCode::OutOfMemory, with_errno("an epoll", errno));
    add(poll_.get(), poll.get(), EPOLLIN, uid);
    return users_.emplace(uid, User{std::move(poll)}).first->second;
}

void ApplicationServer::accept_some() {
    for (int i = 0; i < kAcceptedAtOnce; ++i) {
        Fd fd(accept4(listener_.socket.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
        if (!fd && (errno == EMFILE || errno == ENFILE)) {
            refuse_one();
            return;
        }
        if (!fd) {
            if (errno != EAGAIN && errno != EWOULDBLOCK && errno != ECONNABORTED) {
                log::warn("agent: {}", with_errno("an application could not be accepted", errno));
            }
            return;
        }
        ucred who{};
        socklen_t size = sizeof(who);
        if (getsockopt(fd.get(), SOL_SOCKET, SO_PEERCRED, &who, &size) != 0) continue;
        ApplicationId const id = next_++;
        try {
            take(id, std::move(fd), who);
        } catch (std::exception const& error) {
            turned_away(error.what());
            auto const of = users_.find(who.uid);
            if (of != users_.end() && of->second.applications == 0) users_.erase(of);
            continue;
        }
        events_.came(id, std::uint32_t(who.pid), who.uid);
    }
}

// All of it or nothing, where it throws.
void ApplicationServer::take(ApplicationId id, Fd fd, ucred const& who) {
    User& of = user(who.uid);
    Fd process = process_of(who.pid);
    add(of.poll.get(), fd.get(), EPOLLIN | EPOLLRDHUP, id);
    if (process) add(of.poll.get(), process.get(), EPOLLIN, id | kProcess);
    peers_.emplace(id, Peer{who.uid,
                            MessageSocket(std::move(fd), kMostAnswerBytes),
                            std::move(process),
                            false,
                            false,
                            {}});
    ++of.applications;
}

void ApplicationServer::turned_away(std::string const& why) {
    refusals_.warn("agent: an application was turned away: " + why + " (" +
                   std::to_string(peers_.size()) + " applications)");
}

// There is no descriptor left for another application: one that is kept for this turns it away, or it
// would wait, and this thread spin.
void ApplicationServer::refuse_one() {
    spare_.reset();
    Fd const refused(accept4(listener_.socket.get(), nullptr, nullptr, SOCK_CLOEXEC));
    turned_away("too many open files");
    spare_ = spare_descriptor();
}

void ApplicationServer::read(ApplicationId id, Peer& peer) {
    try {
        if (!peer.socket.read()) return;
        while (auto const message = peer.socket.next()) {
            // The first one, its hello, names all that it holds, and may be as large as an answer.
            peer.socket.limit(kMostRequestBytes);
            Fd fd = has(*message, "fd") ? peer.socket.take_descriptor() : Fd();
            if (!peer.dismissed) events_.said(id, *message, std::move(fd));
        }
    } catch (Error const& error) {
        if (error.code() == ErrorCode::InvalidArgument && !peer.dismissed) {
            // Where the next message begins is not known any more.
            tell(id, {{"id", 0u}, {"error", error_value(error.code(), error.what())}});
        }
        if (peer.broken.empty()) peer.broken = error.what();
    }
}

void ApplicationServer::write(ApplicationId id, Peer& peer) {
    try {
        peer.socket.write();
        watch(id, peer);
    } catch (Error const& error) {
        if (peer.broken.empty()) peer.broken = error.what();
    }
}

// Asks for room only while something waits for it.
void ApplicationServer::watch(ApplicationId id, Peer& peer) {
    bool const writes = peer.socket.queued() != 0;
    if (writes == peer.writes) return;
    epoll_event event{};
    event.events = std::uint32_t(EPOLLIN) | EPOLLRDHUP | (writes ? std::uint32_t(EPOLLOUT) : 0u);
    event.data.u64 = id;
    epoll_ctl(users_.at(peer.uid).poll.get(), EPOLL_CTL_MOD, peer.socket.fd(), &event);
    peer.writes = writes;
}

void ApplicationServer::tell(ApplicationId id, Json const& message, Fd fd) {
    Peer* const at = peer(id);
    if (at == nullptr || !at->broken.empty() || at->dismissed) return;
    if (at->socket.queued() > kMostQueued) {
        at->broken = "it does not read what it is told";
        return;
    }
    if (fd) {
        at->socket.queue(frame_of(message), std::move(fd));
    } else {
        at->socket.queue(frame_of(message));
    }
    write(id, *at);
}

void ApplicationServer::dismiss(ApplicationId id) {
    Peer* const at = peer(id);
    if (at == nullptr) return;
    // What it was told is on its way, or it does not read.
    at->dismissed = true;
    at->broken = "it was dismissed";
}

void ApplicationServer::close_broken() {
    for (auto at = peers_.begin(); at != peers_.end();) {
        auto const broken = at++;
        if (broken->second.broken.empty()) continue;
        ApplicationId const id = broken->first;
        std::string const why = broken->second.broken;
        bool const dismissed = broken->second.dismissed;
        auto const of = users_.find(broken->second.uid);
        peers_.erase(broken);
        if (--of->second.applications == 0) users_.erase(of);
        if (!dismissed) events_.left(id, why);
    }
}

}  // namespace mgi::control
