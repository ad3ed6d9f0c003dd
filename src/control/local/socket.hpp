// One end of the application's socket: bytes in and out without waiting.
#pragma once

#include <sys/socket.h>
#include <sys/types.h>

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "control/local/cbor.hpp"

namespace mgi::control {

/// Owns a file descriptor.
class Fd {
public:
    Fd() = default;
    explicit Fd(int fd) : fd_(fd) {}
    Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
    Fd& operator=(Fd&& other) noexcept {
        std::swap(fd_, other.fd_);
        return *this;
    }
    Fd(Fd const&) = delete;
    Fd& operator=(Fd const&) = delete;
    ~Fd() { reset(); }

    [[nodiscard]] int get() const { return fd_; }
    /// The caller's from now on.
    [[nodiscard]] int release() noexcept { return std::exchange(fd_, -1); }
    explicit operator bool() const { return fd_ >= 0; }
    void reset() noexcept;

private:
    int fd_ = -1;
};

/// Another descriptor of the same file. Throws Error(OutOfMemory) where this process has too many.
Fd duplicate(int fd);

/// "text: what the system says about errno".
std::string with_errno(std::string const& text, int error);

/// Wakes a thread that polls.
class Waker {
public:
    Waker();
    [[nodiscard]] int fd() const { return fd_.get(); }
    void wake() noexcept;
    void clear() noexcept;

private:
    Fd fd_;
};

/// Messages over a connected stream socket. A message may bring a file descriptor, and says so by a field
/// `fd: true`. Not thread-safe.
class MessageSocket {
public:
    /// Descriptors that came and were not taken yet; a peer that sends more is no application of ours.
    static constexpr std::size_t kMostDescriptors = 16;

    MessageSocket(Fd fd, std::size_t most) : fd_(std::move(fd)), reader_(most) {}

    [[nodiscard]] int fd() const { return fd_.get(); }
    void queue(std::string_view frame) { out_ += frame; }
    /// `fd` goes along.
    void queue(std::string_view frame, Fd fd) {
        descriptors_out_.emplace_back(before_ + out_.size(), std::move(fd));
        out_ += frame;
    }
    [[nodiscard]] std::size_t queued() const { return out_.size() - sent_; }

    /// Sends what goes now. Throws Error(Closed) that says why the other side is gone.
    void write();
    /// Reads once, at most 64 KiB, so that one peer does not keep the others waiting; false if there was
    /// nothing. Throws Error(Closed) at the end of the stream, InvalidArgument for descriptors that nobody
    /// asked for.
    bool read();
    /// Throws Error(InvalidArgument), as FrameReader does.
    std::optional<Json> next() { return reader_.next(); }
    /// What a message brought that says so; empty if it got lost because this process has too many open.
    /// Throws Error(InvalidArgument) if it has brought none.
    Fd take_descriptor();
    /// Messages that begin from now on have at most so many bytes.
    void limit(std::size_t most) { reader_.limit(most); }

private:
    ssize_t send_some();
    void take_in(msghdr& message);

    Fd fd_;
    FrameReader reader_;
    std::string out_;
    std::size_t sent_ = 0;      // of out_
    std::uint64_t before_ = 0;  // bytes of the stream before out_
    /// By the place in the stream of their messages' first byte.
    std::deque<std::pair<std::uint64_t, Fd>> descriptors_out_;
    std::deque<Fd> descriptors_in_;
};

/// Connects without waiting. Throws Error(NotFound) that says where and what to do.
Fd connect_to_agent(std::string const& path);

/// A socket that listens, and the lock that makes its path this agent's alone.
struct Listener {
    Fd lock;
    Fd socket;
};

/// A non-blocking socket that listens at `path`, whose folder is made if need be; a dead agent's socket
/// there is replaced. `path`.lock beside it stays. Only this user and its group may connect. Throws
/// Error(InvalidArgument) for a path that is too long, Refused where another agent listens or may do so,
/// NotFound for what the system refuses.
Listener listen_for_applications(std::string const& path);

}  // namespace mgi::control
