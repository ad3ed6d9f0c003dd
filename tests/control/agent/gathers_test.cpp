// Processes that meet, over agents and a controller that come and go, in virtual time.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "control/agent/core_fixture.hpp"
#include "control/agent/world.hpp"
#include "control/local/words.hpp"

namespace mgi::control::test {
namespace {

Json share(std::uint32_t rank, std::uint32_t size, std::string const& data,
           std::uint64_t timeout = 10'000) {
    return {{"op", "gather"},
            {"key", "key"},
            {"rank", rank},
            {"size", size},
            {"data", bytes_value(data)},
            {"timeout_ms", timeout}};
}

struct Gatherer {
    Node* node = nullptr;
    ApplicationId application = 0;
    std::uint64_t request = 0;
};

class MeetingAgents : public ::testing::Test {
protected:
    static Gatherer say(World& world, std::size_t node, std::uint32_t rank, std::uint32_t size,
                        std::string const& data, std::uint64_t timeout = 10'000) {
        Gatherer made{&world.node(node), world.node(node).application("rank"), 0};
        made.request = made.node->ask(made.application, share(rank, size, data, timeout));
        return made;
    }
    static bool answered(Gatherer const& member) {
        return member.node->answer(member.application, member.request).has_value();
    }
    static std::vector<std::string> shares(Gatherer const& member, std::uint32_t size) {
        Json const answer = member.node->answer(member.application, member.request).value();
        EXPECT_FALSE(answer.contains("error")) << answer;
        return answer.contains("error") ? std::vector<std::string>() : shares_in(answer, size);
    }
    static std::string error(Gatherer const& member) {
        Json const answer = member.node->answer(member.application, member.request).value();
        return answer.contains("error") ? answer["error"]["message"].get<std::string>() : "none";
    }
};
using Strings = std::vector<std::string>;

TEST_F(MeetingAgents, MeetAcrossServers) {
    World world(2);
    Gatherer const a = say(world, 0, 0, 3, "x");
    Gatherer const b = say(world, 1, 1, 3, "y");
    world.run(Milliseconds(2000));
    EXPECT_FALSE(answered(a));
    Gatherer const c = say(world, 1, 2, 3, "z");
    ASSERT_TRUE(world.run_until([&] { return answered(a) && answered(b) && answered(c); }));
    for (Gatherer const& member : {a, b, c}) EXPECT_EQ(shares(member, 3), (Strings{"x", "y", "z"}));
}

TEST_F(MeetingAgents, TheErrorNamesWhoDidNotComeWithinTheCallersTime) {
    World world(1);
    Time const begin = world.now();
    Gatherer const a = say(world, 0, 0, 3, "x", 2000);
    Gatherer const b = say(world, 0, 2, 3, "x", 60'000);
    ASSERT_TRUE(world.run_until([&] { return answered(a); }));
    EXPECT_LE(world.now() - begin, Milliseconds(2010));
    EXPECT_NE(error(a).find("rank 1 of 3 has not come"), std::string::npos) << error(a);
    EXPECT_FALSE(answered(b));
}

TEST_F(MeetingAgents, AnApplicationThatEndsTakesItsShareAlong) {
    World world(2);
    Gatherer const a = say(world, 0, 0, 2, "old");
    world.run(Milliseconds(100));
    a.node->leave(a.application);
    world.run(Milliseconds(100));
    Gatherer const b = say(world, 1, 1, 2, "y");
    world.run(Milliseconds(1000));
    EXPECT_FALSE(answered(b));
    say(world, 0, 0, 2, "new");
    ASSERT_TRUE(world.run_until([&] { return answered(b); }));
    EXPECT_EQ(shares(b, 2), (Strings{"new", "y"}));
}

// Whichever moment the controller dies at, all meet under the next one.
TEST_F(MeetingAgents, SurviveTheControllersRestart) {
    for (int moment = 0; moment < 24; ++moment) {
        World world(3, std::uint64_t(moment) + 1);
        world.run(Milliseconds(500));
        Gatherer const a = say(world, 0, 0, 3, "x", 30'000);
        Gatherer const b = say(world, 1, 1, 3, "y", 30'000);
        world.run(Milliseconds(3));
        Gatherer const c = say(world, 2, 2, 3, "z", 30'000);
        world.run(Milliseconds(moment));
        world.kill_controller();
        world.run(Milliseconds(moment * 100));
        world.start_controller();
        ASSERT_TRUE(world.run_until([&] { return answered(a) && answered(b) && answered(c); }));
        for (Gatherer const& member : {a, b, c}) {
            EXPECT_EQ(shares(member, 3), (Strings{"x", "y", "z"})) << moment;
        }
        world.run(Milliseconds(30'000));
        EXPECT_EQ(world.node(0).core().status()["requests"], 0u);
    }
}

TEST_F(MeetingAgents, AMissingControllerIsWhatTheErrorSays) {
    World world(1);
    world.run(Milliseconds(100));
    world.kill_controller();
    Gatherer const a = say(world, 0, 0, 2, "x", 1000);
    ASSERT_TRUE(world.run_until([&] { return answered(a); }));
    EXPECT_NE(error(a).find("took too long"), std::string::npos) << error(a);
}

class GatheringCore : public Core {};

TEST_F(GatheringCore, AnswersThatAreKeptAreBounded) {
    register_agent();
    hello(1);
    for (std::size_t i = 0; i < 2 * AgentCore::kMostRepeated; ++i) {
        Json message = share(0, 1, "x");
        message["id"] = i + 1;
        message["request"] = "request-" + std::to_string(i);
        ask(1, message);
        CallOutcome outcome;
        auto const reply = std::make_shared<GatherReply>();
        reply->add_data("x");
        outcome.gathered = reply;
        core_.call_ended(ports_.calls.at(i).number, outcome, now_);
        ASSERT_EQ(shares_in(ports_.told[1].back(), 1), Strings{"x"});
    }
    EXPECT_EQ(core_.status()["requests"], AgentCore::kMostRepeated);
    wait(AgentCore::kRepeatGathers + Milliseconds(10));
    register_agent();  // meanwhile the controller was silent; it is the same one
    EXPECT_EQ(core_.status()["requests"], 0u);
    EXPECT_EQ(ports_.calls.size(), 2 * AgentCore::kMostRepeated);  // nothing was said again
}

TEST_F(GatheringCore, AGatherOfADeadApplicationIsCancelled) {
    register_agent();
    hello(1);
    Json message = share(0, 2, "x");
    message["id"] = 1u;
    message["request"] = "request-1";
    ask(1, message);
    core_.application_left(1, "its process has ended", now_);
    EXPECT_EQ(ports_.cancelled, std::vector<CallNumber>{ports_.calls.at(0).number});
    EXPECT_EQ(core_.status()["requests"], 0u);
}

}  // namespace
}  // namespace mgi::control::test
