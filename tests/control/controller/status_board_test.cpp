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

TEST_F(ControlStatusBoard, EveryOwnersTextIsItsOwnAndFewAreKept) {
    auto const one = engine();
    auto const all = board.json(one, about);
    auto const mine = board.json(one, about, "me");
    EXPECT_EQ(board.json(one, about, "me"), mine);
    EXPECT_EQ(nlohmann::json::parse(*mine)["owner"], "me");
    EXPECT_EQ(nlohmann::json::parse(*all).count("owner"), 0u);
    for (std::size_t i = 0; i < StatusBoard::kMostTexts; ++i) {
        (void)board.json(one, about, "another " + std::to_string(i));
    }
    EXPECT_NE(board.json(one, about, "me"), mine);
    EXPECT_EQ(*board.json(one, about, "me"), *mine);
}

// As its bytes come to the agent.
TEST(ControlStatus, AnOwnersAnswerNamesNothingOfOthers) {
    Served served;
    WireAgent agent(served, "a");
    ASSERT_TRUE(agent.join());
    auto const endpoint = [&](std::string const& owner) {
        CallRequest call;
        CreateEndpointRequest& request = *call.mutable_create_endpoint();
        *request.mutable_sender() = agent.sender;
        request.set_request("endpoint-" + owner);
        request.set_vertex(1);
        request.set_application("query of " + owner);
        request.set_owner(owner);
        return agent.call(call).answer.create_endpoint().endpoint();
    };
    auto const channel = [&](std::string const& owner, std::uint32_t id, bool accepted) {
        CallRequest call;
        CreateChannelRequest& request = *call.mutable_create_channel();
        *request.mutable_sender() = agent.sender;
        request.set_request(std::string("channel-") + (accepted ? "1" : "2") + owner);
        request.set_owner(owner);
        request.mutable_spec()->set_name("flow of " + owner);
        request.mutable_spec()->add_sources(id);
        request.mutable_spec()->add_destinations(id);
        auto made = agent.begin(call);
        ControllerMessage const prepare = agent.hear(ControllerMessage::kPreparePlan);
        AgentMessage ack;
        ack.mutable_plan_ack()->set_channel(prepare.prepare_plan().channel());
        ack.mutable_plan_ack()->set_generation(1);
        ack.mutable_plan_ack()->set_accepted(accepted);
        agent.say(ack);
        EXPECT_EQ(made.get().ok(), accepted);
    };
    for (std::string const owner : {"me", "them"}) {
        std::uint32_t const id = endpoint(owner);
        channel(owner, id, true);
        channel(owner, id, false);  // the list of failures names it
    }
    CallRequest call;
    call.mutable_status()->set_protocol(kProtocol);
    std::string const all = agent.call(call).answer.status().json();
    EXPECT_NE(all.find("flow of them"), std::string::npos);
    call.mutable_status()->set_owner("me");
    std::string const mine = agent.call(call).answer.status().json();
    EXPECT_EQ(mine.find("them"), std::string::npos) << mine;
    auto const shown = nlohmann::json::parse(mine);
    EXPECT_EQ(shown["owner"], "me");
    EXPECT_EQ(shown["channels"].size(), 2u);
    EXPECT_EQ(shown["endpoints"].size(), 1u);
    EXPECT_EQ(shown["servers"][0]["endpoints"], 1u);
    EXPECT_EQ(shown["servers"][0]["vertices"].size(), 3u);
    EXPECT_TRUE(shown["failures"].empty());
    EXPECT_EQ(shown.count("counters"), 0u);
    call.mutable_status()->set_owner(std::string(65, 'x'));
    EXPECT_EQ(agent.call(call).code(), Outcome::INVALID_ARGUMENT);
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
