// The applications' socket without an agent behind it.
#include "control/agent/applications.hpp"

#include <gtest/gtest.h>

#include <optional>
#include <string>

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

}  // namespace
}  // namespace mgi::control
