// Encrypted links on loopback, and a stranger between their ends who hears, changes and turns away.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <mgi/error.hpp>
#include <mgi/runtime.hpp>

#include "mover/link/shared_link.hpp"
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
using transport::wire::EncryptionOptions;
using transport::wire::WireThreadOptions;

bool kernel_has_tls() {
    int const socket = ::socket(AF_INET, SOCK_STREAM, 0);
    // It must be connected for that; what it says else is that it knows the protocol.
    bool const there =
        setsockopt(socket, IPPROTO_TCP, TCP_ULP, "tls", sizeof("tls")) == 0 || errno == ENOTCONN;
    close(socket);
    return there;
}

WireThreadOptions encrypting(EncryptionOptions const& encryption) {
    WireThreadOptions options;
    options.encryption = encryption;
    return options;
}

/// Two processes, and whoever is between them.
class EncryptedLinkTest : public ::testing::Test {
protected:
    EncryptedLinkTest() {
        set_log_level("error");
        name.fill(3);
    }
    ~EncryptedLinkTest() override { set_log_level("warn"); }

    void make(EncryptionOptions const& by_near, EncryptionOptions const& by_far) {
        near = std::make_unique<WireThread>(encrypting(by_near));
        far = std::make_unique<WireThread>(encrypting(by_far));
        address = far->listen({Address("127.0.0.1:0")}).front();
        stranger = std::make_unique<Cutter>(address);
    }
    LinkOptions options() const {
        LinkOptions it;
        it.slots.resize(ways.size());
        it.link_limit = link_limit;
        it.shortest_rest = kMillisecond;
        return it;
    }
    Route to(Address const& remote) const { return {Address("127.0.0.1:0"), remote}; }
    /// All segments of both ends, or until they have failed.
    void send(Peer& one, Peer& two) {
        SharedLink from(*far, name, secret_of(1), {}, options(), two, far_board);
        SharedLink to(*near, name, secret_of(1), routes_of(ways), options(), one, near_board);
        one.link = &to;
        two.link = &from;
        send_both_ways(one, to, two, from);
        arrived = one.wait_for_all() && two.wait_for_all();
    }

    Time link_limit = 20 * kSecond;
    LinkName name{};
    NicBoard near_board;
    NicBoard far_board;
    std::unique_ptr<WireThread> near;
    std::unique_ptr<WireThread> far;
    Address address;
    std::unique_ptr<Cutter> stranger;
    std::vector<Route> ways;
    bool arrived = false;
};

bool has_rows(std::string const& heard) {
    std::string row(24, ' ');
    for (std::size_t i = 0; i < row.size(); ++i) row[i] = byte_of(2, 1000 + i);
    return heard.find(row) != std::string::npos;
}

TEST_F(EncryptedLinkTest, WhoIsBetweenTheEndsReadsNothing) {
    for (bool const on : {false, true}) {
        make({on}, {on});
        ways = {to(stranger->address())};
        stranger->listen();
        Peer one(20, 30'000);
        Peer two(20, 30'000);
        send(one, two);
        EXPECT_TRUE(arrived) << one.why() << two.why();
        EXPECT_EQ(one.wrong() + two.wrong(), 0U);
        std::string const heard = stranger->heard();
        EXPECT_GT(heard.size(), 2U * 20 * 30'000);
        EXPECT_EQ(has_rows(heard), !on);
    }
}

TEST_F(EncryptedLinkTest, WhatIsChangedOnItsWayArrivesAsItWasSent) {
    make({true}, {true});
    // One wire that lives, so that it goes on.
    ways = {to(address), to(stranger->address()), to(stranger->address())};
    Peer one(kSanitized ? 500 : 3000, 20'000);
    Peer two(kSanitized ? 500 : 3000, 20'000);
    std::atomic<bool> stop = false;
    std::thread changes([&] {
        while (!stop) {
            stranger->change(1000);  // behind the handshake
            std::this_thread::sleep_for(std::chrono::milliseconds(5));
        }
    });
    send(one, two);
    stop = true;
    changes.join();
    EXPECT_TRUE(arrived) << one.why() << two.why();
    EXPECT_EQ(one.wrong() + two.wrong(), 0U);
    EXPECT_GT(stranger->connections(), 2) << "nothing was changed while it was used";
}

TEST_F(EncryptedLinkTest, WithoutAnotherWireAChangeIsAnErrorOrSentAgain) {
    make({true}, {true});
    ways = {to(stranger->address())};
    for (std::size_t const behind : {170, 200, 5'000, 100'000}) {
        Peer one(30, 20'000);
        Peer two(30, 20'000);
        stranger->change(behind);
        send(one, two);
        EXPECT_TRUE(arrived) << one.why() << two.why();
        EXPECT_EQ(one.wrong() + two.wrong(), 0U);
    }
    // Each round has a wire, and another one where the change came before all had arrived.
    EXPECT_GT(stranger->connections(), 4);
}

TEST_F(EncryptedLinkTest, OneEndAloneIsAnErrorThatSaysWhatToDo) {
    link_limit = kSecond / 2;
    for (bool const on : {true, false}) {
        make({on}, {!on});
        ways = {to(address)};
        Peer one(1, 100);
        Peer two(1, 100);
        SharedLink from(*far, name, secret_of(1), {}, options(), two, far_board);
        SharedLink to(*near, name, secret_of(1), routes_of(ways), options(), one, near_board);
        one.link = &to;
        two.link = &from;
        one.wait_for_failure();
        two.wait_for_failure();
        EXPECT_NE(one.why().find("MGI_WIRE_ENCRYPTION"), std::string::npos) << one.why();
    }
}

TEST_F(EncryptedLinkTest, AKeyThatIsUsedUpGivesWayToAnother) {
    for (bool const both : {true, false}) {
        EncryptionOptions few{true};
        few.most_records = 40;
        make(few, both ? few : EncryptionOptions{true});
        ways = {to(stranger->address()), to(stranger->address())};
        Peer one(200, 30'000);
        Peer two(200, 30'000);
        send(one, two);
        EXPECT_TRUE(arrived) << one.why() << two.why();
        EXPECT_EQ(one.wrong() + two.wrong(), 0U);
        EXPECT_GT(stranger->connections(), 4);
    }
}

// One end by the kernel, the other by this process.
TEST_F(EncryptedLinkTest, TheKernelAndThisProcessMakeTheSameRecords) {
    if (!kernel_has_tls()) GTEST_SKIP() << "this kernel has no TLS (CONFIG_TLS)";
    for (bool const kernel : {true, false}) {
        make({true, kernel}, {true, !kernel});
        ways = {to(address), to(stranger->address())};
        Peer one(50, 100'000);
        Peer two(50, 100'000);
        send(one, two);
        EXPECT_TRUE(arrived) << one.why() << two.why();
        EXPECT_EQ(one.wrong() + two.wrong(), 0U);
    }
}

TEST_F(EncryptedLinkTest, ARelayPassesOnWhatItCannotRead) {
    make({true}, {true});
    WireThread third;  // which encrypts nothing itself
    LinkName relays{};
    relays.fill(9);
    third.pass_on(relays, secret_of(1), [&](auto const&) { return to(address); });
    Cutter before(third.listen({Address("127.0.0.1:0")}).front());
    before.listen();
    Route way = to(before.address());
    way.relays = relays;
    way.onward = {{0, 0}};
    ways = {way};
    Peer one(20, 30'000);
    Peer two(20, 30'000);
    send(one, two);
    EXPECT_TRUE(arrived) << one.why() << two.why();
    EXPECT_EQ(one.wrong() + two.wrong(), 0U);
    EXPECT_GT(before.heard().size(), 2U * 20 * 30'000);
    EXPECT_FALSE(has_rows(before.heard()));
    EXPECT_EQ(stranger->connections(), 0);
}

TEST(EncryptedWires, AreNoneOfAnotherMediums) {
    WireThreadOptions options = encrypting({true});
    options.medium = [](Address const&) -> std::unique_ptr<transport::wire::Medium> {
        return nullptr;
    };
    try {
        WireThread const thread(options);
        FAIL() << "it should say that it cannot";
    } catch (Error const& error) {
        EXPECT_EQ(error.code(), ErrorCode::InvalidArgument);
        EXPECT_NE(std::string(error.what()).find("MGI_WIRES=tcp"), std::string::npos);
    }
}

}  // namespace
}  // namespace mgi::test
