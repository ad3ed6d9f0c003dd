#include "runtime/gpu_handover.hpp"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <optional>
#include <string_view>

#include <mgi/error.hpp>

namespace mgi {

namespace {

using transport::wire::with_error;

constexpr int kSocket = SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK;
constexpr std::size_t kMostMemories = 64;  // of a process: one for each of its GPUs
constexpr std::size_t kFamily = offsetof(sockaddr_un, sun_path);

[[noreturn]] void refuse(std::string const& what) {
    throw Error(ErrorCode::Refused, with_error("hand over a GPU's memory: " + what, errno));
}

// Abstract names are anybody's to use.
bool is_own_user(int socket) {
    ucred peer{};
    socklen_t bytes = sizeof(peer);
    return getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) == 0 && peer.uid == geteuid();
}

struct Room {
    alignas(cmsghdr) std::array<char, CMSG_SPACE(kMostMemories * sizeof(int))> bytes{};
};

// Takes in what stands in a connection. Nothing: it is none of ours.
std::optional<std::uint32_t> take(int connection, std::vector<Descriptor>& memories) {
    std::uint32_t from = 0;
    iovec piece{&from, sizeof(from)};
    Room room;
    msghdr message{};
    message.msg_iov = &piece;
    message.msg_iovlen = 1;
    message.msg_control = room.bytes.data();
    message.msg_controllen = room.bytes.size();
    ssize_t const bytes = recvmsg(connection, &message, MSG_CMSG_CLOEXEC);
    if (bytes < 0) return std::nullopt;
    for (cmsghdr* at = CMSG_FIRSTHDR(&message); at != nullptr; at = CMSG_NXTHDR(&message, at)) {
        if (at->cmsg_level != SOL_SOCKET || at->cmsg_type != SCM_RIGHTS) continue;
        for (std::size_t i = 0; i < (at->cmsg_len - CMSG_LEN(0)) / sizeof(int); ++i) {
            int number = -1;
            std::memcpy(&number, CMSG_DATA(at) + i * sizeof(int), sizeof(int));
            memories.emplace_back(number);
        }
    }
    if (bytes != ssize_t(sizeof(from)) || (message.msg_flags & MSG_CTRUNC) != 0) {
        return std::nullopt;
    }
    return from;
}

}  // namespace

GpuDoor::GpuDoor() : listener_(socket(AF_UNIX, kSocket, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    // Without a name the kernel finds one.
    if (!listener_ ||
        bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), sizeof(sa_family_t)) != 0 ||
        listen(listener_.get(), SOMAXCONN) != 0) {
        refuse("no socket");
    }
    socklen_t bytes = sizeof(address);
    if (getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &bytes) != 0) {
        refuse("a socket without a name");
    }
    name_.assign(address.sun_path + 1, bytes - kFamily - 1);
}

std::map<std::uint32_t, GpuHandover> GpuDoor::all_that_came() const {
    std::map<std::uint32_t, GpuHandover> all;
    for (;;) {
        Descriptor connection(
            accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
        if (!connection) {
            if (errno == EINTR || errno == ECONNABORTED) continue;
            return all;
        }
        if (!is_own_user(connection.get())) continue;
        std::vector<Descriptor> memories;
        auto const from = take(connection.get(), memories);
        if (!from) continue;
        all[*from] = {std::make_shared<Descriptor const>(std::move(connection)),
                      std::move(memories)};
    }
}

Descriptor hand_over(std::string const& door, std::uint32_t me, std::vector<int> const& memories) {
    Descriptor connection(socket(AF_UNIX, kSocket, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (door.empty() || door.size() >= sizeof(address.sun_path) ||
        memories.size() > kMostMemories) {
        errno = EINVAL;
        refuse("to '" + door + "'");
    }
    std::copy(door.begin(), door.end(), address.sun_path + 1);
    auto const bytes = socklen_t(kFamily + 1 + door.size());
    if (!connection ||
        connect(connection.get(), reinterpret_cast<sockaddr*>(&address), bytes) != 0) {
        refuse("to '" + door + "'");
    }
    if (!is_own_user(connection.get())) {
        errno = EACCES;
        refuse("to another user");
    }
    iovec piece{&me, sizeof(me)};
    Room room;
    msghdr message{};
    message.msg_iov = &piece;
    message.msg_iovlen = 1;
    if (!memories.empty()) {
        std::size_t const all = memories.size() * sizeof(int);
        message.msg_control = room.bytes.data();
        message.msg_controllen = CMSG_SPACE(all);
        cmsghdr* const control = CMSG_FIRSTHDR(&message);
        control->cmsg_level = SOL_SOCKET;
        control->cmsg_type = SCM_RIGHTS;
        control->cmsg_len = CMSG_LEN(all);
        std::memcpy(CMSG_DATA(control), memories.data(), all);
    }
    if (sendmsg(connection.get(), &message, MSG_NOSIGNAL) != ssize_t(sizeof(me))) {
        refuse("to '" + door + "'");
    }
    return connection;
}

void say_over(Descriptor const& connection) noexcept {
    char const word = 1;
    // Where it is lost, the other process hears the end.
    (void)send(connection.get(), &word, 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}

bool is_closed(Descriptor const& connection) noexcept {
    return GpuImporters::hear(connection) == GpuImporters::Heard::End;
}

GpuImporters::Heard GpuImporters::hear(Descriptor const& connection) noexcept {
    char word = 0;
    ssize_t const bytes = recv(connection.get(), &word, 1, MSG_DONTWAIT);
    if (bytes > 0) return Heard::Word;
    bool const waits = bytes < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR);
    return waits ? Heard::Nothing : Heard::End;
}

void GpuImporters::add(Descriptor connection) {
    std::lock_guard const lock(mutex_);
    importers_.push_back({std::move(connection)});
}

gpu::Use GpuImporters::use() noexcept {
    std::lock_guard const lock(mutex_);
    bool on_going = false;
    bool broken = false;
    for (Importer& one : importers_) {
        if (one.heard == Heard::Nothing) one.heard = hear(one.connection);
        on_going = on_going || one.heard == Heard::Nothing;
        broken = broken || one.heard == Heard::End;
    }
    if (on_going) return gpu::Use::OnGoing;
    return broken ? gpu::Use::Broken : gpu::Use::Over;
}

}  // namespace mgi
