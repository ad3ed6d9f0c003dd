// Wires through third processes, over TCP on loopback: each process is a wire thread.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <mgi/error.hpp>
#include <mgi/runtime.hpp>

#include "support/hang_guard.hpp"
#include "wire/cutter.hpp"
#include "wire/peer.hpp"

namespace mgi::test {
namespace {

using mover::link::kMillisecond;
using mover::link::kSecond;
using mover::link::LinkName;
using mover::link::LinkOptions;
using mover::link::NicBoard;
using mover::link::Route;
using mover::link::routes_of;
using mover::link::Time;
using mover::link::WireThread;
using transport::wire::Address;
using transport::wire::begin_connecting;
using transport::wire::Descriptor;
using transport::wire::Handshake;
using transport::wire::Hello;
using transport::wire::Onward;

Address const kAny("127.0.0.1:0");

void wait_until(std::function<bool()> const& done) {
    while (!done()) std::this_thread::sleep_for(std::chrono::milliseconds(2));
}

std::size_t open_descriptors() {
    auto const all = std::filesystem::directory_iterator("/proc/self/fd");
    return std::size_t(std::distance(begin(all), end(all)));
}

/// A process that relays.
struct Third {
    Third(LinkName const& relays, std::function<std::optional<Address>(Onward const&)> where,
          transport::wire::WireThreadOptions const& options = {})
        : thread(std::make_unique<WireThread>(options)), address(thread->listen({kAny}).front()) {
        thread->pass_on(relays, secret_of(1),
                        [where = std::move(where)](Onward const& to) -> std::optional<Route> {
                            auto const there = where(to);
                            if (!there) return std::nullopt;
                            return Route{kAny, *there};
                        });
    }
    std::unique_ptr<WireThread> thread;
    Address address;
};

/// Member 1 is the far end, 2 and 3 are relays.
class RelayTest : public ::testing::Test {
protected:
    RelayTest() {
        set_log_level("error");
        name.fill(3);
        relays.fill(4);
        members[1] = far.listen({kAny}).front();
        for (std::uint32_t m : {2U, 3U}) add_relay(m);
    }
    ~RelayTest() override { set_log_level("warn"); }

    void add_relay(std::uint32_t member, transport::wire::WireThreadOptions const& options = {}) {
        thirds[member] = std::make_unique<Third>(
            relays,
            [known = members](Onward const& to) -> std::optional<Address> {
                auto const at = known.find(to.member);
                if (at == known.end()) return std::nullopt;
                return at->second;
            },
            options);
        members[member] = thirds[member]->address;
    }
    LinkOptions options(std::uint32_t wires) const {
        LinkOptions it;
        it.slots.resize(wires);
        it.checksums = true;
        it.shortest_rest = 5 * kMillisecond;
        it.link_limit = link_limit;
        it.silence_limit = silence;
        it.heartbeat = silence / 12;
        return it;
    }
    Route direct() { return {kAny, members[1]}; }
    /// Through these members.
    Route through(std::vector<std::uint32_t> const& by) {
        Route route{kAny, members[by.front()], relays};
        for (std::size_t i = 1; i < by.size(); ++i) route.onward.push_back({by[i], 0});
        route.onward.push_back({1, 0});
        return route;
    }
    std::unique_ptr<SharedLink> awaiting(Peer& owner, std::uint32_t wires) {
        auto link = std::make_unique<SharedLink>(far, name, secret_of(1), nullptr, options(wires),
                                                 owner, far_board);
        owner.link = link.get();
        return link;
    }
    std::unique_ptr<SharedLink> dialing(Peer& owner, mover::link::Routes routes,
                                        std::uint32_t wires) {
        auto link = std::make_unique<SharedLink>(near, name, secret_of(1), std::move(routes),
                                                 options(wires), owner, near_board);
        owner.link = link.get();
        return link;
    }
    std::size_t joined(std::uint32_t member) {
        return thirds[member]->thread->passed_on().connections;
    }
    /// Everything goes both ways while `meanwhile` does something.
    void exchange(
        mover::link::Routes const& routes, std::uint32_t wires,
        std::function<void()> const& meanwhile = [] {}, std::uint64_t segments = 300) {
        Peer one(segments, 50'000);
        Peer two(segments, 50'000);
        auto const to = dialing(one, routes, wires);
        auto const from = awaiting(two, wires);
        std::thread other(meanwhile);
        send_both_ways(one, *to, two, *from);
        EXPECT_TRUE(one.wait_for_all()) << one.why();
        EXPECT_TRUE(two.wait_for_all()) << two.why();
        EXPECT_EQ(one.wrong() + two.wrong(), 0U);
        other.join();
    }

    static constexpr std::uint64_t kMany = kSanitized ? 500 : 2000;
    Time link_limit = 20 * kSecond;
    Time silence = 3 * kSecond;
    LinkName name{};
    LinkName relays{};
    NicBoard near_board;
    NicBoard far_board;
    WireThread near;
    WireThread far;
    std::map<std::uint32_t, Address> members;
    std::map<std::uint32_t, std::unique_ptr<Third>> thirds;
};

TEST_F(RelayTest, EverythingArrivesThroughAThirdProcess) {
    exchange(routes_of({through({2})}), 1);
    EXPECT_GT(thirds[2]->thread->passed_on().bytes, 2U * 300 * 50'000);
    EXPECT_EQ(thirds[3]->thread->passed_on().bytes, 0U);
}

TEST_F(RelayTest, AndThroughTwoOfThem) {
    exchange(routes_of({through({3, 2})}), 1);
    EXPECT_GT(thirds[2]->thread->passed_on().bytes, 2U * 300 * 50'000);
    EXPECT_GT(thirds[3]->thread->passed_on().bytes, 2U * 300 * 50'000);
}

// Its kernels wait for rows of their own meanwhile: no event of what is passed on is lost on them.
TEST_F(RelayTest, OneWhoseThreadsDriveGoesOnPassing) {
    std::atomic<bool> ended = false;
    std::thread driver([&] {
        while (!ended) {
            for (std::uint32_t m : {2U, 3U}) thirds[m]->thread->drive();
            std::this_thread::yield();
        }
    });
    auto counted = std::make_shared<std::atomic<int>>(0);
    auto const routes = [counted, way = through({3, 2})](std::uint32_t, std::uint64_t) {
        ++*counted;
        return way;
    };
    int dialed = 0;  // until there was a wire
    exchange(
        routes, 1,
        [&] {
            wait_until([&] { return thirds[2]->thread->passed_on().bytes > 1'000'000; });
            dialed = *counted;
        },
        kMany);
    ended = true;
    driver.join();
    EXPECT_EQ(*counted, dialed) << "its wire was given up";
}

TEST_F(RelayTest, OneThatEndsLosesNothing) {
    // A relay's wire and then another's, by turns.
    auto const routes = [this, both = std::vector<Route>{through({2}), through({3})}](
                            std::uint32_t, std::uint64_t generation) {
        return both[generation % 2];
    };
    exchange(
        routes, 2,
        [this] {
            wait_until([&] { return joined(2) + joined(3) >= 2; });
            std::uint32_t const first = joined(2) != 0 ? 2 : 3;
            wait_until([&] { return thirds[first]->thread->passed_on().bytes > 1'000'000; });
            thirds[first]->thread.reset();
        },
        kMany);
}

TEST_F(RelayTest, OneThatStandsStillIsNoticed) {
    silence = 600 * kMillisecond;
    Cutter still(thirds[2]->address);
    Route frozen = through({2});
    frozen.remote = still.address();
    std::atomic<bool> held = false;
    auto const routes = [&held, frozen, other = through({3})](std::uint32_t, std::uint64_t) {
        return held ? other : frozen;
    };
    exchange(
        routes, 1,
        [&] {
            wait_until([&] { return thirds[2]->thread->passed_on().bytes > 1'000'000; });
            held = true;
            still.hold(true);
        },
        kMany);
    EXPECT_GT(thirds[3]->thread->passed_on().bytes, 0U);
}

TEST_F(RelayTest, TheOtherEndHearsThatItEnds) {
    Peer one(5, 100);
    Peer two(5, 100);
    auto const from = awaiting(two, 1);
    auto to = dialing(one, routes_of({through({3, 2})}), 1);
    send_both_ways(one, *to, two, *from);
    EXPECT_TRUE(one.wait_for_all() && two.wait_for_all());
    to.reset();
    two.wait_for_failure();
    EXPECT_NE(two.why().find("its runtime has ended"), std::string::npos) << two.why();
    wait_until([&] { return joined(2) == 0 && joined(3) == 0; });
}

TEST_F(RelayTest, WhatIsJoinedGoesOnWhenNoMoreIsTaken) {
    exchange(
        routes_of({through({2})}), 1,
        [this] {
            // There is a wire: one that is just being made might have to be made again.
            wait_until([&] { return thirds[2]->thread->passed_on().bytes > 1'000'000; });
            thirds[2]->thread->stop_passing_on(relays);
        },
        kMany);
    link_limit = kSecond / 2;
    Peer one(1, 100);
    auto const to = dialing(one, routes_of({through({2})}), 1);
    one.wait_for_failure();
    EXPECT_NE(one.why().find("closed before it was a wire"), std::string::npos) << one.why();
}

TEST_F(RelayTest, NobodyIsLeftBehind) {
    auto const come_and_go = [this] {
        exchange(routes_of({through({2}), through({3, 2})}), 2, [] {}, 20);
        wait_until([&] { return joined(2) == 0 && joined(3) == 0; });
    };
    come_and_go();
    std::size_t const before = open_descriptors();
    for (int i = 0; i < 5; ++i) come_and_go();
    wait_until([&] { return open_descriptors() <= before; });
}

TEST_F(RelayTest, SaysWhyItCannot) {
    link_limit = kSecond / 2;
    Peer one(1, 100);
    Route nobody = through({2});
    nobody.onward.front().member = 9;
    auto const to = dialing(one, routes_of({nobody}), 1);
    one.wait_for_failure();
    EXPECT_NE(one.why().find("cannot pass it on"), std::string::npos) << one.why();
}

/// Dials once, and remembers what came of it.
class Dialer final : public transport::wire::WireClient {
public:
    bool opened(std::uint32_t, std::uint64_t, Time) override {
        hop = kThere;
        return true;
    }
    void not_made(std::uint32_t, std::uint64_t, std::uint32_t at, std::string const&,
                  Time) override {
        hop = at;
    }
    void closed(std::uint32_t, std::uint64_t, std::string const&, Time) override {}
    std::size_t gather(std::uint32_t, std::span<iovec>, Time) override { return 0; }
    void sent(std::uint32_t, std::size_t, Time) override {}
    std::size_t scatter(std::uint32_t, std::span<iovec>) override { return 0; }
    void received(std::uint32_t, std::size_t, Time) override {}
    Time tick(Time) override { return transport::wire::kNever; }
    void take_commands(std::vector<transport::wire::Command>& commands) override {
        if (std::exchange(dialed_, true)) return;
        commands.push_back({transport::wire::Command::Kind::Dial, 0, 1});
    }

    static constexpr std::uint32_t kWaits = 98;
    static constexpr std::uint32_t kThere = 99;
    std::atomic<std::uint32_t> hop{kWaits};

private:
    bool dialed_ = false;
};

TEST_F(RelayTest, SaysWhichHopDidNotLeadOn) {
    auto const hop_of = [this](Route const& route) {
        auto const client = std::make_shared<Dialer>();
        auto const bell = near.add(name, secret_of(1), routes_of({route}), client);
        bell->ring();
        wait_until([&] { return client->hop != Dialer::kWaits; });
        near.remove(name);
        return client->hop.load();
    };
    auto const to = [this](std::uint32_t member, std::uint32_t at, Route route) {
        (at == 0 ? route.onward.front() : route.onward.back()).member = member;
        return route;
    };
    Descriptor const nobody = begin_connecting({}, members[1]);  // its port: nobody listens there
    members[7] = transport::wire::address_of(nobody);
    add_relay(8);
    // The first relay is not there; it knows no such member; nobody answers it there.
    EXPECT_EQ(hop_of({kAny, members[7], relays, {{2, 0}, {1, 0}}}), 0U);
    EXPECT_EQ(hop_of(to(9, 0, through({3, 2}))), 1U);
    EXPECT_EQ(hop_of(to(7, 0, through({8, 2}))), 1U);
    // The same of the second one.
    EXPECT_EQ(hop_of(to(9, 1, through({3, 2}))), 2U);
    add_relay(4);  // which knows of relay 8
    EXPECT_EQ(hop_of(to(7, 1, through({4, 8}))), 2U);
    // The other end does not want it.
    EXPECT_EQ(hop_of(through({3, 2})), 2U);
    Peer awaited(1, 100);
    auto const from = awaiting(awaited, 1);
    EXPECT_EQ(hop_of(through({3, 2})), Dialer::kThere);
    wait_until([&] { return joined(2) == 0 && joined(3) == 0 && joined(4) == 0; });
}

TEST_F(RelayTest, PassesOnNoMoreThanItMay) {
    transport::wire::WireThreadOptions few;
    few.most_passed_on = 2;
    add_relay(5, few);
    Peer one(5, 1000);
    Peer two(5, 1000);
    auto const from = awaiting(two, 4);
    auto const to = dialing(one, routes_of(std::vector<Route>(4, through({5}))), 4);
    send_both_ways(one, *to, two, *from);
    EXPECT_TRUE(one.wait_for_all() && two.wait_for_all());
    EXPECT_EQ(joined(5), 2U);
}

/// Whoever knocks says a hello, and does what the handshake asks for as well as it can.
class Stranger {
public:
    Stranger(Address const& to, Hello const& hello, Secret const& secret)
        : socket_(begin_connecting({}, to)), handshake_(hello, secret) {
        wait_for(POLLOUT);
    }
    /// Until it is refused, or through.
    Handshake::State run() {
        auto state = Handshake::State::Going;
        while (state == Handshake::State::Going) {
            std::string const out = handshake_.take_output();
            if (send(socket_.get(), out.data(), out.size(), MSG_NOSIGNAL) < 0) break;
            wait_for(POLLIN);
            std::string in(handshake_.wants(), '\0');
            ssize_t const got = recv(socket_.get(), in.data(), in.size(), 0);
            if (got <= 0) return Handshake::State::Refused;
            state = handshake_.received({in.data(), std::size_t(got)});
        }
        return state;
    }

private:
    void wait_for(short what) const {
        pollfd polled{socket_.get(), what, 0};
        (void)poll(&polled, 1, 10'000);
    }
    Descriptor socket_;
    Handshake handshake_;
};

TEST_F(RelayTest, NobodyIsDialedForAStranger) {
    Descriptor const listener = transport::wire::listen_on(kAny);
    members[7] = transport::wire::address_of(listener);
    add_relay(6);
    Hello hello;
    hello.link = relays;
    hello.onward = Onward{7, 0};
    auto const knocks = [&](Hello const& with, std::uint8_t secret) {
        return Stranger(members[6], with, secret_of(secret)).run();
    };
    Address peer;
    int error = 0;
    // Without the secret; for a member that is none; in a link's name.
    EXPECT_EQ(knocks(hello, 2), Handshake::State::Refused);
    Hello nobody = hello;
    nobody.onward = Onward{8, 0};
    EXPECT_EQ(knocks(nobody, 1), Handshake::State::Refused);
    Peer awaited(1, 100);
    LinkName links_name{};
    links_name[0] = 9;
    SharedLink const link(*thirds[6]->thread, links_name, secret_of(1), nullptr, options(1),
                          awaited, far_board);
    Hello in_a_links_name = hello;
    in_a_links_name.link = links_name;
    EXPECT_EQ(knocks(in_a_links_name, 1), Handshake::State::Refused);
    // A relay's greeting that is a wire's.
    Hello wire = hello;
    wire.onward.reset();
    EXPECT_EQ(knocks(wire, 1), Handshake::State::Refused);
    EXPECT_FALSE(transport::wire::accept_from(listener, peer, error));
    // With it, to see that the above would have been noticed.
    EXPECT_EQ(knocks(hello, 1), Handshake::State::Done);
    EXPECT_TRUE(transport::wire::accept_from(listener, peer, error));
}

}  // namespace
}  // namespace mgi::test
