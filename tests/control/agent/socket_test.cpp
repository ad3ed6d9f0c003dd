// Where an agent listens: its own place, and nobody else's.
#include "control/local/socket.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include "support/expect_error.hpp"
#include "support/fake_agent.hpp"

namespace mgi::control {
namespace {

using mgi::test::expect_error;

class AgentsSocket : public ::testing::Test {
protected:
    mgi::test::TemporaryFolder folder_;
};

// The lock says so although nobody answers at the socket, as in an agent that starts or is frozen.
TEST_F(AgentsSocket, AnAgentsLockKeepsAnotherOut) {
    std::string const path = folder_.file("agent.sock");
    Listener const first = listen_for_applications(path);
    std::filesystem::remove(path);
    expect_error(ErrorCode::Refused, {"another agent listens", path + ".lock", "--socket"},
                 [&] { (void)listen_for_applications(path); });
}

TEST_F(AgentsSocket, ADeadAgentsSocketIsReplacedAndNothingElse) {
    std::string const path = folder_.file("agent.sock");
    std::optional<Listener> agent = listen_for_applications(path);
    agent.reset();
    ASSERT_TRUE(std::filesystem::exists(path));
    agent = listen_for_applications(path);
    EXPECT_TRUE(connect_to_agent(path));
    // It listens, and its lock was removed by hand.
    std::filesystem::remove(path + ".lock");
    expect_error(ErrorCode::Refused, {"another agent listens", "--socket"},
                 [&] { (void)listen_for_applications(path); });
    EXPECT_TRUE(connect_to_agent(path));
    std::ofstream(folder_.file("text")) << "no socket";
    expect_error(ErrorCode::Refused, {"no socket", "--socket"},
                 [&] { (void)listen_for_applications(folder_.file("text")); });
    EXPECT_TRUE(std::filesystem::exists(folder_.file("text")));
}

TEST_F(AgentsSocket, OthersMayNotReplaceIt) {
    std::string const folder = folder_.file("all");
    std::filesystem::create_directory(folder);
    std::filesystem::permissions(folder, std::filesystem::perms::all);
    expect_error(ErrorCode::Refused, {folder, "written to by everybody", "--socket"},
                 [&] { (void)listen_for_applications(folder + "/agent.sock"); });
    // Folders that it makes are nobody else's, whatever the umask.
    mode_t const before = umask(0);
    std::string const made = folder_.file("made");
    std::optional<Listener> agent = listen_for_applications(made + "/here/agent.sock");
    umask(before);
    for (std::string const& one : {made, made + "/here"}) {
        EXPECT_EQ(std::filesystem::status(one).permissions() &
                      (std::filesystem::perms::group_write | std::filesystem::perms::others_write),
                  std::filesystem::perms::none);
    }
    std::filesystem::remove(made + "/here/agent.sock.lock");
    std::filesystem::create_symlink(folder_.file("precious"), made + "/here/agent.sock.lock");
    agent.reset();
    expect_error(ErrorCode::NotFound, {"agent.sock.lock"},
                 [&] { (void)listen_for_applications(made + "/here/agent.sock"); });
    EXPECT_FALSE(std::filesystem::exists(folder_.file("precious")));
}

/// Two ends of one connection.
class MessagePair : public ::testing::Test {
protected:
    void SetUp() override {
        int ends[2] = {-1, -1};
        ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
        one_.emplace(Fd(ends[0]), kMostAnswerBytes);
        other_.emplace(Fd(ends[1]), kMostAnswerBytes);
    }
    /// A file that has this text.
    static Fd file(std::string const& text) {
        Fd fd(memfd_create("mgi-test", MFD_CLOEXEC));
        EXPECT_EQ(::write(fd.get(), text.data(), text.size()), ssize_t(text.size()));
        return fd;
    }
    static std::string text_of(Fd const& fd) {
        std::string text(64, '\0');
        ssize_t const got = pread(fd.get(), text.data(), text.size(), 0);
        return text.substr(0, got < 0 ? 0 : std::size_t(got));
    }
    /// The next message that arrives.
    Json next() {
        for (;;) {
            if (auto message = other_->next()) return *message;
            one_->write();
            other_->read();
        }
    }
    std::optional<MessageSocket> one_;
    std::optional<MessageSocket> other_;
};

TEST_F(MessagePair, DescriptorsComeWithTheirMessages) {
    std::string const large(3u << 20, 'x');  // many times what a socket takes at once
    for (int i = 0; i < 12; ++i) {
        std::string const text = std::to_string(i);
        Json message = {{"number", i}, {"fd", true}};
        if (i % 3 == 1) message["text"] = large;
        if (i % 4 == 3) {
            message.erase("fd");
            one_->queue(frame_of(message));
        } else {
            one_->queue(frame_of(message), file(text));
        }
    }
    for (int i = 0; i < 12; ++i) {
        Json const message = next();
        ASSERT_EQ(message["number"], i);
        if (!has(message, "fd")) continue;
        Fd const fd = other_->take_descriptor();
        EXPECT_EQ(text_of(fd), std::to_string(i));
        EXPECT_NE(fcntl(fd.get(), F_GETFD) & FD_CLOEXEC, 0);
    }
    EXPECT_EQ(one_->queued(), 0u);
    expect_error(ErrorCode::InvalidArgument, {"brings none"},
                 [&] { (void)other_->take_descriptor(); });
}

// Where no descriptor is free, the one that got lost keeps its place: the next is not taken for it.
TEST_F(MessagePair, ADescriptorThatGotLostIsNoOtherMessages) {
    one_->queue(frame_of({{"number", 0}, {"fd", true}}), file("lost"));
    one_->queue(frame_of({{"number", 1}, {"fd", true}}), file("kept"));
    one_->write();
    rlimit before{};
    ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
    rlimit none = before;
    none.rlim_cur = 0;  // what is open stays open
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
    bool const read = other_->read();
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
    ASSERT_TRUE(read);
    EXPECT_EQ(next()["number"], 0);
    EXPECT_FALSE(other_->take_descriptor());
    EXPECT_EQ(next()["number"], 1);
    EXPECT_EQ(text_of(other_->take_descriptor()), "kept");
}

TEST_F(MessagePair, NobodyIsFloodedWithDescriptors) {
    std::size_t const most = MessageSocket::kMostDescriptors;
    for (std::size_t i = 0; i <= most; ++i) {
        one_->queue(frame_of({{"number", i}}), file("x"));
    }
    expect_error(ErrorCode::InvalidArgument, {"no message speaks of"}, [&] {
        for (std::size_t i = 0; i <= most; ++i) (void)next();
    });
}

}  // namespace
}  // namespace mgi::control
