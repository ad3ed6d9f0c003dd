// The user at the other end of a connection within this machine.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <string>

#include "control/local/socket.hpp"
#include "control/net/peer_user.hpp"

namespace mgi::control::net {
namespace {

constexpr uid_t kNobody = 65534;

/// A listening socket and the address to reach it by.
struct Listening {
    explicit Listening(int family, bool mapped = false)
        : fd(socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
        sockaddr_in four{};
        four.sin_family = AF_INET;
        four.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        sockaddr_in6 six{};
        six.sin6_family = AF_INET6;
        six.sin6_addr = mapped ? in6addr_any : in6addr_loopback;
        int const only = 0;
        if (family == AF_INET6) setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &only, sizeof only);
        bool const bound =
            family == AF_INET ? bind(fd.get(), reinterpret_cast<sockaddr*>(&four), sizeof four) == 0
                              : bind(fd.get(), reinterpret_cast<sockaddr*>(&six), sizeof six) == 0;
        usable = bound && listen(fd.get(), 4) == 0;
        size = sizeof to;
        getsockname(fd.get(), reinterpret_cast<sockaddr*>(&to), &size);
        if (!mapped) return;
        four.sin_port = reinterpret_cast<sockaddr_in6&>(to).sin6_port;
        std::memcpy(&to, &four, sizeof four);
        size = sizeof four;
    }
    [[nodiscard]] Fd connect() const {
        Fd made(socket(to.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
        EXPECT_EQ(::connect(made.get(), reinterpret_cast<sockaddr const*>(&to), size), 0);
        return made;
    }
    [[nodiscard]] Fd accept() const { return Fd(::accept(fd.get(), nullptr, nullptr)); }

    Fd fd;
    sockaddr_storage to{};
    socklen_t size = 0;
    bool usable = false;
};

struct PeerUser : ::testing::TestWithParam<int> {};

TEST_P(PeerUser, IsThisOneAtBothEnds) {
    Listening const listening(GetParam() == AF_INET ? AF_INET : AF_INET6, GetParam() == 0);
    if (!listening.usable) GTEST_SKIP() << "this machine has no such addresses";
    Fd const client = listening.connect();
    Fd const server = listening.accept();
    for (int const end : {client.get(), server.get()}) {
        EXPECT_EQ(other_end(end).user, geteuid()) << other_end(end).why;
        EXPECT_EQ(wrong_user(other_end(end)), "");
    }
}

INSTANTIATE_TEST_SUITE_P(Families, PeerUser, ::testing::Values(AF_INET, AF_INET6, 0));

TEST(PeerUser, IsWhoListensUntilAConnectionIsAccepted) {
    Listening const listening(AF_INET);
    Fd const client = listening.connect();
    EXPECT_EQ(other_end(client.get()).user, geteuid()) << other_end(client.get()).why;
}

// The kernel shows what is nobody's any more as root's.
TEST(PeerUser, OfAClosedConnectionIsNobody) {
    Listening const listening(AF_INET);
    Fd client = listening.connect();
    Fd const server = listening.accept();
    client.reset();
    pollfd ended{server.get(), POLLIN, 0};
    ASSERT_EQ(poll(&ended, 1, 5000), 1);
    EXPECT_EQ(other_end(server.get()).user, std::nullopt);
    EXPECT_TRUE(other_end(server.get()).closed);
    EXPECT_FALSE(wrong_user(other_end(server.get())).empty());
}

TEST(PeerUser, IsKnownWhateverAddressTheOtherEndTakes) {
    Listening const listening(AF_INET);
    Fd client(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in from{};
    from.sin_family = AF_INET;
    from.sin_addr.s_addr = htonl(0x7f00002a);  // 127.0.0.42
    ASSERT_EQ(bind(client.get(), reinterpret_cast<sockaddr*>(&from), sizeof from), 0);
    ASSERT_EQ(
        ::connect(client.get(), reinterpret_cast<sockaddr const*>(&listening.to), listening.size),
        0);
    Fd const server = listening.accept();
    EXPECT_EQ(other_end(server.get()).user, geteuid()) << other_end(server.get()).why;
}

TEST(PeerUser, MayBeAnotherOne) {
    if (geteuid() != 0) GTEST_SKIP() << "only root makes processes of other users";
    Listening const listening(AF_INET);
    pid_t const child = fork();
    if (child == 0) {
        if (setuid(kNobody) != 0) _exit(1);
        Fd const client(socket(AF_INET, SOCK_STREAM, 0));
        if (::connect(client.get(), reinterpret_cast<sockaddr const*>(&listening.to),
                      listening.size) != 0) {
            _exit(2);
        }
        char byte = 0;
        (void)!read(client.get(), &byte, 1);  // until the other end is closed
        _exit(0);
    }
    {
        Fd const server = listening.accept();
        EXPECT_EQ(other_end(server.get()).user, kNobody) << other_end(server.get()).why;
        EXPECT_NE(wrong_user(other_end(server.get())).find("user 65534's"), std::string::npos);
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace mgi::control::net
