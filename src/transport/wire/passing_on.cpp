// Connections through third processes: how one is dialed through relays, and how this process is one.
#include <sys/epoll.h>

#include <algorithm>
#include <utility>

#include <mgi/error.hpp>

#include "core/log.hpp"
#include "transport/wire/wire_thread.hpp"

namespace mgi::transport::wire {
namespace {

// Wires say four times a second that they are there: on one that says nothing for so long, somebody is gone.
constexpr Time kSilence = 10 * kSecond;
// When one end has ended: for the other one to do so.
constexpr Time kEnding = 2 * kSecond;

}  // namespace

void WireThread::pass_on(LinkName const& name, Secret const& secret, WaysOn ways) {
    run([&] {
        if (relays_.contains(name)) {
            throw Error(ErrorCode::InvalidArgument, "there is a relay of this name already");
        }
        relays_[name] = {secret, std::move(ways)};
    });
}

void WireThread::stop_passing_on(LinkName const& name) {
    run([&] { relays_.erase(name); });
}

WireThread::Passed WireThread::passed_on() {
    Passed passed;
    run([&] { passed = passed_; });
    return passed;
}

// Says the next hello: to the next relay, or to the other end.
void WireThread::go_on(Connection& connection) {
    Entry const& entry = *connection.entry;
    Hello hello{entry.name, connection.slot, connection.generation};
    if (connection.relay < connection.route.onward.size()) {
        hello.link = connection.route.relays;
        hello.onward = connection.route.onward[connection.relay];
    } else if (options_.encryption.on) {
        hello.encrypted = true;
    } else if (connection.route.onward.empty()) {
        // A relay passes on what goes over the connection, and nothing else.
        if (!begin_stream(connection)) return;
        if (connection.stream) hello.card = connection.stream->card();
    }
    connection.stage = Stage::Shaking;
    connection.deadline = now_ + std::min(options_.dial_limit, connection.route.limit);
    watch(connection, false);
    connection.handshake = std::make_unique<Handshake>(hello, entry.secret);
    if (!send_handshake(connection)) gone(connection, "it takes no greeting");
}

// A member asks this process to pass its connection on.
void WireThread::join(Connection& connection) {
    Hello const hello = connection.handshake->hello();
    try {
        auto const at = relays_.find(hello.link);
        if (at == relays_.end()) throw Error(ErrorCode::NotFound, "it is no relay's greeting");
        if (passed_.connections >= options_.most_passed_on) {
            throw Error(ErrorCode::Refused, "as many are passed on as may be: " +
                                                std::to_string(options_.most_passed_on));
        }
        auto const route = at->second.ways(*hello.onward);
        if (!route) throw Error(ErrorCode::NotFound, "it is to be passed on to nobody we know");
        // Sooner than the end that dials gives up, so that it hears why.
        Connection& onward = adopt(begin_connecting(route->local, route->remote), Stage::Connecting,
                                   now_ + options_.dial_limit / 4);
        onward.peer = route->remote;
        onward.joined = &connection;
        connection.joined = &onward;
    } catch (std::exception const& error) {
        decline(connection, error.what());
        return;
    }
    ++passed_.connections;
    --strangers_;
    connection.stage = Stage::Awaiting;
    connection.deadline = kNever;  // that of the way on holds for both
    // It has nothing to say now; that it broke is told all the same.
    watch_for(0, connection.id, connection.socket);
}

void WireThread::decline(Connection& connection, std::string const& why) {
    connection.handshake->decline();
    (void)send_handshake(connection);
    refuse(connection, "it cannot be passed on: " + why, false);
}

// The way on is there.
void WireThread::joined(Connection& onward) {
    Connection& from = *onward.joined;
    try {
        onward.passage = std::make_shared<Passage>(from.socket, onward.socket);
    } catch (std::exception const& error) {
        decline(from, error.what());
        return;
    }
    from.passage = onward.passage;
    from.handshake->accept();
    if (!send_handshake(from)) {
        drop(from);
        return;
    }
    log::info("passes on a connection from {} to {}", from.peer.text(), onward.peer.text());
    for (Connection* const one : {&from, &onward}) {
        one->stage = Stage::Passing;
        one->handshake.reset();
        one->deadline = now_ + kSilence;
        // Edges alone: each way is pumped until its sockets have no more, or take no more.
        watch_for(EPOLLIN | EPOLLOUT | EPOLLRDHUP | std::uint32_t(EPOLLET), one->id, one->socket);
    }
    pass(onward);
}

void WireThread::pass(Connection& connection) {
    Passage& passage = *connection.passage;
    bool const was_ending = passage.ending();
    std::uint64_t const before = passage.bytes();
    Passage::State const state = passage.pump();
    passed_.bytes += passage.bytes() - before;
    if (state == Passage::State::Over) {
        drop(connection);
        return;
    }
    busy_.erase(connection.joined->id);
    if (state == Passage::State::Busy) {
        busy_.insert(connection.id);
    } else {
        busy_.erase(connection.id);
    }
    if (was_ending || (passage.bytes() == before && !passage.ending())) return;
    connection.deadline = connection.joined->deadline =
        now_ + (passage.ending() ? kEnding : kSilence);
}

void WireThread::pass_more() {
    auto const busy = busy_;  // pass changes it
    for (std::uint64_t const id : busy) {
        if (Connection* const connection = find(id)) pass(*connection);
    }
}

}  // namespace mgi::transport::wire
