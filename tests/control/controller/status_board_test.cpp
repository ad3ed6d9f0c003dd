// The status for many who ask: one snapshot, and one text of it, in a while.
#include "control/controller/status_board.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "control/controller/served.hpp"

namespace mgi::control::test {
namespace {

class Silent final : public Outlet {
public:
    void carry_out(Send const&) override {}
    void carry_out(Close const&) override {}
    void carry_out(Answer const&) override {}
};

struct Board : ::testing::Test {
    std::shared_ptr<Engine> engine() {
        return std::make_shared<Engine>(Settings{}, storage, make_plans(), outlet);
    }
    MemoryStorage storage;
    Silent outlet;
    std::chrono::steady_clock::time_point time{};
    StatusBoard board{[this] { return time; }};
    About const about{"here:1", {}, "test"};
};
using ControlStatusBoard = Board;

TEST_F(ControlStatusBoard, OneAnswerServesAllForAWhile) {
    auto const one = engine();
    auto const first = board.snapshot(one);
    auto const text = board.json(one, about);
    time += StatusBoard::kKept - std::chrono::milliseconds(1);
    EXPECT_EQ(board.snapshot(one), first);
    EXPECT_EQ(board.json(one, about), text);
    time += std::chrono::milliseconds(1);
    EXPECT_NE(board.json(one, about), text);
    EXPECT_NE(board.snapshot(one), first);
}

TEST_F(ControlStatusBoard, AnotherControllersAnswerIsItsOwn) {
    auto one = engine();
    EXPECT_EQ(board.snapshot(one)->epoch, 1u);
    one.reset();
    storage.begin();
    auto const next = engine();
    EXPECT_EQ(board.snapshot(next)->epoch, 2u);
    EXPECT_EQ(nlohmann::json::parse(*board.json(next, about))["epoch"], 2);
}

TEST(ControlStatus, ShowsGraphsAndFiguresAsTheyAreNow) {
    Served served;
    WireAgent agent(served, "a");
    ASSERT_TRUE(agent.join());
    std::uint32_t const id = agent.endpoint(2);
    AgentMessage change;
    *change.mutable_link_change()->mutable_link() = server_graph().links(0);
    change.mutable_link_change()->mutable_link()->set_gbps(3);
    agent.say(change);
    AgentMessage beat;
    LinkUse& use = *beat.mutable_heartbeat()->add_links();
    use.set_from(server_graph().links(0).from());
    use.set_to(server_graph().links(0).to());
    use.set_gbps(1.5);
    agent.say(beat);
    ASSERT_TRUE(agent.hear(ControllerMessage::kHeartbeatAck).has_heartbeat_ack());
    auto const status = nlohmann::json::parse(served.service().status());
    auto const& server = status["servers"][0];
    EXPECT_EQ(server["vertices"][2]["name"], "gpu1");
    EXPECT_EQ(server["links"][0]["gbps"], 3.0);
    EXPECT_EQ(server["links"][0]["used_gbps"], 1.5);
    EXPECT_EQ(status["endpoints"][0]["id"], id);
    EXPECT_EQ(status["endpoints"][0]["device"], "gpu1");
}

TEST(ControlStatus, ManyAskWhileTheClusterChanges) {
    Served served;
    std::atomic<bool> over = false;
    std::vector<std::thread> askers;
    for (int i = 0; i < 3; ++i) {
        askers.emplace_back([&] {
            while (!over) {
                EXPECT_FALSE(served.service().status().empty());
                EXPECT_EQ(served.service().snapshot()->epoch, 1u);
                std::this_thread::yield();
            }
        });
    }
    WireAgent agent(served, "a");
    EXPECT_TRUE(agent.join());
    for (int n = 0; n < 200; ++n) {
        AgentMessage change;
        *change.mutable_link_change()->mutable_link() = server_graph().links(0);
        change.mutable_link_change()->mutable_link()->set_gbps(1 + n);
        agent.say(change);
        AgentMessage beat;
        beat.mutable_heartbeat()->add_links();
        agent.say(beat);
        EXPECT_TRUE(agent.hear(ControllerMessage::kHeartbeatAck).has_heartbeat_ack());
    }
    over = true;
    for (std::thread& asker : askers) asker.join();
}

}  // namespace
}  // namespace mgi::control::test
