// Links on loopback, over TCP, plain and encrypted, and UCX: two wire threads in one process, and a stranger between them that cuts.
#include "mover/link/shared_link.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <mgi/runtime.hpp>

#include "support/hang_guard.hpp"
#include "support/random.hpp"
#include "transport/ucx/ucx.hpp"
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
using mover::link::Secret;
using mover::link::SharedLink;
using mover::link::Time;
using mover::link::WireThread;
using transport::wire::Address;
using transport::wire::WireThreadOptions;

enum class Medium { Tcp, Encrypted, Ucx };

// What moves the bytes, and whether others drive in the threads' place.
struct Way {
    Medium medium;
    bool driven;
};

class SharedLinkTest : public ::testing::TestWithParam<Way> {
protected:
    SharedLinkTest() : near(wire_options()), far(wire_options()) {
        set_log_level("error");
        name.fill(3);
        if (!GetParam().driven) return;
        // One that hardly pauses, and one that drives both, now and then.
        drivers.emplace_back([this] { drive(1, [this] { near.drive(); }); });
        drivers.emplace_back([this] { drive(400, [this] { near.drive(), far.drive(); }); });
    }
    ~SharedLinkTest() override {
        ended = true;
        for (std::thread& driver : drivers) driver.join();
        set_log_level("warn");
    }

    static WireThreadOptions wire_options() {
        WireThreadOptions it;
        if (GetParam().medium == Medium::Ucx) it.medium = transport::ucx::open();
        it.encryption.on = GetParam().medium == Medium::Encrypted;
        return it;
    }
    template <class Round>
    void drive(int pause, Round const& round) {
        while (!ended) {
            round();
            std::this_thread::sleep_for(std::chrono::microseconds(pause));
        }
    }
    LinkOptions options(std::uint32_t wires) const {
        LinkOptions it;
        it.slots.resize(wires);
        it.checksums = checksums;
        it.link_limit = link_limit;
        it.shortest_rest = rest;
        return it;
    }
    std::vector<Route> routes(std::uint32_t wires, Address const& to) const {
        return std::vector<Route>(wires, Route{Address("127.0.0.1:0"), to});
    }
    Address listen() { return far.listen({Address("127.0.0.1:0")}).front(); }

    bool checksums = false;
    Time rest = 50 * kMillisecond;
    Time link_limit = 20 * kSecond;
    LinkName name{};
    NicBoard near_board;
    NicBoard far_board;
    WireThread near;
    WireThread far;
    std::atomic<bool> ended = false;
    std::vector<std::thread> drivers;
};

TEST_P(SharedLinkTest, EverythingArrivesBothWays) {
    checksums = true;
    Peer one(300, 50'000);
    Peer two(300, 50'000);
    Address const address = listen();
    SharedLink to(near, name, secret_of(1), routes_of(routes(3, address)), options(3), one,
                  near_board);
    SharedLink from(far, name, secret_of(1), {}, options(3), two, far_board);
    one.link = &to;
    two.link = &from;
    send_both_ways(one, to, two, from);
    EXPECT_TRUE(one.wait_for_all()) << one.why();
    EXPECT_TRUE(two.wait_for_all()) << two.why();
    EXPECT_EQ(one.wrong() + two.wrong(), 0U);
    EXPECT_NE(to.describe().find("wire 2"), std::string::npos);
}

TEST_P(SharedLinkTest, ConnectionsThatAreCutLoseNothing) {
    rest = kMillisecond;
    Address const address = listen();
    Cutter cutter(address);
    Peer one(kSanitized ? 500 : 5000, 20'000);
    Peer two(kSanitized ? 500 : 5000, 20'000);
    std::vector<Route> ways = routes(3, cutter.address());
    ways[0].remote = address;  // one wire that lives, so that it goes on
    SharedLink to(near, name, secret_of(1), routes_of(ways), options(3), one, near_board);
    SharedLink from(far, name, secret_of(1), {}, options(3), two, far_board);
    one.link = &to;
    two.link = &from;
    std::atomic<bool> stop = false;
    std::thread cuts([&] {
        Random random(1);
        while (!stop) {
            std::this_thread::sleep_for(std::chrono::milliseconds(1 + random.below(20)));
            cutter.cut();
        }
    });
    send_both_ways(one, to, two, from);
    EXPECT_TRUE(one.wait_for_all()) << one.why();
    EXPECT_TRUE(two.wait_for_all()) << two.why();
    stop = true;
    cuts.join();
    EXPECT_EQ(one.wrong() + two.wrong(), 0U);
    EXPECT_GT(cutter.connections(), 2) << "nothing was cut while it was used";
}

TEST_P(SharedLinkTest, WithoutTheSecretThereIsNoWire) {
    link_limit = kSecond;
    Peer one(1, 100);
    Peer two(1, 100);
    Address const address = listen();
    SharedLink from(far, name, secret_of(2), {}, options(1), two, far_board);
    SharedLink to(near, name, secret_of(1), routes_of(routes(1, address)), options(1), one,
                  near_board);
    one.link = &to;
    two.link = &from;
    one.wait_for_failure();
    two.wait_for_failure();
    EXPECT_NE(one.why().find("does not know the link's secret"), std::string::npos) << one.why();
}

TEST_P(SharedLinkTest, StrangersDoNoHarm) {
    Address const address = listen();
    Peer one(20, 1000);
    Peer two(20, 1000);
    std::vector<transport::wire::Descriptor> strangers;
    for (int i = 0; i < 30; ++i) {
        strangers.push_back(transport::wire::begin_connecting({}, address));
        std::string const nonsense(1 + std::size_t(i) * 20, char(i));
        (void)send(strangers.back().get(), nonsense.data(), nonsense.size(), MSG_NOSIGNAL);
    }
    SharedLink to(near, name, secret_of(1), routes_of(routes(2, address)), options(2), one,
                  near_board);
    SharedLink from(far, name, secret_of(1), {}, options(2), two, far_board);
    one.link = &to;
    two.link = &from;
    send_both_ways(one, to, two, from);
    EXPECT_TRUE(one.wait_for_all()) << one.why();
    EXPECT_TRUE(two.wait_for_all()) << two.why();
}

TEST_P(SharedLinkTest, TheOtherEndHearsThatItEnds) {
    Address const address = listen();
    Peer one(5, 100);
    Peer two(5, 100);
    auto to = std::make_unique<SharedLink>(near, name, secret_of(1), routes_of(routes(2, address)),
                                           options(2), one, near_board);
    SharedLink from(far, name, secret_of(1), {}, options(2), two, far_board);
    one.link = to.get();
    two.link = &from;
    send_both_ways(one, *to, two, from);
    EXPECT_TRUE(one.wait_for_all() && two.wait_for_all());
    to.reset();
    two.wait_for_failure();
    EXPECT_NE(two.why().find("its runtime has ended"), std::string::npos) << two.why();
}

TEST_P(SharedLinkTest, NobodyThereIsAnError) {
    link_limit = kSecond / 2;
    Peer one(1, 100);
    Address nobody;
    {
        WireThread gone;
        nobody = gone.listen({Address("127.0.0.1:0")}).front();
    }
    SharedLink to(near, name, secret_of(1), routes_of(routes(1, nobody)), options(1), one,
                  near_board);
    one.link = &to;
    one.wait_for_failure();
    EXPECT_NE(one.why().find(nobody.text()), std::string::npos) << one.why();
}

TEST_P(SharedLinkTest, AnIdleLinkUsesNoProcessor) {
    if (GetParam().driven) GTEST_SKIP() << "who drives is not idle";
    Address const address = listen();
    Peer one(1, 100);
    Peer two(1, 100);
    SharedLink to(near, name, secret_of(1), routes_of(routes(4, address)), options(4), one,
                  near_board);
    SharedLink from(far, name, secret_of(1), {}, options(4), two, far_board);
    one.link = &to;
    two.link = &from;
    send_both_ways(one, to, two, from);
    EXPECT_TRUE(one.wait_for_all() && two.wait_for_all());
    // Wires that were not needed may still be connecting.
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    // How often the threads woke does not depend on how fast or how busy the machine is.
    std::uint64_t const before = near.wakeups() + far.wakeups();
    std::this_thread::sleep_for(std::chrono::milliseconds(1200));
    EXPECT_LT(near.wakeups() + far.wakeups() - before, 200U);
}

TEST_P(SharedLinkTest, AddressesThatAreTakenOrAnothersAreAnError) {
    Address const address = listen();
    EXPECT_THROW((void)near.listen({address}), Error);
    EXPECT_THROW((void)near.listen({Address("203.0.113.1:0")}), Error);
    Peer one(1, 100);
    SharedLink to(near, name, secret_of(1), routes_of(routes(1, address)), options(1), one,
                  near_board);
    EXPECT_THROW(SharedLink(near, name, secret_of(1), routes_of(routes(1, address)), options(1),
                            one, near_board),
                 Error);
}

std::vector<Way> ways() {
    std::vector<Way> all{{Medium::Tcp, false},
                         {Medium::Tcp, true},
                         {Medium::Encrypted, false},
                         {Medium::Encrypted, true}};
    if (MGI_TEST_UCX) all.insert(all.end(), {{Medium::Ucx, false}, {Medium::Ucx, true}});
    return all;
}

std::string name_of(::testing::TestParamInfo<Way> const& way) {
    constexpr std::array<char const*, 3> kNames{"Tcp", "Encrypted", "Ucx"};
    return std::string(kNames[std::size_t(way.param.medium)]) + (way.param.driven ? "Driven" : "");
}

INSTANTIATE_TEST_SUITE_P(Over, SharedLinkTest, ::testing::ValuesIn(ways()), name_of);

}  // namespace
}  // namespace mgi::test
