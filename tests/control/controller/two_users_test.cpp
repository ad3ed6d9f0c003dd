// A controller without token or certificates, and another user of its machine.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <unistd.h>

#include <string>
#include <thread>

#include "control/controller/served.hpp"
#include "control/http/client.hpp"
#include "control/http/server.hpp"
#include "control/rpc/frames.hpp"
#include "support/as_nobody.hpp"

namespace mgi::control::test {
namespace {

using mgi::test::answer_to_nobody;
using mgi::test::kNobody;

sockaddr_in loopback(std::uint16_t port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
}

std::string answer(std::uint16_t port, std::string const& words) {
    sockaddr_in const address = loopback(port);
    return answer_to_nobody(reinterpret_cast<sockaddr const*>(&address), sizeof address, words);
}

std::string first_frame() {
    ClientFrame frame;
    frame.mutable_hello()->set_transport(kTransport);
    return frame_with(frame);
}

SecurityOptions insecure() {
    SecurityOptions options;
    options.insecure = true;
    return options;
}

struct ControllerOfOneUser : ::testing::Test {
    void SetUp() override {
        if (geteuid() != 0) GTEST_SKIP() << "only root makes processes of other users";
    }
};

TEST_F(ControllerOfOneUser, RefusesOthers) {
    Served const served;
    EXPECT_NE(answer(served.port(), first_frame()).find("is user 65534's"), std::string::npos);
    WireAgent own(served, "node1");
    EXPECT_TRUE(own.join());
}

TEST_F(ControllerOfOneUser, TakesAllIfThatIsWanted) {
    Served const served({}, insecure());
    ServerFrame frame;
    std::string const bytes = answer(served.port(), first_frame());
    ASSERT_GT(bytes.size(), kFrameHead);
    ASSERT_TRUE(frame.ParseFromString(bytes.substr(kFrameHead)));
    EXPECT_TRUE(frame.has_welcome());
}

TEST_F(ControllerOfOneUser, ShowsOthersNoPage) {
    Security const security{SecurityOptions{}};
    HttpServer const server({"127.0.0.1:0"}, security,
                            {"page", [] { return std::string("{\"secret\":1}"); },
                             [] { return std::string("secret 1\n"); }});
    auto const port = std::uint16_t(std::stoi(server.url().substr(server.url().rfind(':') + 1)));
    for (char const* path : {"/", "/status.json", "/metrics"}) {
        std::string const said =
            answer(port, "GET " + std::string(path) + " HTTP/1.1\r\nHost: localhost\r\n\r\n");
        EXPECT_NE(said.find("403"), std::string::npos) << said;
        EXPECT_NE(said.find("is user 65534's"), std::string::npos) << said;
        EXPECT_EQ(said.find("secret"), std::string::npos) << said;
    }
    EXPECT_NE(answer(port, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").find("200"),
              std::string::npos);
    EXPECT_EQ(mgi::test::http_get(server.url(), "/status.json").status, 200);
}

// It has taken a dead controller's port.
TEST_F(ControllerOfOneUser, AnotherUsersProgramIsNoController) {
    int ends[2] = {-1, -1};
    ASSERT_EQ(pipe(ends), 0);
    pid_t const child = fork();
    if (child == 0) {
        if (setuid(kNobody) != 0) _exit(1);
        int const fd = socket(AF_INET, SOCK_STREAM, 0);
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        socklen_t size = sizeof address;
        if (bind(fd, reinterpret_cast<sockaddr*>(&address), size) != 0 || listen(fd, 4) != 0 ||
            getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0 ||
            ::write(ends[1], &address.sin_port, sizeof address.sin_port) !=
                ssize_t(sizeof address.sin_port)) {
            _exit(1);
        }
        int const caller = accept(fd, nullptr, nullptr);
        char byte = 0;
        _exit(::read(caller, &byte, 1) > 0 ? 3 : 0);  // it hears not a word
    }
    close(ends[1]);
    std::uint16_t port = 0;
    ASSERT_EQ(::read(ends[0], &port, sizeof port), ssize_t(sizeof port));
    close(ends[0]);
    CallRequest request;
    request.set_number(1);
    request.mutable_status()->set_protocol(kProtocol);
    auto const [outcome, nothing] = call_once("127.0.0.1:" + std::to_string(ntohs(port)),
                                              std::make_shared<Security const>(SecurityOptions{}),
                                              request, std::chrono::seconds(10));
    EXPECT_NE(outcome.code(), Outcome::OK);
    EXPECT_NE(outcome.text().find("is user 65534's"), std::string::npos) << outcome.text();
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace mgi::control::test
