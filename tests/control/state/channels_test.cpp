// Channels: two steps, deadlines, renewal, end; and the same request's same answer.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "control/state/rig.hpp"

namespace mgi::control::test {
namespace {

using Kind = ControllerMessage::MessageCase;

struct Two : ::testing::Test {
    Rig rig;
    Agent a = rig.register_agent("a");
    Agent b = rig.register_agent("b");
    std::uint32_t const ea = rig.endpoint(a);
    std::uint32_t const eb = rig.endpoint(b, 2);

    std::string channel_state(std::uint32_t id) const {
        for (ChannelView const& view : rig.cluster.snapshot(Now{rig.time, 0}).channels) {
            if (view.id == id) return view.state;
        }
        return "none";
    }
    void change_link(Agent const& agent, double gbps) {
        AgentMessage message;
        Link& link = *message.mutable_link_change()->mutable_link();
        link.set_from(1);
        link.set_to(0);
        link.set_gbps(gbps);
        rig.say(agent, message);
    }
};
using ControlChannels = Two;

TEST_F(ControlChannels, AreCommittedWhenAllHaveAccepted) {
    CallId const call = rig.create_channel(a, "request-1", {ea}, {eb});
    ASSERT_EQ(rig.plans.size(), 1u);
    EXPECT_EQ(rig.plans[0].destinations.at(0).agent, b.sender.agent());
    EXPECT_EQ(rig.plans[0].destinations.at(0).vertex, 2u);
    EXPECT_TRUE(rig.got(a, Kind::kPreparePlan).empty());
    rig.plan();
    auto const prepare = rig.got(a, Kind::kPreparePlan).at(0).prepare_plan();
    EXPECT_EQ(prepare.generation(), 1u);
    EXPECT_EQ(prepare.table(), "table");
    EXPECT_EQ(prepare.request(), "request-1");
    rig.accept(a, prepare.channel());
    rig.accept(a, prepare.channel());  // twice is once
    EXPECT_TRUE(rig.got(a, Kind::kCommitPlan).empty());
    EXPECT_FALSE(rig.answers.contains(call));
    rig.accept(b, prepare.channel());
    EXPECT_EQ(rig.got(a, Kind::kCommitPlan).size(), 1u);
    EXPECT_EQ(rig.got(b, Kind::kCommitPlan).size(), 1u);
    EXPECT_EQ(rig.answers.at(call).id, prepare.channel());
    EXPECT_EQ(rig.answers.at(call).generation, 1u);
    EXPECT_EQ(channel_state(prepare.channel()), "running");
}

TEST_F(ControlChannels, PlansForAllServersShareWhatIsCommon) {
    rig.create_channel(a, "request-1", {ea}, {eb});
    PlanMade made;
    made.directory = "directory";
    made.tables = {{a.sender.agent(), "table of a"}, {b.sender.agent(), "table of b"}};
    Effects effects;
    rig.cluster.planned(1, 1, made, Now{rig.time, 0}, effects);
    ASSERT_EQ(effects.size(), 2u);
    auto const& to_a = std::get<Send>(effects[0]);
    auto const& to_b = std::get<Send>(effects[1]);
    EXPECT_EQ(to_a.message, to_b.message);  // not equal only: one message in memory
    for (auto const& [send, table] : {std::pair(to_a, "table of a"), {to_b, "table of b"}}) {
        PreparePlan const prepare = whole(send).prepare_plan();
        EXPECT_EQ(prepare.table(), table);
        EXPECT_EQ(prepare.directory(), "directory");
        EXPECT_EQ(prepare.spec().sources().at(0), ea);
        EXPECT_EQ(whole(send).epoch(), 1u);
    }
}

TEST_F(ControlChannels, OneThatRefusesEndsIt) {
    CallId const call = rig.create_channel(a, "request-1", {ea}, {eb});
    rig.plan();
    rig.accept(a, 1);
    rig.accept(b, 1, 1, false, "no memory");
    EXPECT_EQ(rig.answers.at(call).problem, Problem::Aborted);
    EXPECT_NE(rig.answers.at(call).text.find("server b refused its plan: no memory"),
              std::string::npos);
    EXPECT_EQ(rig.got(a, Kind::kAbortPlan).size(), 1u);
    EXPECT_EQ(rig.got(b, Kind::kAbortPlan).size(), 1u);
    EXPECT_EQ(channel_state(1), "failed");
}

TEST_F(ControlChannels, OneThatBreaksEndsIt) {
    CallId const call = rig.create_channel(a, "request-1", {ea}, {eb});
    rig.plan();
    rig.accept(b, 1);
    rig.close(b);
    EXPECT_EQ(rig.answers.at(call).problem, Problem::Aborted);
    EXPECT_NE(rig.answers.at(call).text.find("server b is away"), std::string::npos);
}

TEST_F(ControlChannels, OneThatIsLateEndsItAtTheDeadline) {
    CallId const call = rig.create_channel(a, "request-1", {ea}, {eb}, 700);
    rig.plan();
    rig.accept(a, 1);
    rig.pass(699, {&a, &b});
    EXPECT_FALSE(rig.answers.contains(call));
    rig.pass(1, {&a, &b});
    EXPECT_EQ(rig.answers.at(call).problem, Problem::DeadlineExceeded);
    EXPECT_NE(rig.answers.at(call).text.find("b"), std::string::npos);
    EXPECT_EQ(rig.got(b, Kind::kAbortPlan).size(), 1u);
    rig.accept(b, 1);  // too late: nothing comes of it
    EXPECT_TRUE(rig.got(b, Kind::kCommitPlan).empty());
}

TEST_F(ControlChannels, AcceptanceOfAnotherGenerationDoesNotCount) {
    rig.create_channel(a, "request-1", {ea}, {eb});
    rig.plan();
    rig.accept(a, 1, 1);
    rig.accept(b, 1, 2);
    rig.accept(b, 1, 0);
    EXPECT_TRUE(rig.got(a, Kind::kCommitPlan).empty());
}

TEST_F(ControlChannels, NoPlanIsAnErrorThatSaysSo) {
    CallId const call = rig.create_channel(a, "request-1", {ea}, {eb});
    rig.plan("no way from a/gpu0 to b/gpu1");
    EXPECT_EQ(rig.answers.at(call).problem, Problem::InvalidArgument);
    EXPECT_NE(rig.answers.at(call).text.find("no way"), std::string::npos);
    EXPECT_TRUE(rig.got(a, Kind::kAbortPlan).empty());  // nobody had heard of it
}

TEST_F(ControlChannels, TheSameRequestGetsTheSameAnswer) {
    CallId const first = rig.create_channel(a, "request-1", {ea}, {eb});
    CallId const second = rig.create_channel(a, "request-1", {ea}, {eb});
    CallId const other = rig.create_channel(a, "request-1", {eb}, {ea});
    EXPECT_EQ(rig.answers.at(other).problem, Problem::InvalidArgument);
    EXPECT_EQ(rig.plans.size(), 1u);
    rig.plan();
    rig.accept(a, 1);
    rig.accept(b, 1);
    EXPECT_EQ(rig.answers.at(first).id, 1u);
    EXPECT_EQ(rig.answers.at(second).id, 1u);
    CallId const third = rig.create_channel(a, "request-1", {ea}, {eb});
    EXPECT_EQ(rig.answers.at(third).id, 1u);
    rig.delete_channel(b, 1);
    CallId const fourth = rig.create_channel(a, "request-1", {ea}, {eb});
    EXPECT_EQ(rig.answers.at(fourth).problem, Problem::Aborted);
    EXPECT_NE(rig.answers.at(fourth).text.find("deleted by server b"), std::string::npos);
}

TEST_F(ControlChannels, ACallThatIsGoneGetsNoAnswerAndItsChannelGoesOn) {
    CallId const call = rig.create_channel(a, "request-1", {ea}, {eb});
    rig.apply([&](Now now, Effects& effects) { rig.cluster.call_gone(call, now, effects); });
    rig.plan();
    rig.accept(a, 1);
    rig.accept(b, 1);
    EXPECT_FALSE(rig.answers.contains(call));
    EXPECT_EQ(rig.answers.at(rig.create_channel(a, "request-1", {ea}, {eb})).id, 1u);
}

TEST_F(ControlChannels, BadRequestsSayWhatIsWrong) {
    auto const problem = [&](std::vector<std::uint32_t> const& sources,
                             std::vector<std::uint32_t> const& destinations) {
        return rig.answers.at(rig.create_channel(a, "request-9", sources, destinations));
    };
    EXPECT_EQ(problem({}, {eb}).problem, Problem::InvalidArgument);
    EXPECT_EQ(problem({ea}, {}).problem, Problem::InvalidArgument);
    EXPECT_EQ(problem({ea, ea}, {eb}).problem, Problem::InvalidArgument);
    EXPECT_EQ(problem({ea}, {77}).problem, Problem::NotFound);
    EXPECT_NE(problem({ea}, {77}).text.find("there is no endpoint 77"), std::string::npos);
    EXPECT_EQ(problem(std::vector<std::uint32_t>((1u << 20) + 1, ea), {eb}).problem,
              Problem::InvalidArgument);
    CallId const unnamed = rig.create_channel(a, "short", {ea}, {eb});
    EXPECT_EQ(rig.answers.at(unnamed).problem, Problem::InvalidArgument);
    CallId const switch_vertex = rig.create_endpoint(a, "request-8", 3);
    EXPECT_EQ(rig.answers.at(switch_vertex).problem, Problem::InvalidArgument);
    rig.close(b);
    EXPECT_EQ(problem({ea}, {eb}).problem, Problem::Unavailable);
    EXPECT_EQ(rig.answers.at(rig.delete_channel(a, 5)).problem, Problem::NotFound);
    EXPECT_EQ(rig.answers.at(rig.delete_endpoint(a, eb)).problem, Problem::NotFound);
    EXPECT_TRUE(rig.plans.empty());
}

TEST_F(ControlChannels, EndpointsInUseStay) {
    std::uint32_t const id = rig.running(a, b);
    CallId const refused = rig.delete_endpoint(a, ea);
    EXPECT_EQ(rig.answers.at(refused).problem, Problem::FailedPrecondition);
    rig.delete_channel(a, id);
    EXPECT_EQ(rig.got(b, Kind::kChannelEnded).at(0).channel_ended().failed(), false);
    EXPECT_EQ(rig.answers.at(rig.delete_endpoint(a, ea)).problem, Problem::None);
    EXPECT_EQ(rig.answers.at(rig.delete_endpoint(a, ea)).problem, Problem::None);  // again
    EXPECT_EQ(rig.answers.at(rig.delete_channel(a, id)).problem, Problem::None);
}

TEST_F(ControlChannels, EndWithTheirEndpoints) {
    std::uint32_t const id = rig.running(a, b);
    AgentMessage message;
    message.mutable_endpoints_gone()->add_endpoints(eb);
    message.mutable_endpoints_gone()->set_why("application query ended");
    rig.say(b, message);
    auto const ended = rig.got(a, Kind::kChannelEnded).at(0).channel_ended();
    EXPECT_EQ(ended.channel(), id);
    EXPECT_TRUE(ended.failed());
    EXPECT_NE(ended.why().find("application query ended"), std::string::npos);
    EXPECT_EQ(rig.got(b, Kind::kChannelEnded).size(), 1u);
}

TEST_F(ControlChannels, OnlyAServersOwnEndpointsGo) {
    rig.running(a, b);
    AgentMessage message;
    message.mutable_endpoints_gone()->add_endpoints(eb);
    rig.say(a, message);
    EXPECT_TRUE(rig.got(a, Kind::kChannelEnded).empty());
}

TEST_F(ControlChannels, GoOnWhileAServerIsAwayAndEndWhenItFails) {
    std::uint32_t const id = rig.running(a, b);
    rig.close(b);
    rig.pass(9999, {&a});
    EXPECT_TRUE(rig.got(a, Kind::kChannelEnded).empty());
    rig.pass(1, {&a});
    EXPECT_EQ(rig.got(a, Kind::kChannelEnded).size(), 1u);
    Register held;
    *held.add_endpoints() = held_endpoint(eb, 2);
    *held.add_channels() = held_channel(id, {ea}, {eb}, 1, true);
    Agent const again = rig.register_agent("b", "instance-1", held, b.sender);
    auto const registered = rig.got(again, Kind::kRegistered).at(0).registered();
    EXPECT_EQ(registered.lost_channels().at(0), id);
    EXPECT_EQ(registered.lost_endpoints().at(0), eb);
}

TEST_F(ControlChannels, ALinkThatChangesRenewsThePlan) {
    std::uint32_t const id = rig.running(a, b);
    change_link(a, 0);
    ASSERT_EQ(rig.plans.size(), 1u);
    EXPECT_EQ(rig.plans[0].generation, 2u);
    rig.plan({}, "other table");
    rig.accept(a, id, 2);
    EXPECT_EQ(rig.got(a, Kind::kCommitPlan).size(), 1u);
    rig.accept(b, id, 2);
    EXPECT_EQ(rig.got(a, Kind::kCommitPlan).at(1).commit_plan().generation(), 2u);
    change_link(a, 0);  // no change
    EXPECT_TRUE(rig.plans.empty());
    change_link(a, 25);
    rig.plan({}, "other table");  // the plan comes out as it was: nobody is told
    EXPECT_EQ(rig.got(a, Kind::kPreparePlan).size(), 2u);
}

TEST_F(ControlChannels, APlanThatCannotBeRenewedIsTriedAgain) {
    std::uint32_t const id = rig.running(a, b);
    change_link(a, 5);
    rig.plan({}, "other table");
    rig.accept(b, id, 2, false, "busy");
    EXPECT_EQ(rig.got(a, Kind::kAbortPlan).at(0).abort_plan().generation(), 2u);
    EXPECT_EQ(channel_state(id), "running");
    rig.pass(2000, {&a, &b});
    ASSERT_EQ(rig.plans.size(), 1u);
    EXPECT_EQ(rig.plans[0].generation, 3u);
    change_link(a, 6);  // while it is planned: once more when it is committed
    rig.plan({}, "other table");
    rig.accept(a, id, 3);
    rig.accept(b, id, 3);
    ASSERT_EQ(rig.plans.size(), 1u);
    EXPECT_EQ(rig.plans[0].generation, 4u);
    rig.plan("no way");
    EXPECT_EQ(channel_state(id), "running");
}

TEST_F(ControlChannels, NothingIsLeftOfThem) {
    for (int i = 0; i < 100; ++i) {
        std::uint32_t const id = rig.running(a, b, "request-" + std::to_string(i));
        rig.delete_channel(a, id);
    }
    EXPECT_EQ(rig.cluster.timers(), 2u);  // two leases
    Snapshot const shown = rig.cluster.snapshot(Now{rig.time, 0});
    EXPECT_EQ(shown.counters.channels_created, 100u);
}

}  // namespace
}  // namespace mgi::control::test
