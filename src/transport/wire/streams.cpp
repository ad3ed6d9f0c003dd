// Connections whose bytes go over another medium; they themselves only tell that both ends are there.
#include <sys/epoll.h>
#include <sys/socket.h>

#include <exception>
#include <utility>
#include <vector>

#include <mgi/error.hpp>

#include "core/log.hpp"
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
    auto made = options_.medium(host);
    for (GpuMemory const& memory : memories_) made->add_memory(memory);
    return media_.emplace(host.text(), std::move(made)).first->second.get();
}

std::string WireThread::why_not_gpus() {
    if (!options_.medium) return "its wires are TCP (set MGI_WIRES=ucx)";
    std::string why;
    run([&] {
        for (auto const& [host, medium] : media_) {
            if (why.empty()) why = medium->why_not_gpus();
        }
    });
    return why;
}

std::shared_ptr<void const> WireThread::add_memory(GpuMemory const& memory) {
    // From now on what was added to some is removed from them.
    std::shared_ptr<void const> added(memory.data,
                                      [this, memory](void const*) { remove_memory(memory); });
    run([&] {
        for (auto const& [host, medium] : media_) medium->add_memory(memory);
        memories_.push_back(memory);
    });
    return added;
}

void WireThread::remove_memory(GpuMemory const& memory) noexcept {
    try {
        run([&] {
            for (auto const& [host, medium] : media_) medium->remove_memory(memory);
            std::erase_if(memories_, [&](GpuMemory const& one) { return one.data == memory.data; });
        });
    } catch (std::exception const& error) {
        log::warn("memory of cuda:{} stays registered: {}", memory.gpu, error.what());
    }
}

// Where its NIC has a medium. False: there should be one, and the connection is gone.
bool WireThread::begin_stream(Connection& connection) {
    try {
        Medium* const medium = medium_at(address_of(connection.socket));
        if (medium != nullptr) {
            connection.stream = medium->make_stream();
        } else if (connection.entry->by_streams) {
            throw Error(ErrorCode::Refused, kOverTcp);
        }
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
