// A server beside strangers: silent, slow, many, or deaf ones.
#include "control/net/server.hpp"

#include <gtest/gtest.h>

#include <thread>

#include <mgi/error.hpp>

#include "control/net/parties.hpp"

namespace mgi::control::net::test {
namespace {

using Why = Ending::Why;

/// Says hello and hears the welcome: an honest client is served.
bool is_served(Server const& server) {
    Stranger const honest(server.port());
    return honest.connected() && honest.say("hello\n") && honest.hear(8) == "welcome\n";
}

TEST(NetServer, SendsBackWhatAClientSays) {
    Server const server("127.0.0.1:0", nullptr, echoes());
    Client client;
    auto const heard = std::make_shared<Heard>();
    auto const connection = client.connect(address_of(server), nullptr, "", heard);
    connection->send("hello\n");
    connection->send("one ");
    connection->send("two");
    EXPECT_EQ(heard->text(15), "welcome\none two");
    connection->close();
    EXPECT_EQ(heard->ended().why, Why::Closed);
    EXPECT_TRUE(eventually([&] { return server.counts().connections == 0; }));
}

TEST(NetServer, ServesAHostByName) {
    Server const server("localhost:0", nullptr, echoes());
    Client client;
    auto const heard = std::make_shared<Heard>();
    client.connect("localhost:" + std::to_string(server.port()), nullptr, "", heard)
        ->send("hello\n");
    EXPECT_EQ(heard->text(8), "welcome\n");
}

TEST(NetServer, ItsPortIsItsAlone) {
    Server const server("127.0.0.1:0", nullptr, echoes());
    try {
        Server const second(address_of(server), nullptr, echoes());
        FAIL() << "two servers listen on one port";
    } catch (Error const& error) {
        EXPECT_EQ(error.code(), ErrorCode::Refused);
        EXPECT_NE(std::string(error.what()).find("in use"), std::string::npos) << error.what();
    }
}

TEST(NetServer, MuchGoesInOneMessageBothWays) {
    Server const server("127.0.0.1:0", nullptr, echoes());
    Client client;
    auto const heard = std::make_shared<Heard>();
    auto const connection = client.connect(address_of(server), nullptr, "", heard);
    std::string const much(20 << 20, 'x');
    connection->send("hello\n");
    connection->send(much);
    EXPECT_EQ(heard->text(much.size() + 8).size(), much.size() + 8);
}

TEST(NetServer, NobodyListensThere) {
    std::string address;
    {
        Server const server("127.0.0.1:0", nullptr, echoes());
        address = address_of(server);
    }
    Client client;
    auto const heard = std::make_shared<Heard>();
    client.connect(address, nullptr, "", heard);
    EXPECT_EQ(heard->ended().why, Why::Unreachable);
    auto const nowhere = std::make_shared<Heard>();
    client.connect("no-such-host.invalid:1", nullptr, "", nowhere);
    Ending const ending = nowhere->ended();
    EXPECT_TRUE(ending.why == Why::Unreachable || ending.why == Why::Late) << ending.text;
}

TEST(NetServer, WhoIsSilentIsCutAtTheDeadline) {
    ServerOptions options;
    options.prove_within = 100ms;
    Server const server("127.0.0.1:0", nullptr, echoes(), options);
    Stranger const silent(server.port());
    EXPECT_EQ(silent.hear(), "");  // its end
    EXPECT_TRUE(eventually([&] { return server.counts().turned_away == 1; }));
}

TEST(NetServer, WhoSaysAByteAtATimeIsCutAndDelaysNobody) {
    ServerOptions options;
    options.prove_within = 300ms;
    Server const server("127.0.0.1:0", nullptr, echoes(), options);
    Stranger const slow(server.port());
    while (slow.say("h") && !slow.readable(10ms)) EXPECT_TRUE(is_served(server));
    EXPECT_EQ(slow.hear(), "");
}

TEST(NetServer, AStrangersBytesAreBounded) {
    ServerOptions options;
    options.stranger_bytes = 100;
    Server const server("127.0.0.1:0", nullptr, echoes(), options);
    Stranger const loud(server.port());
    loud.say(std::string(101, 'x'));
    EXPECT_EQ(loud.hear(), "");
    // What comes behind a proof is not a stranger's.
    Stranger const honest(server.port());
    honest.say("hello\n" + std::string(1000, 'x'));
    EXPECT_EQ(honest.hear(1008).size(), 1008u);
}

TEST(NetServer, TheOldestStrangerMakesRoomWhateverItHasSaid) {
    ServerOptions options;
    options.most_strangers_of_one_address = 3;
    options.prove_within = kLong;
    Server const server("127.0.0.1:0", nullptr, echoes(), options);
    Stranger const first(server.port());
    first.say("hel");
    ASSERT_TRUE(is_served(server));  // what came before has been heard then
    ASSERT_EQ(server.counts().strangers, 1u);
    Stranger const second(server.port());
    ASSERT_TRUE(eventually([&] { return server.counts().strangers == 2; }));
    Stranger const third(server.port());
    ASSERT_TRUE(eventually([&] { return server.counts().strangers == 3; }));
    Stranger const fourth(server.port());
    EXPECT_EQ(first.hear(), "");
    EXPECT_TRUE(eventually([&] { return server.counts().strangers == 3; }));
    second.say("hello\n");
    EXPECT_EQ(second.hear(8), "welcome\n");
    fourth.say("hello\n");
    EXPECT_EQ(fourth.hear(8), "welcome\n");
    EXPECT_FALSE(third.readable(0ms));
}

TEST(NetServer, StrangersDoNotTakeThePlacesOfThoseWhoHaveProvenThemselves) {
    ServerOptions options;
    options.most = 8;
    Server const server("127.0.0.1:0", nullptr, echoes(), options);
    std::vector<std::unique_ptr<Stranger>> all;
    for (int i = 0; i < 8; ++i) {
        all.push_back(std::make_unique<Stranger>(server.port()));
        all.back()->say("hello\n");
        ASSERT_EQ(all.back()->hear(8), "welcome\n");
    }
    Stranger const late(server.port());
    EXPECT_EQ(late.hear(), "");  // no room
    all.pop_back();
    EXPECT_TRUE(eventually([&] { return is_served(server); }));
    for (auto const& one : all) {
        one->say("x");
        EXPECT_EQ(one->hear(1), "x");
    }
}

/// What gRPC 1.51's listener did not outlive: more silent connections than descriptors.
TEST(NetServer, SilentConnectionsBeyondItsDescriptorsEndNothing) {
#if defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "ThreadSanitizer starts no thread after a fork of a program with threads";
#endif
    EXPECT_EQ(with_descriptors(200,
                               [] {
                                   ServerOptions options;
                                   options.most = 10'000;  // more than there are descriptors
                                   options.most_strangers = 5000;
                                   options.most_strangers_of_one_address = 5000;
                                   Server const server("127.0.0.1:0", nullptr, echoes(), options);
                                   // They share this process' descriptors, so that accept has none before they are through.
                                   std::vector<std::unique_ptr<Stranger>> silent;
                                   for (int i = 0; i < 300; ++i) {
                                       auto one = std::make_unique<Stranger>(server.port());
                                       if (one->fd() >= 0) silent.push_back(std::move(one));
                                   }
                                   silent.resize(silent.size() - 4);
                                   auto const end = std::chrono::steady_clock::now() + 5s;
                                   while (!is_served(server)) {
                                       if (std::chrono::steady_clock::now() > end) return 11;
                                   }
                                   silent.clear();
                                   return is_served(server) ? 0 : 12;
                               }),
              0);
}

TEST(NetServer, SilentConnectionsKeepNobodyOut) {
    Server const server("127.0.0.1:0", nullptr, echoes());
    std::vector<std::unique_ptr<Stranger>> silent;
    for (int i = 0; i < 300; ++i) {
        silent.push_back(std::make_unique<Stranger>(server.port()));
        if (i % 20 == 0) {
            EXPECT_TRUE(is_served(server));
        }
    }
    EXPECT_TRUE(is_served(server));
    EXPECT_LE(server.counts().strangers, 17u);
}

TEST(NetServer, WhoDoesNotReadIsCut) {
    ServerOptions options;
    options.most_queued = 1 << 20;
    Server const server("127.0.0.1:0", nullptr, echoes(), options);
    Stranger const deaf(server.port());
    deaf.say("hello\n");
    std::string const much(64 << 10, 'x');
    bool cut = false;
    for (int i = 0; i < 10'000 && !cut; ++i) cut = !deaf.say(much);
    EXPECT_TRUE(cut);
    EXPECT_TRUE(is_served(server));
}

TEST(NetServer, WhoHasEndedItsHalfStillHearsTheRest) {
    Server const server("127.0.0.1:0", nullptr, echoes());
    Stranger const half(server.port());
    half.say("hello\n" + std::string(100'000, 'x'));
    half.end_sending();
    EXPECT_EQ(half.hear().size(), 100'008u);
    EXPECT_TRUE(eventually([&] { return server.counts().connections == 0; }));
}

/// A protocol that has its say and closes, while the other side still sends.
class Farewell final : public Protocol {
public:
    void on_open(std::shared_ptr<Connection> connection) override {
        connection->send(std::string(300'000, 'b'));
        connection->close();
    }
    void on_bytes(std::string_view) override { ADD_FAILURE() << "bytes after close"; }
    void on_end() override {}
    void on_close(Ending const& ending) override { EXPECT_EQ(ending.why, Ending::Why::Closed); }
};

TEST(NetServer, WhatWasSaidBeforeTheEndArrivesThoughThePeerStillSends) {
    Server const server("127.0.0.1:0", nullptr, [] { return std::make_shared<Farewell>(); });
    Stranger const talks(server.port());
    talks.say(std::string(10'000, 'x'));
    EXPECT_EQ(talks.hear().size(), 300'000u);
}

TEST(NetServer, ThousandsOfConnectionsLeaveNoDescriptor) {
    Server const server("127.0.0.1:0", nullptr, echoes());
    ASSERT_TRUE(is_served(server));
    ASSERT_TRUE(eventually([&] { return server.counts().connections == 0; }));
    std::size_t const before = open_files();
    for (int i = 0; i < 3000; ++i) {
        Stranger const one(server.port());
        if (i % 3 == 0) one.say("hello\n");
        if (i % 3 == 1) one.say("what?\n");
    }
    EXPECT_TRUE(is_served(server));
    EXPECT_TRUE(eventually([&] { return server.counts().connections == 0; }));
    EXPECT_EQ(open_files(), before);
}

/// The descriptor of this process that listens on a port.
int listening_socket(std::uint16_t port) {
    for (int fd = 0; fd < 1024; ++fd) {
        int listens = 0;
        socklen_t size = sizeof listens;
        if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) != 0 || listens == 0)
            continue;
        sockaddr_in own{};
        size = sizeof own;
        getsockname(fd, reinterpret_cast<sockaddr*>(&own), &size);
        if (ntohs(own.sin_port) == port) return fd;
    }
    return -1;
}

TEST(NetServer, AListenerThatBreaksIsOpenedAgain) {
    Server const server("127.0.0.1:0", nullptr, echoes());
    int const fd = listening_socket(server.port());
    ASSERT_GE(fd, 0);
    shutdown(fd, SHUT_RDWR);
    EXPECT_TRUE(eventually([&] { return is_served(server); }));
}

TEST(NetServer, AListenerThatStaysBrokenIsSaid) {
    std::atomic<bool> failed = false;
    ServerOptions options;
    options.reopen_within = 100ms;
    options.failed = [&](std::string const& why) {
        EXPECT_NE(why.find("cannot be listened on any more"), std::string::npos) << why;
        failed = true;
    };
    Server const server("127.0.0.1:0", nullptr, echoes(), options);
    int const fd = listening_socket(server.port());
    ASSERT_GE(fd, 0);
    // Another one takes the port in between.
    int const yes = 1;
    Fd const thief(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &yes, sizeof yes);
    setsockopt(thief.get(), SOL_SOCKET, SO_REUSEPORT, &yes, sizeof yes);
    sockaddr_in where{};
    where.sin_family = AF_INET;
    where.sin_port = htons(server.port());
    where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ASSERT_EQ(bind(thief.get(), reinterpret_cast<sockaddr*>(&where), sizeof where), 0);
    ASSERT_EQ(listen(thief.get(), 1), 0);
    shutdown(fd, SHUT_RDWR);
    EXPECT_TRUE(eventually([&] { return failed.load(); }));
}

}  // namespace
}  // namespace mgi::control::net::test
