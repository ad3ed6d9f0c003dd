// The connections of the thread: how they are made, proven, read, written and ended.
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <span>
#include <utility>

#include <mgi/error.hpp>

#include "core/log.hpp"
#include "transport/wire/wire_thread.hpp"

namespace mgi::transport::wire {
namespace {

constexpr std::size_t kPieces = 64;       // of one call
constexpr Time kDrain = kSecond / 2;      // for the other end to read the last word
constexpr Time kMostDrain = 2 * kSecond;  // and more of it, as long as it reads
constexpr Time kRetryAccept = 100 * kMillisecond;

// So many bytes of a stream, as the system would say it of a socket.
ssize_t as_of_socket(std::size_t bytes) {
    if (bytes != 0) return ssize_t(bytes);
    errno = EAGAIN;
    return -1;
}

// Without a stream from the socket, or to it.
ssize_t get(Descriptor const& socket, Stream* stream, Encryption* encryption,
            std::span<iovec const> room) {
    if (stream != nullptr) return as_of_socket(stream->read(room));
    if (encryption != nullptr) return encryption->read(room);
    return readv(socket.get(), room.data(), int(room.size()));
}

ssize_t put(Descriptor const& socket, Stream* stream, Encryption* encryption,
            std::span<iovec> pieces) {
    if (stream != nullptr) return as_of_socket(stream->write(pieces));
    if (encryption != nullptr) return encryption->write(pieces);
    msghdr message{};
    message.msg_iov = pieces.data();
    message.msg_iovlen = pieces.size();
    return sendmsg(socket.get(), &message, MSG_NOSIGNAL);
}

// Why a connection is of no use any more, by errno.
std::string broke_with(int error) {
    if (error == EBADMSG) {
        return "what came is not what the other end has encrypted: somebody has changed it, or cut "
               "it off";
    }
    if (error == EKEYEXPIRED) return "its key is used up; the next wire has another";
    return with_error("it broke", error);
}

// Takes what has come and is of no interest. Why there will be no more; nothing while there may be.
std::optional<std::string> throw_away(Descriptor const& socket) {
    std::array<char, 16384> nowhere{};
    for (int i = 0; i < 16; ++i) {
        ssize_t const got = recv(socket.get(), nowhere.data(), nowhere.size(), 0);
        if (got > 0 || (got < 0 && errno == EINTR)) continue;
        if (got == 0) return "the other end has closed it";
        if (errno != EAGAIN && errno != EWOULDBLOCK) return with_error("it broke", errno);
        break;
    }
    return std::nullopt;
}

}  // namespace

WireThread::Connection& WireThread::adopt(Descriptor socket, Stage stage, Time deadline) {
    auto connection = std::make_unique<Connection>();
    connection->id = next_id_++;
    connection->socket = std::move(socket);
    connection->stage = stage;
    connection->deadline = deadline;
    epoll_event what{};
    what.events = stage == Stage::Connecting ? EPOLLOUT : EPOLLIN;
    what.data.u64 = connection->id;
    if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, connection->socket.get(), &what) != 0) {
        throw Error(ErrorCode::OutOfMemory, with_error("cannot watch a connection", errno));
    }
    Connection& it = *connection;
    connections_[it.id] = std::move(connection);
    return it;
}

void WireThread::watch_for(std::uint32_t events, std::uint64_t id, Descriptor const& socket) {
    epoll_event what{};
    what.events = events;
    what.data.u64 = id;
    (void)epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, socket.get(), &what);
}

void WireThread::watch(Connection& connection, bool writable) {
    watch_for(EPOLLIN | (writable ? std::uint32_t(EPOLLOUT) : 0U), connection.id,
              connection.socket);
}

void WireThread::watch(Listener const& listener, bool open) {
    watch_for(open ? std::uint32_t(EPOLLIN) : 0U, listener.id, listener.socket);
}

// Closes it, and tells nobody.
void WireThread::drop(Connection& connection) {
    if (connection.entry != nullptr) {
        std::erase(connection.entry->connections, &connection);
        connection.entry->touched = true;
    } else if (connection.stage == Stage::Shaking) {
        --strangers_;
    }
    busy_.erase(connection.id);
    if (Connection* const other = std::exchange(connection.joined, nullptr)) {
        other->joined = nullptr;
        --passed_.connections;
        drop(*other);
    }
    connections_.erase(connection.id);
}

void WireThread::gone(Connection& connection, std::string const& why) {
    Entry& entry = *connection.entry;
    std::uint32_t const slot = connection.slot;
    std::uint64_t const generation = connection.generation;
    bool const was_dialed = connection.stage != Stage::Open && entry.routes;
    // The relay that is asked is there when it says that it cannot; one that says nothing is not.
    bool const declined = connection.handshake && connection.handshake->is_declined();
    std::uint32_t const hop = std::uint32_t(connection.relay) + (declined ? 1 : 0);
    drop(connection);
    if (was_dialed) {
        entry.client->not_made(slot, generation, hop, why, now_);
    } else {
        entry.client->closed(slot, generation, why, now_);
    }
}

void WireThread::refuse(Connection& connection, std::string const& why, bool loud) {
    std::string const text = "a connection from " + connection.peer.text() + " is refused: " + why;
    drop(connection);
    if (!loud) {
        log::info("{}", text);
        return;
    }
    // Strangers must not fill the log either.
    if (now_ < last_warning_ + kSecond) {
        ++unsaid_;
        return;
    }
    last_warning_ = now_;
    log::warn("{}{}", text,
              unsaid_ == 0 ? std::string() : " (and " + std::to_string(unsaid_) + " before it)");
    unsaid_ = 0;
}

bool WireThread::obey(Entry& entry) {
    commands_.clear();
    entry.client->take_commands(commands_);
    if (commands_.empty()) return false;
    auto const commands = std::exchange(commands_, {});
    for (Command const& command : commands) {
        if (command.kind == Command::Kind::Dial) {
            dial(entry, command);
        } else {
            end(entry, command);
        }
    }
    return true;
}

void WireThread::dial(Entry& entry, Command const& command) {
    try {
        Route route = entry.routes(command.slot, command.generation);
        Connection& connection =
            adopt(begin_connecting(route.local, route.remote), Stage::Connecting,
                  now_ + std::min(options_.dial_limit, route.limit));
        connection.entry = &entry;
        entry.connections.push_back(&connection);
        connection.slot = command.slot;
        connection.generation = command.generation;
        connection.peer = route.remote;
        connection.route = std::move(route);
    } catch (std::exception const& error) {
        entry.client->not_made(command.slot, command.generation, 0, error.what(), now_);
    }
}

void WireThread::end(Entry& entry, Command const& command) {
    auto const at = std::find_if(
        entry.connections.begin(), entry.connections.end(), [&](Connection const* connection) {
            return connection->slot == command.slot && connection->generation == command.generation;
        });
    if (at == entry.connections.end()) return;
    Connection& connection = **at;
    if (auto const ago = since_answer(connection.socket)) {
        entry.client->answered(command.slot, command.generation, now_ - std::min(now_, *ago), now_);
    }
    bool const last_word = command.kind == Command::Kind::Finish &&
                           (connection.stream ? connection.stream->finish() : finish(connection));
    if (!last_word) {
        drop(connection);
        return;
    }
    // Closed with bytes unread, the system would throw away what the other end has not read yet.
    entry.connections.erase(at);
    connection.entry = nullptr;
    connection.stage = Stage::Draining;
    connection.deadline = now_ + kDrain;
    connection.drained = now_ + kMostDrain;
    watch(connection, connection.encryption && connection.encryption->pending() != 0);
}

// Ends its own way of the socket, behind all that was written. False: it broke.
bool WireThread::finish(Connection& connection) {
    if (connection.encryption && connection.encryption->write({}) < 0) {
        return errno == EAGAIN || errno == EWOULDBLOCK;  // it is called again
    }
    return shutdown(connection.socket.get(), SHUT_WR) == 0;
}

void WireThread::accept(Listener& listener) {
    for (int i = 0; i < 64; ++i) {
        Address peer;
        int error = 0;
        Descriptor socket = accept_from(listener.socket, peer, error);
        if (!socket) {
            if (error != EMFILE && error != ENFILE && error != ENOBUFS && error != ENOMEM) return;
            log::warn("no more connections can be taken for now: {}",
                      with_error("the system says", error));
            listener.retry = now_ + kRetryAccept;
            watch(listener, false);
            return;
        }
        Connection& connection =
            adopt(std::move(socket), Stage::Shaking, now_ + options_.dial_limit);
        ++strangers_;
        connection.peer = peer;
        if (strangers_ > options_.most_strangers) {
            refuse(connection, "too many have not proven yet who they are", true);
            continue;
        }
        connection.handshake = std::make_unique<Handshake>(
            [this](LinkName const& name) { return secret_of(name); }, options_.encryption.on);
    }
}

std::optional<Secret> WireThread::secret_of(LinkName const& name) const {
    if (auto const at = relays_.find(name); at != relays_.end()) return at->second.secret;
    auto const at = entries_.find(name);
    // The end that dials is never dialed.
    if (at == entries_.end() || at->second->routes) return std::nullopt;
    return at->second->secret;
}

void WireThread::on_event(Connection& connection, std::uint32_t events) {
    std::uint64_t const id = connection.id;
    switch (connection.stage) {
        case Stage::Connecting: {
            int const error = how_it_went(connection.socket);
            std::string const why =
                error == 0 ? std::string()
                           : with_error("no connection to " + connection.peer.text(), error);
            if (connection.joined != nullptr) {
                error == 0 ? joined(connection) : decline(*connection.joined, why);
            } else {
                error == 0 ? go_on(connection) : gone(connection, why);
            }
            return;
        }
        case Stage::Shaking: shake(connection); return;
        case Stage::Draining: drain(connection); return;
        case Stage::Awaiting: drop(connection); return;
        case Stage::Passing: pass(connection); return;
        case Stage::Open: break;
    }
    if (connection.stream) {
        // The connection itself says only that the other end is there.
        if (auto const why = throw_away(connection.socket)) gone(connection, *why);
        return;
    }
    if ((events & EPOLLOUT) != 0) {
        connection.blocked = false;
        watch(connection, false);
        connection.entry->touched = true;
    }
    if ((events & ~std::uint32_t(EPOLLOUT)) != 0) read(connection);
    if (Connection* const still = find(id)) {
        if (still->entry != nullptr) still->entry->touched = true;
    }
}

// So few bytes that a new connection takes them at once.
bool WireThread::send_handshake(Connection& connection) {
    std::string const bytes = connection.handshake->take_output();
    return bytes.empty() || send(connection.socket.get(), bytes.data(), bytes.size(),
                                 MSG_NOSIGNAL) == ssize_t(bytes.size());
}

void WireThread::shake(Connection& connection) {
    std::array<char, 128> buffer{};
    Handshake::State state = Handshake::State::Going;
    while (state == Handshake::State::Going) {
        std::size_t const most = std::min(buffer.size(), connection.handshake->wants());
        ssize_t const got = recv(connection.socket.get(), buffer.data(), most, 0);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
        if (got <= 0) {
            std::string const why =
                got == 0 ? "it was closed before it was a wire" : with_error("it broke", errno);
            if (connection.entry == nullptr) {
                refuse(connection, why, true);
            } else {
                gone(connection, why);
            }
            return;
        }
        state = connection.handshake->received({buffer.data(), std::size_t(got)});
        if (!send_handshake(connection)) state = Handshake::State::Refused;
    }
    settle(connection, state);
}

void WireThread::settle(Connection& connection, Handshake::State state) {
    Handshake& handshake = *connection.handshake;
    std::string const why = handshake.why().empty() ? "it broke" : handshake.why();
    if (connection.entry != nullptr) {
        if (state != Handshake::State::Done) {
            gone(connection, why);
        } else if (connection.relay < connection.route.onward.size()) {
            ++connection.relay;
            go_on(connection);
        } else if (connection.entry->client->opened(connection.slot, connection.generation, now_)) {
            std::uint64_t const id = connection.id;
            open(connection, handshake.far_card());
            if (find(id) != nullptr && options_.encryption.on) encrypt(connection);
        } else {
            drop(connection);
        }
        return;
    }
    if (state != Handshake::State::Proven) {
        refuse(connection, why, !handshake.is_unknown());
        return;
    }
    Hello const hello = handshake.hello();
    if (hello.onward) {
        join(connection);
        return;
    }
    auto const at = entries_.find(hello.link);
    bool const wanted =
        at != entries_.end() && at->second->client->opened(hello.slot, hello.generation, now_);
    // A wire of the same slot that this one follows ends now: its bytes must not be taken for these.
    if (at != entries_.end()) obey(*at->second);
    if (!wanted) {
        refuse(connection, "its wire is not wanted", false);
        return;
    }
    Entry& entry = *at->second;
    --strangers_;
    connection.entry = &entry;
    connection.slot = hello.slot;
    connection.generation = hello.generation;
    entry.connections.push_back(&connection);
    if (!hello.card.empty() && !begin_stream(connection)) return;
    handshake.accept(connection.stream ? connection.stream->card() : std::string());
    std::uint64_t const id = connection.id;
    open(connection, connection.stream ? hello.card : std::string());
    if (find(id) == nullptr) return;
    if (!send_handshake(connection)) {
        gone(connection, "it broke");
    } else if (options_.encryption.on) {
        encrypt(connection);
    }
}

// Behind the handshake's last byte, which goes as it is.
void WireThread::encrypt(Connection& connection) {
    try {
        connection.encryption = std::make_unique<Encryption>(
            connection.socket, connection.handshake->keys(), options_.encryption);
        connection.handshake.reset();  // it holds the key from which these follow
    } catch (std::exception const& error) {
        gone(connection, error.what());
    }
}

// Behind the handshake. Without a card its bytes go over the connection.
void WireThread::open(Connection& connection, std::string const& far_card) {
    connection.stage = Stage::Open;
    connection.deadline = kNever;
    connection.entry->touched = true;
    if (far_card.empty()) {
        connection.stream.reset();
        if (connection.entry->by_streams) gone(connection, kOverTcp);
        return;
    }
    try {
        connection.stream->join(far_card);
        connection.deadline = now_;
    } catch (std::exception const& error) {
        gone(connection, error.what());
    }
}

void WireThread::read(Connection& connection) {
    Entry& entry = *connection.entry;
    std::uint64_t const id = connection.id;
    std::array<iovec, kPieces> pieces;
    // What an encrypted wire holds is not told of again.
    auto const holds = [&] { return connection.encryption && connection.encryption->holds(); };
    for (std::size_t taken = 0; taken < most_read_ || holds();) {
        std::size_t const count = entry.client->scatter(connection.slot, pieces);
        if (count == 0) break;
        ssize_t const got = get(connection.socket, connection.stream.get(),
                                connection.encryption.get(), {pieces.data(), count});
        if (got < 0 && errno == EINTR) continue;
        if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
        if (got <= 0) {
            gone(connection, got == 0 ? "the other end has closed it" : broke_with(errno));
            return;
        }
        std::size_t room = 0;
        for (std::size_t i = 0; i < count; ++i) room += pieces[i].iov_len;
        taken += std::size_t(got);
        entry.client->received(connection.slot, std::size_t(got), now_);
        obey(entry);
        if (find(id) == nullptr) return;
        bool const whole = std::size_t(got) == room || connection.stream != nullptr ||
                           (connection.encryption && connection.encryption->may_have_more());
        if (!whole) return;  // that was all for now
    }
}

// What comes behind the last word is of no interest.
void WireThread::drain(Connection& connection) {
    std::size_t const unsaid = connection.encryption ? connection.encryption->pending() : 0;
    if (throw_away(connection.socket) || (unsaid != 0 && !finish(connection))) {
        drop(connection);
        return;
    }
    if (unsaid == 0) return;
    std::size_t const left = connection.encryption->pending();
    if (left < unsaid) connection.deadline = std::min(now_ + kDrain, connection.drained);
    watch(connection, left != 0);
}

void WireThread::write(Connection& connection) {
    Entry& entry = *connection.entry;
    std::array<iovec, kPieces> pieces;
    for (;;) {
        std::size_t const count = entry.client->gather(connection.slot, pieces, now_);
        if (count == 0 && !(connection.encryption && connection.encryption->pending() != 0)) return;
        ssize_t const bytes = put(connection.socket, connection.stream.get(),
                                  connection.encryption.get(), {pieces.data(), count});
        if (bytes < 0 && errno == EINTR) continue;
        if (bytes < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
            connection.blocked = true;
            if (!connection.stream) watch(connection, true);
            return;
        }
        if (bytes < 0) {
            gone(connection, broke_with(errno));
            return;
        }
        if (bytes == 0) continue;  // what was taken before has gone
        entry.client->sent(connection.slot, std::size_t(bytes), now_);
    }
}

}  // namespace mgi::transport::wire
