/// \file
/// What a protocol over TCP, with or without TLS, sees of a connection. `Server` accepts connections
/// and `Client` makes them; sockets, TLS, deadlines and limits are theirs (docs/control.md, Transport).
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "control/net/peer_user.hpp"

namespace mgi::control::net {

/// How a connection ended.
struct Ending {
    enum class Why : std::uint8_t {
        Closed,       ///< by this side's close()
        Refused,      ///< by this side's refuse()
        PeerClosed,   ///< by the other side, or the connection broke
        Unreachable,  ///< a client's: nobody listens there, or the name has no address
        Late,         ///< a deadline passed
        NotTls,       ///< the other side does not speak TLS
        Certificate,  ///< a certificate that is not trusted, or is for another name
        Handshake,    ///< another failure of the TLS handshake
        Full,         ///< the other side does not read what it is sent
        Violation,    ///< what it sent is not the protocol's: abort()
        Evicted,      ///< made room for a newer connection, before it had proven anything
        Stopped,      ///< the server or client object goes
    };
    Why why = Why::Closed;
    std::string text;  ///< for people; empty for Closed
};

/// One connection. It may be kept after its end; then all of it does nothing.
class Connection {
public:
    Connection() = default;
    Connection(Connection const&) = delete;
    Connection& operator=(Connection const&) = delete;
    virtual ~Connection() = default;

    /// Sends these bytes after those before. More than the connection's limit that wait end it (Full).
    /// Never waits. Thread-safe.
    virtual void send(std::string bytes) = 0;
    /// Ends the connection once what was sent has gone; nothing more is received. Thread-safe.
    virtual void close() = 0;
    /// close(), for a reason that the server logs. Thread-safe.
    virtual void refuse(std::string why) = 0;
    /// Ends the connection now. on_close(Violation, why) follows. Thread-safe.
    virtual void abort(std::string why) = 0;
    /// Has Protocol::on_wake called soon, and on_drained unless too much waits to be sent. Thread-safe.
    virtual void wake() = 0;

    /// The peer has proven who it is: the deadline and the limit on bytes for strangers end. Only from
    /// within Protocol's functions.
    virtual void admit() = 0;
    /// Ends the connection (Late, `why`) unless this is called again, or clear_deadline, before. There is
    /// one deadline: before admit() it is the one for strangers, and both do nothing. Only from within
    /// Protocol's functions.
    virtual void set_deadline(std::chrono::milliseconds from_now, std::string why) = 0;
    virtual void clear_deadline() = 0;
    /// Has Protocol::on_alarm called at that time, once; there is one alarm, the last that was set. Only from
    /// within Protocol's functions.
    virtual void set_alarm(std::chrono::steady_clock::time_point at) = 0;

    /// Bytes that were sent and are not the kernel's yet. Thread-safe.
    [[nodiscard]] virtual std::size_t queued() const = 0;
    /// The other side's numeric address and port. Thread-safe from on_open on.
    [[nodiscard]] virtual std::string const& peer() const = 0;
    /// Whose process is at the other end, within this machine. Only from within Protocol's functions.
    [[nodiscard]] virtual OtherEnd other_end() const { return {}; }
    /// The DNS names that the peer's certificate is for; without one none. Only from within Protocol's functions.
    [[nodiscard]] virtual std::vector<std::string> certificate_names() const { return {}; }
};

/// A connection's protocol. All functions are called by one thread, that of the Server or Client, one at
/// a time; none may wait. What they throw ends the connection as abort() does.
class Protocol {
public:
    Protocol() = default;
    Protocol(Protocol const&) = delete;
    Protocol& operator=(Protocol const&) = delete;
    virtual ~Protocol() = default;

    /// The connection stands, TLS included. It may be kept, from here to whenever.
    virtual void on_open(std::shared_ptr<Connection> connection) = 0;
    /// What came, never empty. None follow after close() or abort().
    virtual void on_bytes(std::string_view bytes) = 0;
    /// The peer sends no more, but may still read.
    virtual void on_end() = 0;
    /// Little waits to be sent: here is the place to send more of what is large.
    virtual void on_drained() {}
    /// After Connection::wake, also before on_open.
    virtual void on_wake(Connection&) {}
    virtual void on_alarm(Connection&) {}
    /// The last call. Also for a connection that never came to stand. Must not throw.
    virtual void on_close(Ending const& ending) = 0;
};

}  // namespace mgi::control::net
