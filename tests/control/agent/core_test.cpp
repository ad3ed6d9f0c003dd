// The agent's core against a scripted controller: sessions, requests, and applications that misbehave.

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "core_fixture.hpp"

namespace mgi::control::test {
namespace {

TEST_F(Core, RegistersAndBeats) {
    register_agent();
    ASSERT_EQ(ports_.sent.size(), 1u);
    EXPECT_EQ(ports_.sent[0].register_().name(), "node1");
    EXPECT_EQ(ports_.sent[0].register_().clock_ms(), 1234);
    wait(Milliseconds(1000));
    ASSERT_GE(ports_.sent.size(), 4u);
    EXPECT_EQ(ports_.sent[1].heartbeat().sequence(), 1u);
    EXPECT_EQ(ports_.sent[3].heartbeat().sequence(), 3u);
    EXPECT_EQ(ports_.sent[3].sender().agent(), 7u);
    EXPECT_EQ(ports_.sent[3].sender().incarnation(), 1u);
}

TEST_F(Core, AControllerThatSaysNothingIsLeftAfterTheLease) {
    register_agent();
    hello(1);
    wait(Milliseconds(2500));
    EXPECT_GE(ports_.opened.size(), 2u);
    EXPECT_EQ(ports_.opened[1].second, "two:2");
    EXPECT_NE(ports_.told[1].back()["why"].get<std::string>().find("said nothing for 1200 ms"),
              std::string::npos);
}

TEST_F(Core, AsksTheControllersInTurnWithGrowingPauses) {
    core_.tick(now_);
    for (int i = 0; i < 12; ++i) {
        core_.session_broken(ports_.opened.back().first, "connection refused", now_);
        std::size_t const before = ports_.opened.size();
        Time const since = now_;
        while (ports_.opened.size() == before) wait(Milliseconds(1));
        EXPECT_EQ(ports_.opened.back().second, before % 2 == 0 ? "one:1" : "two:2");
        if (i == 11) {
            EXPECT_GE(now_ - since, Milliseconds(400));
        }
        EXPECT_LE(now_ - since, Milliseconds(2001));
    }
}

TEST_F(Core, GoesToTheLeaderThatAStandbyNames) {
    core_.tick(now_);
    refuse(Refused::NOT_LEADER, "leader:9");
    wait(Milliseconds(100));
    EXPECT_EQ(ports_.opened.back().second, "leader:9");
    // Two that name each other end at the list.
    refuse(Refused::NOT_LEADER, "leader:9");
    wait(Milliseconds(300));
    EXPECT_EQ(ports_.opened.back().second, "two:2");
}

TEST_F(Core, OtherVersionsAndRefusalsAreSaid) {
    core_.tick(now_);
    ControllerMessage other = message();
    other.set_protocol(99);
    other.mutable_registered();
    receive(other);
    std::string const why = core_.status()["why"];
    EXPECT_NE(why.find("version 99"), std::string::npos) << why;
    EXPECT_NE(why.find("update the older"), std::string::npos) << why;
    wait(Milliseconds(2100));
    refuse(Refused::NAME_IN_USE);
    EXPECT_NE(core_.status()["why"].get<std::string>().find("the reason"), std::string::npos);
}

TEST_F(Core, EventsOfOldSessionsAreIgnored) {
    register_agent();
    core_.session_broken(0, "old", now_);
    EXPECT_TRUE(core_.joined());
    core_.session_broken(1, "now", now_);
    EXPECT_FALSE(core_.joined());
    ControllerMessage late = message();
    late.mutable_heartbeat_ack();
    core_.session_received(1, late, now_);
    wait(Milliseconds(100));
    EXPECT_EQ(ports_.opened.size(), 2u);
}

TEST_F(Core, AnotherEpochInASessionMeansRegisterAgain) {
    register_agent();
    ControllerMessage other = message(2);
    other.mutable_heartbeat_ack();
    receive(other);
    EXPECT_FALSE(core_.joined());
    wait(Milliseconds(100));
    EXPECT_EQ(ports_.opened.back().second, "one:1");
}

TEST_F(Core, ACommitWithoutAPrepareMeansRegisterAgain) {
    register_agent();
    ControllerMessage commit = message();
    commit.mutable_commit_plan()->set_channel(5);
    commit.mutable_commit_plan()->set_generation(1);
    receive(commit);
    EXPECT_FALSE(core_.joined());
}

TEST_F(Core, APlanForNobodyHereIsRefused) {
    register_agent();
    ControllerMessage prepare = message();
    prepare.mutable_prepare_plan()->set_channel(5);
    prepare.mutable_prepare_plan()->set_owner(owner_of(1000, ""));
    prepare.mutable_prepare_plan()->mutable_spec()->add_sources(3);
    receive(prepare);
    PlanAck const& ack = ports_.sent.back().plan_ack();
    EXPECT_FALSE(ack.accepted());
    EXPECT_NE(ack.why().find("node1"), std::string::npos);
}

TEST_F(Core, RequestsWaitForAControllerAndSayWhyTheyEnded) {
    hello(1);
    core_.tick(now_);
    core_.session_broken(1, "connection refused by one:1", now_);
    ask(1, create(1, 100));
    EXPECT_TRUE(ports_.calls.empty());
    for (int i = 0; i < 200; ++i) {
        wait(Milliseconds(1));
        if (ports_.open) {
            core_.session_broken(ports_.opened.back().first, "connection refused by one:1", now_);
        }
    }
    std::string const error = error_of(ports_.told[1].back());
    EXPECT_NE(error.find("create_endpoint took too long"), std::string::npos) << error;
    EXPECT_NE(error.find("connection refused by one:1"), std::string::npos) << error;
}

TEST_F(Core, ARequestIsRepeatedUntilItIsAnswered) {
    register_agent();
    hello(1);
    ask(1, create(1));
    ASSERT_EQ(ports_.calls.size(), 1u);
    end_call(0, CallOutcome::Kind::Repeat);
    wait(Milliseconds(150));
    ASSERT_EQ(ports_.calls.size(), 2u);
    // The controller lost this agent's incarnation: first that, then again.
    end_call(1, CallOutcome::Kind::Stale);
    EXPECT_FALSE(core_.joined());
    wait(Milliseconds(100));
    register_agent();
    ASSERT_EQ(ports_.calls.size(), 3u);
    auto const& first = std::get<CreateEndpointRequest>(ports_.calls[0].request);
    auto const& third = std::get<CreateEndpointRequest>(ports_.calls[2].request);
    EXPECT_EQ(first.request(), third.request());
    EXPECT_NE(first.sender().incarnation(), third.sender().incarnation());
    EXPECT_EQ(first.vertex(), 1u) << "a GPU comes first";
    end_call(2, CallOutcome::Kind::Done, 55);
    EXPECT_EQ(ports_.told[1].back()["endpoint"], 55u);
    EXPECT_EQ(ports_.told[1].back()["device"], "gpu0");
    ask(1, create(2));
    end_call(3, CallOutcome::Kind::Failed);
    EXPECT_EQ(error_of(ports_.told[1].back()), "the controller's words");
}

TEST_F(Core, AnAnswerOfAnEarlierIncarnationIsAskedAgain) {
    register_agent();
    hello(1);
    ask(1, create(1));
    core_.session_broken(1, "broken", now_);
    wait(Milliseconds(100));
    register_agent();
    end_call(0, CallOutcome::Kind::Done, 55);
    EXPECT_FALSE(ports_.told[1].back().contains("endpoint"));
    wait(Milliseconds(150));
    ASSERT_EQ(ports_.calls.size(), 2u);
}

TEST_F(Core, WhatIsMadeForAnApplicationThatEndedIsGivenBack) {
    register_agent();
    hello(1);
    ask(1, create(1));
    core_.application_left(1, "its process has ended", now_);
    end_call(0, CallOutcome::Kind::Done, 55);
    ASSERT_TRUE(ports_.sent.back().has_endpoints_gone());
    EXPECT_EQ(ports_.sent.back().endpoints_gone().endpoints(0), 55u);
    // And what comes after the caller's time was up.
    hello(2);
    ask(2, create(2, 50));
    wait(Milliseconds(60));
    EXPECT_NE(error_of(ports_.told[2].back()).find("has not answered"), std::string::npos);
    end_call(1, CallOutcome::Kind::Done, 56);
    EXPECT_EQ(ports_.sent.back().endpoints_gone().endpoints(0), 56u);
}

// Nobody else deletes it: the controller may be away for as long as it likes.
TEST_F(Core, ADeadApplicationsChannelIsDeletedHoweverLateTheControllerComes) {
    register_agent();
    Json held = {{"channel", 5u}, {"generation", 1u}, {"request", "request"}, {"created", true}};
    ClusterChannelSpec spec;
    spec.sources = {1};
    spec.destinations = {2};
    add_spec(held, spec);
    hello(1, {{"channels", {held}}});
    core_.session_broken(1, "broken", now_);
    core_.application_left(1, "its process has ended", now_);
    wait(std::chrono::minutes(2));
    EXPECT_TRUE(ports_.calls.empty());
    register_agent();
    ASSERT_EQ(ports_.calls.size(), 1u);
    EXPECT_EQ(std::get<DeleteChannelRequest>(ports_.calls[0].request).channel(), 5u);
}

TEST_F(Core, WhatMayHaveBeenMadeForADeadApplicationIsAskedForAgain) {
    register_agent();
    hello(1);
    ask(1, create(1));
    end_call(0, CallOutcome::Kind::Repeat);
    core_.session_broken(1, "broken", now_);
    core_.application_left(1, "its process has ended", now_);
    wait(std::chrono::minutes(2));
    register_agent();
    ASSERT_EQ(ports_.calls.size(), 2u);
    EXPECT_EQ(std::get<CreateEndpointRequest>(ports_.calls[1].request).request(), "request-1");
    end_call(1, CallOutcome::Kind::Done, 55);
    EXPECT_EQ(ports_.sent.back().endpoints_gone().endpoints(0), 55u);
    EXPECT_EQ(core_.status()["requests"], 0u);
}

TEST_F(Core, WhatHappensWhileARegistrationIsUnderWayIsSaidAfterIt) {
    register_agent();
    hello(1, {{"endpoints", {{{"endpoint", 55u}, {"vertex", 1u}}}}});
    core_.session_broken(1, "broken", now_);
    while (!ports_.open) wait(Milliseconds(1));
    ASSERT_EQ(ports_.sent.back().register_().endpoints_size(), 1);
    core_.application_left(1, "its process has ended", now_);
    core_.link_changed(0, 1, 7);
    EXPECT_TRUE(ports_.sent.back().has_register_());
    std::size_t const before = ports_.sent.size();
    register_agent();
    ASSERT_EQ(ports_.sent.size(), before + 2);
    EXPECT_EQ(ports_.sent[before].endpoints_gone().endpoints(0), 55u);
    EXPECT_EQ(ports_.sent[before].sender().incarnation(), 2u);
    EXPECT_EQ(ports_.sent[before + 1].link_change().link().gbps(), 7);
    // What the next registration does not name is not said a second time.
    core_.session_broken(2, "broken", now_);
    wait(Milliseconds(100));
    register_agent();
    EXPECT_TRUE(ports_.sent.back().has_register_());
    EXPECT_EQ(ports_.sent.back().register_().endpoints_size(), 0);
}

TEST_F(Core, ALinkThatIsDownIsNotRegistered) {
    core_.link_changed(0, 1, 0);
    register_agent();
    EXPECT_EQ(ports_.sent.back().register_().graph().links_size(), 0);
    core_.link_changed(0, 1, 24);
    EXPECT_EQ(ports_.sent.back().link_change().link().gbps(), 24);
    EXPECT_EQ(ports_.sent.back().link_change().link().kind(), "pcie");
}

TEST_F(Core, AGenerationThatNoChannelHasIsRefused) {
    register_agent();
    for (std::uint64_t const generation : {std::uint64_t(0), UINT64_MAX}) {
        Json held = {
            {"channel", 5u}, {"generation", generation}, {"request", "request"}, {"created", true}};
        ClusterChannelSpec spec;
        spec.sources = {1};
        spec.destinations = {2};
        add_spec(held, spec);
        ApplicationId const id = generation == 0 ? 1 : 2;
        hello(id, {{"channels", {held}}});
        Json const& told = ports_.told[id].back();
        EXPECT_EQ(told["notice"], "channel_ended");
        EXPECT_TRUE(told["failed"].get<bool>());
        EXPECT_EQ(core_.status()["channels"], 0u);
    }
}

TEST_F(Core, WhatApplicationsGetWrongIsSaid) {
    EXPECT_NE(error_of(hello(1, {{"protocol", 9u}})).find("update the older"), std::string::npos);
    EXPECT_EQ(ports_.dismissed, std::vector<ApplicationId>{1});
    core_.application_came(2, 1, 1, now_);
    EXPECT_NE(error_of(ask(2, create(1))).find("before a hello"), std::string::npos);
    hello(3);
    EXPECT_NE(error_of(ask(3, {{"op", "dance"}, {"id", 1u}})).find("there is no 'dance'"),
              std::string::npos);
    EXPECT_NE(error_of(ask(3, {{"id", 1u}})).find("field 'op' is missing"), std::string::npos);
    EXPECT_NE(error_of(ask(3, {{"op", "create_endpoint"}})).find("field 'id'"), std::string::npos);
    EXPECT_NE(error_of(ask(3, {{"op", "delete_endpoint"}, {"id", 1u}, {"endpoint", 5u}}))
                  .find("not this application's"),
              std::string::npos);
    EXPECT_NE(error_of(ask(3, {{"op", "delete_channel"}, {"id", 1u}, {"channel", 5u}}))
                  .find("not this application's"),
              std::string::npos);
    EXPECT_NE(error_of(ask(3, {{"op", "hello"}, {"id", 1u}})).find("second hello"),
              std::string::npos);
    Json channel = {{"op", "create_channel"}, {"id", 1u}, {"request", "r"}};
    ClusterChannelSpec spec;
    spec.destinations = {1};
    add_spec(channel, spec);
    EXPECT_NE(error_of(ask(3, channel)).find("has no sources"), std::string::npos);
    channel["sources"] = {1u, (1u << 20) + 1};
    EXPECT_NE(error_of(ask(3, channel)).find("at most 1048576"), std::string::npos);
    for (std::uint64_t i = 0; i < AgentCore::kMostRequests; ++i) ask(3, create(i, 600'000));
    EXPECT_NE(error_of(ask(3, create(9999))).find("256 requests"), std::string::npos);
}

TEST_F(Core, AConnectionWithoutAHelloIsClosed) {
    core_.application_came(1, 1, 1, now_);
    wait(AgentCore::kHelloLimit + Milliseconds(10));
    EXPECT_EQ(ports_.dismissed, std::vector<ApplicationId>{1});
    EXPECT_NE(error_of(ports_.told[1].back()).find("no hello"), std::string::npos);
}

TEST_F(Core, WhatAnotherApplicationHoldsCannotBeAnnounced) {
    register_agent();
    hello(1);
    ask(1, create(1));
    end_call(0, CallOutcome::Kind::Done, 55);
    hello(2, {{"endpoints",
               {{{"endpoint", 55u}, {"vertex", 1u}}, {{"endpoint", 56u}, {"vertex", 9u}}}}});
    auto const& told = ports_.told[2];
    ASSERT_EQ(told.size(), 3u);
    EXPECT_EQ(told[1]["why"], "another application holds it");
    EXPECT_EQ(told[2]["why"], "this server has no such device any more");
    EXPECT_EQ(core_.status()["endpoints"], 1u);
}

TEST_F(Core, AHelloThatNamesTooMuchIsRefused) {
    Json channels = Json::array();
    for (int i = 0; i < 5; ++i) {
        Json held = {
            {"channel", unsigned(i)}, {"generation", 1u}, {"request", ""}, {"created", false}};
        ClusterChannelSpec spec;
        spec.sources = {1};
        spec.destinations = {1};
        add_spec(held, spec);
        held["sources"] = {1u, 1u << 20};
        channels.push_back(held);
    }
    EXPECT_NE(error_of(claim(1, {{"channels", channels}})).find("name more than"),
              std::string::npos);
}

}  // namespace
}  // namespace mgi::control::test
