#include "control/local/socket.hpp"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include <mgi/error.hpp>

#include "core/private_files.hpp"

namespace mgi::control {

namespace {

/// A server's processes that all start at once. Not more: who waits stands behind all who came before,
/// also those that have gone; a client that is turned away asks again.
constexpr int kBacklog = 512;

sockaddr_un address_of(std::string const& path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path.size() >= sizeof(address.sun_path)) {
        throw Error(ErrorCode::InvalidArgument,
                    "the agent's socket '" + path + "': a path of at most " +
                        std::to_string(sizeof(address.sun_path) - 1) +
                        " bytes is possible; choose a shorter one with MGI_AGENT or --socket");
    }
    std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
    return address;
}

Fd unix_socket() {
    Fd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (!fd) throw Error(ErrorCode::OutOfMemory, with_errno("a Unix socket", errno));
    return fd;
}

/// 0, or what the system says.
int try_connect(Fd const& fd, sockaddr_un const& address) {
    bool const connected =
        connect(fd.get(), reinterpret_cast<sockaddr const*>(&address), sizeof(address)) == 0;
    return connected ? 0 : errno;
}

/// Two agents that start together would else take each other's socket for a dead one's.
Fd lock_of(std::string const& path) {
    std::string const name = path + ".lock";
    Fd lock(open_own_file(name, O_RDWR | O_CREAT));
    if (!lock) {
        throw Error(ErrorCode::NotFound,
                    with_errno("cannot open " + name, errno) +
                        "; choose a place that this user may write to with --socket");
    }
    if (flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
        throw Error(ErrorCode::Refused, "another agent listens at " + path + " and holds " + name +
                                            "; stop it, or choose another place with --socket");
    }
    return lock;
}

/// Removes a dead agent's socket, and nothing else: only a refused connection says that nobody listens.
void make_room_at(std::string const& path, sockaddr_un const& address) {
    struct stat found{};
    if (lstat(path.c_str(), &found) != 0) return;
    if (!S_ISSOCK(found.st_mode)) {
        throw Error(ErrorCode::Refused,
                    path + " is there and no socket; choose another place with --socket");
    }
    int const error = try_connect(unix_socket(), address);
    if (error == ECONNREFUSED) {
        unlink(path.c_str());
    } else if (error != ENOENT) {
        throw Error(ErrorCode::Refused,
                    (error == 0 ? "another agent listens at " + path
                                : with_errno("an agent may listen at " + path, error)) +
                        "; stop it, or choose another place with --socket");
    }
}

}  // namespace

void Fd::reset() noexcept {
    if (fd_ >= 0) close(std::exchange(fd_, -1));
}

Fd duplicate(int fd) {
    Fd made(fcntl(fd, F_DUPFD_CLOEXEC, 0));
    if (made) return made;
    throw Error(
        errno == EBADF ? ErrorCode::InvalidArgument : ErrorCode::OutOfMemory,
        with_errno("file descriptor " + std::to_string(fd) + " cannot be duplicated", errno));
}

std::string with_errno(std::string const& text, int error) {
    return text + ": " + std::system_category().message(error);
}

Waker::Waker() : fd_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
    if (!fd_) throw Error(ErrorCode::OutOfMemory, with_errno("an eventfd", errno));
}

void Waker::wake() noexcept {
    std::uint64_t const one = 1;
    // A counter that is full wakes as well.
    (void)!::write(fd_.get(), &one, sizeof(one));
}

void Waker::clear() noexcept {
    std::uint64_t count = 0;
    (void)!::read(fd_.get(), &count, sizeof(count));
}

// Sends what goes in one call: at most to the next message that brings a descriptor, whose first byte takes
// it along. What the other side reads in one piece then has one descriptor at most.
ssize_t MessageSocket::send_some() {
    std::uint64_t const at = before_ + sent_;
    bool const brings = !descriptors_out_.empty() && descriptors_out_.front().first == at;
    std::size_t most = queued();
    if (descriptors_out_.size() > (brings ? 1u : 0u)) {
        most = std::min<std::size_t>(most, descriptors_out_[brings ? 1 : 0].first - at);
    }
    iovec bytes{out_.data() + sent_, most};
    msghdr message{};
    message.msg_iov = &bytes;
    message.msg_iovlen = 1;
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
    if (brings) {
        message.msg_control = control.data();
        message.msg_controllen = control.size();
        cmsghdr* const header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(sizeof(int));
        int const fd = descriptors_out_.front().second.get();
        std::memcpy(CMSG_DATA(header), &fd, sizeof(fd));
    }
    ssize_t const sent = sendmsg(fd_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0 && brings) descriptors_out_.pop_front();
    return sent;
}

void MessageSocket::write() {
    while (queued() != 0) {
        ssize_t const sent = send_some();
        if (sent < 0) {
            if (errno == EINTR) continue;
            if (errno == EAGAIN || errno == EWOULDBLOCK) break;
            throw Error(ErrorCode::Closed, with_errno("the connection broke", errno));
        }
        sent_ += static_cast<std::size_t>(sent);
    }
    if (sent_ != out_.size() && sent_ < 1u << 20) return;
    before_ += sent_;
    if (sent_ == out_.size() && out_.capacity() > 1u << 20) {
        out_ = std::string();  // a long answer keeps no room
    } else {
        out_.erase(0, sent_);
    }
    sent_ = 0;
}

void MessageSocket::take_in(msghdr& message) {
    std::size_t came = 0;
    for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr;
         header = CMSG_NXTHDR(&message, header)) {
        if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
        std::size_t const count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (std::size_t i = 0; i < count; ++i, ++came) {
            int fd = -1;
            std::memcpy(&fd, CMSG_DATA(header) + i * sizeof(fd), sizeof(fd));
            descriptors_in_.emplace_back(fd);
        }
    }
    // The system could not open it here. Its place is kept, so that no other message's is taken for it.
    if (came == 0 && (message.msg_flags & MSG_CTRUNC) != 0) descriptors_in_.emplace_back();
    if (came > 1 || descriptors_in_.size() > kMostDescriptors) {
        descriptors_in_.clear();
        throw Error(ErrorCode::InvalidArgument, "file descriptors that no message speaks of");
    }
}

Fd MessageSocket::take_descriptor() {
    if (descriptors_in_.empty()) {
        throw Error(ErrorCode::InvalidArgument,
                    "a message that says it brings a file descriptor (fd), and brings none");
    }
    Fd fd = std::move(descriptors_in_.front());
    descriptors_in_.pop_front();
    return fd;
}

bool MessageSocket::read() {
    // Much only of a message that is large: who says many small ones does not keep others waiting for all of them.
    constexpr std::size_t kSmall = 4u << 10;
    std::array<char, 64u << 10> buffer;
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
    iovec bytes{buffer.data(), reader_.held() >= kSmall ? buffer.size() : kSmall};
    msghdr message{};
    message.msg_iov = &bytes;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    ssize_t const got = recvmsg(fd_.get(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (got > 0) {
        take_in(message);
        reader_.add(buffer.data(), static_cast<std::size_t>(got));
        return true;
    }
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return false;
    if (got < 0) throw Error(ErrorCode::Closed, with_errno("the connection broke", errno));
    throw Error(ErrorCode::Closed,
                reader_.held() == 0 ? std::string("the other side closed the connection")
                                    : "the other side closed the connection " +
                                          std::to_string(reader_.held()) + " bytes into a message");
}

Fd connect_to_agent(std::string const& path) {
    sockaddr_un const address = address_of(path);
    Fd fd = unix_socket();
    int const error = try_connect(fd, address);
    if (error == 0) return fd;
    if (error == EAGAIN) {
        throw Error(ErrorCode::Timeout,
                    "the agent at " + path + " takes no more connections at the moment");
    }
    throw Error(
        ErrorCode::NotFound,
        with_errno("no agent at " + path, error) +
            (error == EACCES ? "; ask for access to the socket"
                             : "; start one with `mgi agent`, or say where it is with MGI_AGENT"));
}

Listener listen_for_applications(std::string const& path) {
    sockaddr_un const address = address_of(path);
    std::string const folder = std::filesystem::path(path).parent_path().string();
    std::string const advice = "choose a place of this user's with --socket";
    make_folder(folder, advice);
    check_folder(folder, advice);
    Fd lock = lock_of(path);
    make_room_at(path, address);
    Fd fd = unix_socket();
    // Bound with rights for nobody else, from the first moment on.
    mode_t const before = umask(0177);
    bool const bound =
        bind(fd.get(), reinterpret_cast<sockaddr const*>(&address), sizeof(address)) == 0;
    int const error = errno;
    umask(before);
    if (!bound || listen(fd.get(), kBacklog) != 0) {
        throw Error(ErrorCode::NotFound,
                    with_errno("cannot listen at " + path, bound ? errno : error) +
                        "; choose a place that this user may write to with --socket");
    }
    chmod(path.c_str(), 0660);
    return {std::move(lock), std::move(fd)};
}

}  // namespace mgi::control
