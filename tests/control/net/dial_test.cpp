// A host with several addresses, some of which say nothing.
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "control/net/parties.hpp"
#include "control/net/stream.hpp"

namespace mgi::control::net::test {
namespace {

sockaddr_in loopback(std::uint16_t port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
}

SocketAddress place(std::uint16_t port) {
    return resolve({"127.0.0.1", port}, false).at(0);
}

/// Listens and takes no more connections: the system drops what comes, as a firewall does.
class Silent {
public:
    Silent() : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
        sockaddr_in const at = loopback(0);
        EXPECT_EQ(bind(fd_.get(), reinterpret_cast<sockaddr const*>(&at), sizeof at), 0);
        EXPECT_EQ(listen(fd_.get(), 0), 0);
        port_ = local_address(fd_.get()).port();
        sockaddr_in const to = loopback(port_);
        for (bool full = false; !full;) {
            Fd one(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
            (void)::connect(one.get(), reinterpret_cast<sockaddr const*>(&to), sizeof to);
            pollfd polled{one.get(), POLLOUT, 0};
            full = poll(&polled, 1, 300) == 0;
            fill_.push_back(std::move(one));
        }
    }
    [[nodiscard]] SocketAddress address() const { return place(port_); }

private:
    Fd fd_;
    std::uint16_t port_ = 0;
    std::vector<Fd> fill_;
};

SocketAddress nobody() {
    Fd const fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in const at = loopback(0);
    EXPECT_EQ(bind(fd.get(), reinterpret_cast<sockaddr const*>(&at), sizeof at), 0);
    return place(local_address(fd.get()).port());
}

/// Once what earlier tests have left has closed.
std::size_t settled_files() {
    std::size_t files = open_files();
    for (bool changes = true; changes;) {
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
        std::size_t const now = open_files();
        changes = now != files;
        files = now;
    }
    return files;
}

struct NetDial : ::testing::Test {
    std::shared_ptr<Loop> loop = Loop::make();
    std::shared_ptr<Heard> heard = std::make_shared<Heard>();
    std::shared_ptr<Stream> stream =
        std::make_shared<Stream>(loop, heard, nullptr, StreamLimits{}, nullptr);

    ~NetDial() override { loop->stop(); }
    void connect(std::vector<SocketAddress> const& addresses,
                 std::chrono::milliseconds limit = kLong) {
        loop->post(
            [this, addresses, limit] { stream->connect(addresses, Loop::Clock::now() + limit); });
    }
};

TEST_F(NetDial, ASilentAddressDelaysTheNextOneALittle) {
    Server const server("127.0.0.1:0", nullptr, echoes());
    Silent const silent;
    Silent const another;
    std::size_t const before = settled_files();
    connect({silent.address(), another.address(), place(server.port()), silent.address()});
    stream->send("hello\n");
    EXPECT_EQ(heard->text(8), "welcome\n");
    EXPECT_EQ(stream->peer(), place(server.port()).text());
    // The others are closed: what is open is this connection, both of its ends.
    EXPECT_TRUE(eventually([&] { return open_files() == before + 2; }));
}

TEST_F(NetDial, TheNextOneFollowsAFailureAtOnce) {
    Server const server("127.0.0.1:0", nullptr, echoes());
    std::vector<SocketAddress> addresses(200, nobody());
    addresses.push_back(place(server.port()));
    connect(addresses, Dial::kNextAfter * 100);
    stream->send("hello\n");
    EXPECT_EQ(heard->text(8), "welcome\n");
}

TEST_F(NetDial, WhereNobodyListensTheSystemsWordSaysWhy) {
    SocketAddress const last = nobody();
    connect({nobody(), last});
    Ending const ending = heard->ended();
    EXPECT_EQ(stream->peer(), last.text());
    EXPECT_EQ(ending.why, Ending::Why::Unreachable);
    EXPECT_NE(ending.text.find("refused"), std::string::npos) << ending.text;
}

TEST_F(NetDial, OneDeadlineIsForAll) {
    Silent const silent;
    std::size_t const before = settled_files();
    connect({silent.address(), nobody(), silent.address()}, 600ms);
    EXPECT_EQ(heard->ended().why, Ending::Why::Late);
    EXPECT_EQ(open_files(), before);
}

TEST_F(NetDial, WhoClosesWhileItDialsLeavesNothing) {
    Silent const silent;
    std::size_t const before = settled_files();
    connect({silent.address(), silent.address(), silent.address()});
    EXPECT_TRUE(eventually([&] { return open_files() == before + 2; }));
    stream->close();
    EXPECT_EQ(heard->ended().why, Ending::Why::Closed);
    EXPECT_EQ(open_files(), before);
}

TEST_F(NetDial, TheLoopsEndEndsIt) {
    Silent const silent;
    std::size_t const before = settled_files();
    connect({silent.address(), silent.address()});
    EXPECT_TRUE(eventually([&] { return open_files() > before; }));
    loop->stop();
    EXPECT_EQ(heard->ended().why, Ending::Why::Stopped);
    EXPECT_EQ(open_files(), before);
}

TEST_F(NetDial, FamiliesComeInTurn) {
    if (!Fd(socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0))) GTEST_SKIP() << "no IPv6 here";
    Server const server("127.0.0.1:0", nullptr, echoes());
    Silent const silent;
    // Were they tried in this order, the last one's turn would come after the deadline.
    std::vector<SocketAddress> addresses(400, silent.address());
    sockaddr_in6 mapped{};
    mapped.sin6_family = AF_INET6;
    mapped.sin6_port = htons(server.port());
    mapped.sin6_addr.s6_addr[10] = mapped.sin6_addr.s6_addr[11] = 0xff;
    mapped.sin6_addr.s6_addr[12] = 127;
    mapped.sin6_addr.s6_addr[15] = 1;
    SocketAddress& six = addresses.emplace_back();
    std::memcpy(&six.storage, &mapped, sizeof mapped);
    six.size = sizeof mapped;
    connect(addresses);
    stream->send("hello\n");
    EXPECT_EQ(heard->text(8), "welcome\n");
}

}  // namespace
}  // namespace mgi::control::net::test
