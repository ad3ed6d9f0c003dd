/// \file
/// Servers, clients and strangers for tests of connections.
#pragma once

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "control/local/socket.hpp"
#include "control/net/client.hpp"
#include "control/net/server.hpp"

namespace mgi::control::net::test {

using namespace std::chrono_literals;

/// For what must happen; a busy machine takes its time.
inline constexpr std::chrono::seconds kLong{30};

/// Admits who says "hello\n" first, and sends back what follows it.
class Echo final : public Protocol {
public:
    void on_open(std::shared_ptr<Connection> connection) override {
        connection_ = std::move(connection);
    }
    void on_bytes(std::string_view bytes) override {
        if (admitted_) return connection_->send(std::string(bytes));
        first_ += bytes;
        std::size_t const line = first_.find('\n');
        if (line == std::string::npos) return;
        if (first_.substr(0, line) != "hello") return connection_->abort("no hello");
        admitted_ = true;
        connection_->admit();
        connection_->send("welcome\n" + first_.substr(line + 1));
    }
    void on_end() override { connection_->close(); }
    void on_close(Ending const&) override { connection_ = nullptr; }

private:
    std::shared_ptr<Connection> connection_;
    std::string first_;
    bool admitted_ = false;
};

/// What a client has heard; thread-safe.
class Heard final : public Protocol {
public:
    void on_open(std::shared_ptr<Connection>) override {
        std::lock_guard const lock(mutex_);
        open_ = true;
        changed_.notify_all();
    }
    void on_bytes(std::string_view bytes) override {
        std::lock_guard const lock(mutex_);
        text_ += bytes;
        changed_.notify_all();
    }
    void on_end() override {
        std::lock_guard const lock(mutex_);
        peer_ended_ = true;
        changed_.notify_all();
    }
    void on_close(Ending const& ending) override {
        std::lock_guard const lock(mutex_);
        ending_ = ending;
        changed_.notify_all();
    }

    std::string text(std::size_t size) {
        return wait([&] { return text_.size() >= size || peer_ended_ || ending_; }), text_;
    }
    bool opened() {
        return wait([&] { return open_ || ending_; }), open_;
    }
    Ending ended() {
        wait([&] { return ending_.has_value(); });
        return ending_.value_or(Ending{Ending::Why::Closed, "(it has not ended)"});
    }
    bool peer_ended() {
        return wait([&] { return peer_ended_; });
    }

private:
    template <class Condition>
    bool wait(Condition&& condition) {
        std::unique_lock lock(mutex_);
        return changed_.wait_for(lock, kLong, condition);
    }

    std::mutex mutex_;
    std::condition_variable changed_;
    bool open_ = false;
    bool peer_ended_ = false;
    std::string text_;
    std::optional<Ending> ending_;
};

/// A socket that does what it likes.
class Stranger {
public:
    explicit Stranger(std::uint16_t port) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
        sockaddr_in to{};
        to.sin_family = AF_INET;
        to.sin_port = htons(port);
        to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        connected_ = ::connect(fd_.get(), reinterpret_cast<sockaddr*>(&to), sizeof to) == 0;
    }
    [[nodiscard]] bool connected() const { return connected_; }
    [[nodiscard]] int fd() const { return fd_.get(); }
    /// False where the other side is gone.
    bool say(std::string_view bytes) const {
        while (!bytes.empty()) {
            ssize_t const sent = send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
            if (sent <= 0) return false;
            bytes.remove_prefix(static_cast<std::size_t>(sent));
        }
        return true;
    }
    void end_sending() const { shutdown(fd_.get(), SHUT_WR); }
    /// Everything until there is so much of it, or the other side ends.
    [[nodiscard]] std::string hear(std::size_t most = SIZE_MAX) const {
        std::string all;
        char space[4096];
        while (all.size() < most && readable(kLong)) {
            ssize_t const got =
                recv(fd_.get(), space, std::min(sizeof space, most - all.size()), 0);
            if (got <= 0) break;
            all.append(space, static_cast<std::size_t>(got));
        }
        return all;
    }
    /// Something came, or the other side is gone.
    [[nodiscard]] bool readable(std::chrono::milliseconds limit) const {
        pollfd polled{fd_.get(), POLLIN, 0};
        return poll(&polled, 1, static_cast<int>(limit.count())) > 0;
    }

private:
    Fd fd_;
    bool connected_ = false;
};

inline Server::Factory echoes() {
    return [] { return std::make_shared<Echo>(); };
}

inline std::string address_of(Server const& server) {
    return "127.0.0.1:" + std::to_string(server.port());
}

inline bool eventually(std::function<bool()> const& holds) {
    auto const end = std::chrono::steady_clock::now() + kLong;
    while (!holds()) {
        if (std::chrono::steady_clock::now() > end) return false;
        std::this_thread::sleep_for(1ms);
    }
    return true;
}

/// What `body` returns, in a process of its own that may open so many files.
inline int with_descriptors(rlim_t most, std::function<int()> const& body) {
    pid_t const child = fork();
    if (child == 0) {
        rlimit const few{most, most};
        _exit(setrlimit(RLIMIT_NOFILE, &few) == 0 ? body() : 10);
    }
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_TRUE(WIFEXITED(status));
    return WEXITSTATUS(status);
}

inline std::size_t open_files() {
    std::size_t count = 0;
    for (auto const& unused : std::filesystem::directory_iterator("/proc/self/fd")) {
        (void)unused;
        ++count;
    }
    return count;
}

}  // namespace mgi::control::net::test
