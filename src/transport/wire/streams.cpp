// Connections whose bytes go over another medium; they themselves only tell that both ends are there.
#include <sys/epoll.h>
#include <sys/socket.h>

#include <exception>
#include <vector>

#include "transport/wire/wire_thread.hpp"

namespace mgi::transport::wire {
namespace {

constexpr std::uint64_t kMediumId = UINT64_MAX;  // no connection's
// So often each end says something on the connection, so that `since_answer` knows of the other one's machine.
constexpr Time kBeat = 250 * kMillisecond;

}  // namespace

// The medium of the NIC with this address; none: TCP.
Medium* WireThread::medium_at(Address const& address) {
    if (!options_.medium || address.empty()) return nullptr;
    Address const host = address.without_port();
    auto const at = media_.find(host.text());
    if (at != media_.end()) return at->second.get();
    return media_.emplace(host.text(), options_.medium(host)).first->second.get();
}

// Where its NIC has a medium. False: there should be one, and the connection is gone.
bool WireThread::begin_stream(Connection& connection) {
    try {
        Medium* const medium = medium_at(address_of(connection.socket));
        if (medium != nullptr) connection.stream = medium->make_stream();
        return true;
    } catch (std::exception const& error) {
        gone(connection, error.what());
        return false;
    }
}

// False: a medium has something to do at once.
bool WireThread::arm() {
    if (media_.empty()) return true;
    bool quiet = true;
    for (auto& [host, medium] : media_) {
        // Mostly it is watched already; one that was closed may have had the same number. It only wakes.
        epoll_event what{};
        what.events = EPOLLIN;
        what.data.u64 = kMediumId;
        (void)epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, medium->descriptor(), &what);
        if (!medium->arm()) quiet = false;
    }
    for (auto const& [id, connection] : connections_) quiet = quiet && !is_ready(*connection);
    return quiet;
}

bool WireThread::is_ready(Connection const& connection) {
    if (!connection.stream) return false;
    Stream const& stream = *connection.stream;
    if (!stream.broken().empty()) return true;
    return connection.stage == Stage::Open &&
           (stream.readable() || (connection.blocked && stream.writable()));
}

void WireThread::look_at_streams() {
    if (media_.empty()) return;
    for (auto& [host, medium] : media_) medium->progress();
    std::vector<std::uint64_t> ready;
    for (auto const& [id, connection] : connections_) {
        if (is_ready(*connection)) ready.push_back(id);
    }
    for (std::uint64_t const id : ready) {
        Connection* const connection = find(id);
        if (connection == nullptr) continue;
        Stream const& stream = *connection->stream;
        if (!stream.broken().empty()) {
            std::string const why = stream.broken();
            connection->entry != nullptr ? gone(*connection, why) : drop(*connection);
            continue;
        }
        connection->blocked = false;
        connection->entry->touched = true;
        if (stream.readable()) read(*connection);
    }
}

void WireThread::beat(Connection& connection) {
    char const here = 0;
    // There is no room where the other end does not read: it will see that it was said.
    (void)send(connection.socket.get(), &here, sizeof(here), MSG_NOSIGNAL);
    connection.deadline = now_ + kBeat;
}

}  // namespace mgi::transport::wire
