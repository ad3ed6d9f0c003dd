/// \file
/// The applications' socket: accepts, reads a little of each in turn, writes what goes. Users come in turn,
/// and of each user's applications some: so neither one that floods, never reads or dies keeps the others
/// waiting, nor one user's many another's one.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "control/agent/ports.hpp"
#include "control/local/socket.hpp"
#include "control/net/bounded_log.hpp"

namespace mgi::control {

/// Used by one thread.
class ApplicationServer {
public:
    /// So many of one user's are served before another user's turn.
    static constexpr int kAtOnce = 8;
    /// An application that reads so slowly that more than this waits for it is closed: one answer of
    /// any size, and what is said while it is being read.
    static constexpr std::size_t kMostQueued = kMostAnswerBytes + (8u << 20);

    struct Events {
        std::function<void(ApplicationId, std::uint32_t pid, std::uint32_t uid)> came;
        /// With what the message brought, if it says that it brings something: empty, if that got lost.
        std::function<void(ApplicationId, Json const&, Fd)> said;
        std::function<void(ApplicationId, std::string const& why)> left;
    };

    /// Throws as listen_for_applications does.
    ApplicationServer(std::string path, Events events);
    ApplicationServer(ApplicationServer const&) = delete;
    ApplicationServer& operator=(ApplicationServer const&) = delete;
    ~ApplicationServer();

    /// Something to poll for reading: when it is ready, `serve` has work.
    [[nodiscard]] int fd() const { return poll_.get(); }
    /// Does what can be done now. True: there is more already, come back at once.
    bool serve();

    /// `fd` goes along, if there is one.
    void tell(ApplicationId id, Json const& message, Fd fd = {});
    void dismiss(ApplicationId id);

private:
    /// Its applications that are ready. The system keeps both in turn, users and each one's applications.
    struct User {
        Fd poll;
        std::size_t applications = 0;
    };
    struct Peer {
        std::uint32_t uid = 0;
        MessageSocket socket;
        Fd process;  ///< a pidfd; its end is noticed although a child of it keeps the socket
        bool writes = false;     ///< waits for room
        bool dismissed = false;  ///< nobody waits for its end
        std::string broken;      ///< to be closed, and why
    };
    using Peers = std::map<ApplicationId, Peer>;

    void accept_some();
    void serve_user(std::uint32_t uid);
    void take(ApplicationId id, Fd fd, ucred const& who);
    User& user(std::uint32_t uid);
    void refuse_one();
    void turned_away(std::string const& why);
    void read(ApplicationId id, Peer& peer);
    void write(ApplicationId id, Peer& peer);
    void watch(ApplicationId id, Peer& peer);
    void close_broken();
    [[nodiscard]] Peer* peer(ApplicationId id);

    std::string const path_;
    Events const events_;
    Listener listener_;
    Fd poll_;
    Fd spare_;
    std::map<std::uint32_t, User> users_;  ///< that have applications
    Peers peers_;
    net::BoundedLog refusals_;
    ApplicationId next_ = 1;
};

}  // namespace mgi::control
