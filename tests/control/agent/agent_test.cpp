// The agent's process as it is: its sockets and threads, a controller in the same process, and
// applications through the library's own client or through raw bytes.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include "control/agent/agent_process.hpp"
#include "support/expect_error.hpp"
#include "support/fake_agent.hpp"

namespace mgi::control {
namespace {

using mgi::test::expect_error;
using test::AgentProcess;
using test::Controller;
using test::small_server;

TEST_F(AgentProcess, ServesApplications) {
    start();
    ClusterClient one(client());
    ClusterClient two(client());
    EXPECT_EQ(one.server(), "node1");
    ClusterEndpoint const source = one.create_endpoint("cpu0");
    ClusterEndpoint const destination = two.create_endpoint();
    EXPECT_EQ(destination.device, "gpu0");
    ClusterPlan const plan = one.create_channel(flow(source, destination));
    EXPECT_EQ(plan.table, "table");
    EXPECT_NE(one.status().find("\"flow\""), std::string::npos);
    EXPECT_TRUE(eventually(
        [&] { return agent_->status_json().find("\"endpoints\":2") != std::string::npos; }));
    expect_error(ErrorCode::InvalidArgument, {"endpoint 1", "channel 1"},
                 [&] { one.delete_endpoint(source.id); });
    one.delete_channel(plan.channel);
    one.delete_endpoint(source.id);
    expect_error(ErrorCode::NotFound, {"endpoint"}, [&] { one.delete_endpoint(source.id); });
}

TEST_F(AgentProcess, ControllerAndAgentMayBeStartedAgain) {
    start();
    ClusterClient client(this->client());
    ClusterEndpoint const a = client.create_endpoint();
    ClusterEndpoint const b = client.create_endpoint();
    ClusterPlan const plan = client.create_channel(flow(a, b));
    controller_ = nullptr;
    controller_ = std::make_unique<Controller>(folder_.file("state"), address_);
    ClusterEndpoint const c = client.create_endpoint();
    EXPECT_GT(c.id, b.id);
    stop();
    start();
    ClusterPlan const second = client.create_channel(flow(b, c));
    EXPECT_GT(second.channel, plan.channel);
    client.check_channel(plan.channel);
    EXPECT_TRUE(eventually([&] {
        std::size_t running = 0;
        for (auto const& view : controller_->snapshot().channels) {
            running += view.state == "running" ? 1 : 0;
        }
        return running == 2;
    }));
    client.check_channel(plan.channel);
}

TEST_F(AgentProcess, AnApplicationsEndIsSeen) {
    start();
    {
        ClusterClient client(this->client());
        (void)client.create_endpoint();
        EXPECT_TRUE(eventually([&] { return controller_->snapshot().endpoints.size() == 1; }));
    }
    EXPECT_TRUE(eventually([&] { return controller_->snapshot().endpoints.empty(); }));
}

TEST_F(AgentProcess, NonsenseIsAnsweredAndTheConnectionClosed) {
    start();
    std::string const bytes[] = {std::string("\xff\xff\xff\xff", 4), std::string("\0\0\0\0", 4),
                                 std::string("\3\0\0\0\1\2\3", 7),
                                 std::string("GET / HTTP/1.1\r\nHost: x\r\n\r\n"),
                                 frame_of({{"op", "status"}, {"id", 1u}})};
    for (std::string const& nonsense : bytes) {
        Fd const fd = raw();
        say(fd, nonsense);
        std::string const answer = rest(fd);
        bool const said = answer.find("expected") != std::string::npos ||
                          answer.find("before a hello") != std::string::npos;
        EXPECT_TRUE(said) << answer;
    }
    // A message that is cut off by its sender's end is nobody's.
    say(raw(), std::string("\x10\0\0\0\xa1", 5));
    ClusterClient client(this->client());
    (void)client.create_endpoint();
}

TEST_F(AgentProcess, AHelloMayBeLargerThanOtherRequests) {
    start();
    Json hello = {{"op", "hello"},
                  {"id", 0u},
                  {"protocol", kSocketProtocol},
                  {"name", "large"},
                  {"more", std::string(2 << 20, 'x')}};
    Fd const fd = raw();
    say(fd, frame_of(hello));
    MessageSocket answers(Fd(dup(fd.get())), kMostAnswerBytes);
    std::optional<Json> answer;
    ASSERT_TRUE(eventually([&] {
        answers.read();
        return bool(answer = answers.next());
    }));
    EXPECT_TRUE(flag_in(*answer, "ok"));
    say(fd, frame_of(hello));
    EXPECT_NE(rest(fd).find("expected 1 to 1048576"), std::string::npos);
}

TEST_F(AgentProcess, HostileApplicationsDoNotStallOthers) {
    start();
    Json const hello = {{"op", "hello"},
                        {"id", 0u},
                        {"protocol", kSocketProtocol},
                        {"name", "hostile"},
                        {"pid", 1u}};
    std::atomic<bool> stop = false;
    std::vector<std::thread> hostile;
    hostile.emplace_back([&] {  // floods, and never reads
        while (!stop) {
            Fd const fd = raw();
            say(fd, frame_of(hello));
            std::string flood;
            for (int i = 0; i < 5000; ++i) flood += frame_of({{"op", "nothing"}, {"id", 1u}});
            for (int i = 0; i < 20 && !stop; ++i) {
                pollfd polled{fd.get(), POLLOUT, 0};
                if (poll(&polled, 1, 20) <= 0) break;
                (void)!::send(fd.get(), flood.data(), flood.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
            }
        }
    });
    hostile.emplace_back([&] {  // begins messages and does not end them
        std::vector<Fd> open;
        while (!stop) {
            if (open.size() > 50) open.clear();
            open.push_back(raw());
            say(open.back(), std::string("\0\0\x08\0\xa1", 5));
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
    });
    for (int i = 0; i < 20; ++i) {
        ClusterClient client(this->client());
        ClusterEndpoint const endpoint = client.create_endpoint();
        client.delete_endpoint(endpoint.id);
    }
    stop = true;
    for (auto& thread : hostile) thread.join();
}

TEST_F(AgentProcess, AProcessThatEndsIsSeenAlthoughItsChildKeepsTheSocket) {
    start();
    int held[2];
    ASSERT_EQ(pipe(held), 0);
    Json const hello = {{"op", "hello"},
                        {"id", 0u},
                        {"protocol", kSocketProtocol},
                        {"name", "parent"},
                        {"pid", 1u}};
    std::string const words =
        frame_of(hello) +
        frame_of({{"op", "create_endpoint"}, {"id", 1u}, {"request", "request-1"}});
    std::string const path = folder_.file("agent.sock");
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    ASSERT_LT(path.size(), sizeof(address.sun_path));
    path.copy(address.sun_path, path.size());
    pid_t const child = fork();
    if (child == 0) {
        // Only what a child of many threads may do: system calls. Others may have held the heap's locks.
        int const fd = socket(AF_UNIX, SOCK_STREAM, 0);
        if (connect(fd, reinterpret_cast<sockaddr const*>(&address), sizeof(address)) != 0 ||
            ::write(fd, words.data(), words.size()) != ssize_t(words.size())) {
            _exit(1);
        }
        char buffer[64];
        (void)!::read(held[0], buffer, 1);
        if (fork() == 0) {
            (void)!::read(held[0], buffer, 1);
            _exit(0);
        }
        _exit(0);
    }
    EXPECT_TRUE(eventually([&] { return controller_->snapshot().endpoints.size() == 1; }));
    (void)!::write(held[1], "x", 1);
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_TRUE(eventually([&] { return controller_->snapshot().endpoints.empty(); }));
    (void)!::write(held[1], "x", 1);
    ::close(held[0]);
    ::close(held[1]);
}

TEST_F(AgentProcess, WithoutAControllerItSaysSo) {
    controller_ = nullptr;
    start();
    ClusterOptions options = client();
    options.timeout = std::chrono::milliseconds(300);
    ClusterClient client(options);
    expect_error(ErrorCode::Timeout, {"create_endpoint took too long", address_},
                 [&] { (void)client.create_endpoint(); });
}

TEST_F(AgentProcess, OptionsThatCannotBeAreNamed) {
    AgentOptions options;
    options.socket = folder_.file("agent.sock");
    options.graph = small_server();
    expect_error(ErrorCode::InvalidArgument, {"--controller"}, [&] { Agent agent(options); });
    options.controllers = {address_};
    options.graph.servers = 2;
    expect_error(ErrorCode::InvalidArgument, {"one server", "has 2"},
                 [&] { Agent agent(options); });
    options.graph.servers = 1;
    options.socket = folder_.file("nothing") + "/" + std::string(200, 'x');
    expect_error(ErrorCode::InvalidArgument, {"at most 107 bytes"}, [&] { Agent agent(options); });
    options.socket = "/proc/agent.sock";
    expect_error(ErrorCode::NotFound, {"/proc/agent.sock", "--socket"},
                 [&] { Agent agent(options); });
}

}  // namespace
}  // namespace mgi::control
