// Connections whose bytes go over another medium; they themselves only tell that both ends are there.
#include <sys/epoll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
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

void WireThread::begin_stream(Connection& connection, Address const& local) {
    if (Medium* const medium = medium_at(local)) connection.stream = medium->make_stream();
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

// What comes on the connection itself says only that the other end is there.
void WireThread::hear(Connection& connection) {
    std::array<char, 256> nowhere{};
    for (int i = 0; i < 4; ++i) {
        ssize_t const got = recv(connection.socket.get(), nowhere.data(), nowhere.size(), 0);
        if (got > 0 || (got < 0 && errno == EINTR)) continue;
        if (got == 0) {
            gone(connection, "the other end has closed it");
        } else if (errno != EAGAIN && errno != EWOULDBLOCK) {
            gone(connection, with_error("it broke", errno));
        }
        return;
    }
}

void WireThread::beat(Connection& connection) {
    char const here = 0;
    // There is no room where the other end does not read: it will see that it was said.
    (void)send(connection.socket.get(), &here, sizeof(here), MSG_NOSIGNAL);
    connection.deadline = now_ + kBeat;
}

}  // namespace mgi::transport::wire
