// Processes of one server over the agent's own sockets: they meet, share a descriptor, and leave.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <filesystem>
#include <future>
#include <string>

#include "control/agent/agent_process.hpp"
#include "support/expect_error.hpp"

namespace mgi::control::test {
namespace {

using mgi::test::expect_error;

class SharingProcesses : public AgentProcess {
protected:
    static std::size_t descriptors() {
        std::size_t count = 0;
        for (auto const& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
            (void)entry;
            ++count;
        }
        return count;
    }
    static Fd memory(std::string const& text) {
        Fd fd(memfd_create("mgi-test", MFD_CLOEXEC));
        EXPECT_EQ(write(fd.get(), text.data(), text.size()), ssize_t(text.size()));
        return fd;
    }
    static std::string text_of(Fd const& fd) {
        std::array<char, 64> text{};
        ssize_t const got = pread(fd.get(), text.data(), text.size(), 0);
        return {text.data(), std::size_t(std::max<ssize_t>(got, 0))};
    }
    ClusterOptions impatient() const {
        ClusterOptions made = client();
        made.timeout = std::chrono::milliseconds(500);
        return made;
    }
};

TEST_F(SharingProcesses, MeetAndShareAndLeave) {
    start();
    ClusterClient one(client());
    ClusterClient two(client());
    auto other = std::async(std::launch::async, [&] { return two.gather("key", 1, 2, "two"); });
    std::vector<std::string> const all{std::string("\0ne", 3), "two"};
    EXPECT_EQ(one.gather("key", 0, 2, all[0]), all);
    EXPECT_EQ(other.get(), all);

    ClusterEndpoint const a = one.create_endpoint();
    ClusterEndpoint const b = two.create_endpoint();
    ClusterPlan const plan = one.create_channel(flow(a, b));
    auto part = std::async(std::launch::async, [&] { return Fd(two.get_part(plan.channel)); });
    Fd const made = memory("the channel's");
    one.put_part(plan.channel, made.get());
    Fd const got = part.get();
    EXPECT_EQ(text_of(got), "the channel's");
    EXPECT_NE(fcntl(got.get(), F_GETFD) & FD_CLOEXEC, 0);

    one.leave_channel(plan.channel);
    one.leave_channel(plan.channel);
    one.close();
    EXPECT_TRUE(eventually([&] { return controller_->snapshot().endpoints.size() == 1; }));
    EXPECT_EQ(controller_->snapshot().channels.at(0).state, "running");
    two.leave_channel(plan.channel);
    EXPECT_TRUE(
        eventually([&] { return controller_->snapshot().channels.at(0).state == "deleted"; }));
    two.delete_endpoint(b.id);
}

TEST_F(SharingProcesses, WhoDoesNotComeIsNamed) {
    start();
    ClusterClient one(impatient());
    expect_error(ErrorCode::Timeout, {"gather 'key'", "ranks 0, 2 of 3 have not come"},
                 [&] { one.gather("key", 1, 3, ""); });
    expect_error(ErrorCode::InvalidArgument, {"rank 3 of 3"}, [&] { one.gather("key", 3, 3, ""); });
}

TEST_F(SharingProcesses, APartOutlivesTheAgent) {
    start();
    ClusterClient one(client());
    ClusterClient two(client());
    ClusterPlan const plan = one.create_channel(flow(one.create_endpoint(), two.create_endpoint()));
    one.put_part(plan.channel, memory("text").get());
    stop();
    start();
    EXPECT_EQ(text_of(Fd(two.get_part(plan.channel))), "text");
}

TEST_F(SharingProcesses, ABoardIsTheFirstOnesAlsoBehindTheAgentsRestart) {
    start();
    ClusterClient one(client());
    ClusterClient two(client());
    EXPECT_EQ(text_of(Fd(one.share_board(memory("one").get()))), "one");
    EXPECT_EQ(text_of(Fd(two.share_board(memory("two").get()))), "one");
    stop();
    start();
    // Whoever comes back first brings it along.
    (void)one.create_endpoint();
    (void)two.create_endpoint();
    ClusterClient three(client());
    EXPECT_EQ(text_of(Fd(three.share_board(memory("three").get()))), "one");
}

TEST_F(SharingProcesses, StrangersGetNothing) {
    start();
    ClusterClient one(client());
    ClusterClient two(client());
    ClusterPlan const plan = one.create_channel(flow(one.create_endpoint(), one.create_endpoint()));
    expect_error(ErrorCode::NotFound, {"get_part", "no endpoint of this application"},
                 [&] { (void)two.get_part(plan.channel); });
    expect_error(ErrorCode::NotFound, {"put_part"},
                 [&] { two.put_part(plan.channel, memory("x").get()); });
    expect_error(ErrorCode::NotFound, {"no endpoint of this application"},
                 [&] { two.leave_channel(plan.channel); });
    expect_error(ErrorCode::InvalidArgument, {"descriptor"},
                 [&] { one.put_part(plan.channel, -1); });
}

// Whatever an application sends, the agent's descriptors do not become more.
TEST_F(SharingProcesses, NoDescriptorIsLeaked) {
    start();
    ClusterClient one(impatient());
    ClusterPlan const plan = one.create_channel(flow(one.create_endpoint(), one.create_endpoint()));
    EXPECT_TRUE(eventually([&] { return !controller_->snapshot().channels.empty(); }));
    std::size_t const before = descriptors();
    auto const send_with = [&](Fd const& to, std::string const& bytes, std::size_t count) {
        std::vector<int> fds(count, to.get());
        iovec data{const_cast<char*>(bytes.data()), bytes.size()};
        alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * 8)> control{};
        msghdr message{};
        message.msg_iov = &data;
        message.msg_iovlen = 1;
        message.msg_control = control.data();
        message.msg_controllen = CMSG_SPACE(sizeof(int) * count);
        cmsghdr* const header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(sizeof(int) * count);
        std::memcpy(CMSG_DATA(header), fds.data(), sizeof(int) * count);
        return sendmsg(to.get(), &message, MSG_NOSIGNAL) == ssize_t(bytes.size());
    };
    std::string const hello = frame_of({{"op", "hello"},
                                        {"id", 0u},
                                        {"protocol", kSocketProtocol},
                                        {"version", "test"},
                                        {"name", "stranger"},
                                        {"pid", 1u}});
    std::string const put =
        frame_of({{"op", "put_part"}, {"id", 1u}, {"channel", plan.channel}, {"fd", true}});
    {
        Fd const many = raw();
        EXPECT_TRUE(send_with(many, hello, 5));
        EXPECT_NE(rest(many).find("no message speaks of"), std::string::npos);
        Fd const unasked = raw();
        say(unasked, hello);
        std::string const use = frame_of({{"op", "use"}, {"id", 0u}});
        for (std::size_t i = 0; i <= MessageSocket::kMostDescriptors; ++i) {
            EXPECT_TRUE(send_with(unasked, use, 1)) << i;
        }
        // The agent closes now. These lie unread in the socket then, or come too late.
        for (int i = 0; i < 3; ++i) (void)send_with(unasked, use, 1);
        EXPECT_NE(rest(unasked).find("no message speaks of"), std::string::npos);
        Fd const none = raw();
        say(none, hello + put);
        EXPECT_NE(rest(none).find("brings none"), std::string::npos);
        Fd const half = raw();
        EXPECT_TRUE(send_with(half, hello.substr(0, 10), 1));
        Fd const stranger = raw();
        say(stranger, hello);
        EXPECT_TRUE(send_with(stranger, put, 1));
        pollfd polled{stranger.get(), POLLIN, 0};
        EXPECT_EQ(poll(&polled, 1, 30'000), 1);
    }
    for (int i = 0; i < 8; ++i) one.put_part(plan.channel, memory("x").get());
    one.delete_channel(plan.channel);
    EXPECT_TRUE(eventually([&] { return descriptors() <= before; })) << descriptors() << before;
}

}  // namespace
}  // namespace mgi::control::test
