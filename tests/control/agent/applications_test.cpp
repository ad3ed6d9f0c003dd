// The applications' socket without an agent behind it.
#include "control/agent/applications.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "support/as_nobody.hpp"
#include "support/temporary_folder.hpp"

namespace mgi::control {
namespace {

class Applications : public ::testing::Test {
protected:
    /// Connects; the agent has its id when a message has arrived.
    ApplicationId come() {
        socket_.queue(frame_of({{"op", "hello"}}));
        while (came_ == 0) step();
        return came_;
    }
    void step() {
        socket_.write();
        server_.serve();
    }
    /// The next message that the agent has told it; none once it has closed.
    std::optional<Json> told() {
        try {
            for (;;) {
                if (auto message = socket_.next()) return message;
                socket_.read();
                server_.serve();
            }
        } catch (Error const&) {
            return std::nullopt;
        }
    }

    mgi::test::TemporaryFolder folder_;
    ApplicationId came_ = 0;
    std::string left_;
    ApplicationServer server_{folder_.file("agent.sock"),
                              {[](ApplicationId, std::uint32_t, std::uint32_t) {},
                               [this](ApplicationId id, Json const&, Fd) { came_ = id; },
                               [this](ApplicationId, std::string const& why) { left_ = why; }}};
    MessageSocket socket_{connect_to_agent(folder_.file("agent.sock")), kMostAnswerBytes};
};

// The status of a large cluster, or a large plan, is longer than what was a limit once.
TEST_F(Applications, WhatFollowsALargeAnswerWaitsForIt) {
    ApplicationId const id = come();
    server_.tell(id, {{"status", std::string(20u << 20, 'x')}});
    server_.tell(id, {{"notice", "server"}});
    server_.tell(id, {{"notice", "plan"}});
    server_.serve();
    EXPECT_EQ(left_, "");
    auto const status = told();
    ASSERT_TRUE(status);
    EXPECT_EQ(text_in(*status, "status", kMostAnswerBytes).size(), 20u << 20);
    EXPECT_EQ(told().value_or(Json())["notice"], "server");
    EXPECT_EQ(told().value_or(Json())["notice"], "plan");
}

TEST_F(Applications, WhoNeverReadsIsClosed) {
    ApplicationId const id = come();
    Json const large = {{"status", std::string(30u << 20, 'x')}};
    for (int i = 0; i < 4; ++i) server_.tell(id, large);
    server_.serve();
    EXPECT_EQ(left_, "it does not read what it is told");
}

/// All descriptors but some are taken while it lives.
class FewDescriptors {
public:
    explicit FewDescriptors(std::size_t left) {
        EXPECT_EQ(getrlimit(RLIMIT_NOFILE, &before_), 0);
        rlimit few = before_;
        few.rlim_cur = std::min<rlim_t>(before_.rlim_cur, 512);
        EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
        for (Fd fd(dup(STDERR_FILENO)); fd; fd = Fd(dup(STDERR_FILENO)))
            taken_.push_back(std::move(fd));
        EXPECT_GE(taken_.size(), left);
        taken_.resize(taken_.size() - left);
    }
    FewDescriptors(FewDescriptors const&) = delete;
    FewDescriptors& operator=(FewDescriptors const&) = delete;
    ~FewDescriptors() { setrlimit(RLIMIT_NOFILE, &before_); }

private:
    rlimit before_{};
    std::vector<Fd> taken_;
};

// An application takes a descriptor, and the first one of a user another one.
TEST_F(Applications, WhoTakesTheLastDescriptorIsTurnedAwayAndTheNextOneIsServed) {
    {
        FewDescriptors const few(1);
        EXPECT_NO_THROW(server_.serve());
        EXPECT_FALSE(told());
    }
    EXPECT_EQ(came_, 0u);
    EXPECT_EQ(left_, "");
    socket_ = MessageSocket(connect_to_agent(folder_.file("agent.sock")), kMostAnswerBytes);
    EXPECT_NE(come(), 0u);
}

/// Counts what comes of whom.
struct ApplicationsOfUsers : ::testing::Test {
    void SetUp() override {
        if (geteuid() != 0) GTEST_SKIP() << "only root makes connections of other users";
        // Others may come in, as members of the socket's group may.
        ASSERT_EQ(chmod(path.substr(0, path.rfind('/')).c_str(), 0755), 0);
        ASSERT_EQ(chmod(path.c_str(), 0666), 0);
    }
    MessageSocket connect_as(std::uint32_t uid) {
        // Of this thread alone, and for as long as the system asks who connects.
        EXPECT_EQ(syscall(SYS_setresuid, -1, uid, -1), 0);
        Fd fd = connect_to_agent(path);
        EXPECT_EQ(syscall(SYS_setresuid, -1, 0, -1), 0);
        return {std::move(fd), kMostAnswerBytes};
    }

    mgi::test::TemporaryFolder folder;
    std::string const path = folder.file("agent.sock");
    std::map<ApplicationId, std::uint32_t> users;
    std::map<std::uint32_t, std::size_t> said;
    ApplicationServer server{
        path,
        {[this](ApplicationId id, std::uint32_t, std::uint32_t uid) { users[id] = uid; },
         [this](ApplicationId id, Json const&, Fd) { ++said[users.at(id)]; },
         [](ApplicationId, std::string const&) {}}};
};

TEST_F(ApplicationsOfUsers, OneUsersManyDoNotKeepAnothersOneWaiting) {
    std::string const frame = frame_of({{"op", "use"}});
    std::string flood;
    while (flood.size() < 4u << 10) flood += frame;
    std::size_t const each = flood.size() / frame.size();
    std::vector<MessageSocket> many;
    for (int i = 0; i < 100; ++i) {
        many.push_back(connect_as(0));
        many.back().queue(flood);
        many.back().write();
        ASSERT_EQ(many.back().queued(), 0u);
    }
    MessageSocket one = connect_as(mgi::test::kNobody);
    one.queue(frame);
    one.write();
    while (said[mgi::test::kNobody] == 0) ASSERT_TRUE(server.serve());
    // While all come in, some of the first ones' words are heard.
    EXPECT_LE(said[0], (100 / 16 + 3) * ApplicationServer::kAtOnce * each);
    while (said[0] < 100 * each) ASSERT_TRUE(server.serve());
    // And when all are there, no more than the user's turn lies between.
    for (int i = 0; i < 3; ++i) {
        for (MessageSocket& socket : many) {
            socket.queue(flood);
            socket.write();
        }
        std::size_t const before = said[0];
        std::size_t const heard = said[mgi::test::kNobody];
        one.queue(frame);
        one.write();
        while (said[mgi::test::kNobody] == heard) ASSERT_TRUE(server.serve());
        EXPECT_LE(said[0] - before, ApplicationServer::kAtOnce * each);
        while (said[0] < before + 100 * each) ASSERT_TRUE(server.serve());
    }
}

TEST_F(ApplicationsOfUsers, WhoHasLeftLeavesNothing) {
    for (std::uint32_t const uid : {0u, std::uint32_t(mgi::test::kNobody)}) {
        {
            MessageSocket socket = connect_as(uid);
            socket.queue(frame_of({{"op", "hello"}}));
            socket.write();
            while (said[uid] == 0) ASSERT_TRUE(server.serve());
        }
        while (server.serve()) {
        }
        MessageSocket again = connect_as(uid);
        again.queue(frame_of({{"op", "hello"}}));
        again.write();
        while (said[uid] == 1) ASSERT_TRUE(server.serve());
    }
}

}  // namespace
}  // namespace mgi::control
