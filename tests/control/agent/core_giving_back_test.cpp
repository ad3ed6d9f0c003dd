// The agent's core against a scripted controller: what is made for nobody, and what its creator leaves.
#include <gtest/gtest.h>

#include <string>
#include <variant>

#include "core_fixture.hpp"

namespace mgi::control::test {
namespace {

class GivingBack : public Core {
protected:
    /// What a channel of others, or of the endpoint `here`, is asked for by.
    static Json channel(std::uint64_t id, std::uint32_t here = 1) {
        ClusterChannelSpec spec;
        spec.sources = {here};
        spec.destinations = {2};
        Json made = {{"op", "create_channel"},
                     {"id", id},
                     {"request", "request-" + std::to_string(id)},
                     {"timeout_ms", 10'000u}};
        add_spec(made, spec);
        return made;
    }
    static Json created(std::uint32_t id) {
        Json held = channel(0);
        held.update(Json{{"channel", id}, {"generation", 1u}, {"created", true}});
        return {{"channels", {held}}};
    }
    void made(std::size_t call, std::uint32_t id, std::uint64_t generation) {
        CallOutcome outcome;
        outcome.id = id;
        outcome.generation = generation;
        core_.call_ended(ports_.calls.at(call).number, outcome, now_);
    }
    void break_session() {
        core_.session_broken(ports_.opened.back().first, "broken", now_);
        ports_.open = false;
    }
    /// What the agent says in a new session.
    Register registered_again() {
        break_session();
        while (!ports_.open) wait(Milliseconds(1));
        Register const said = ports_.sent.back().register_();
        register_agent();
        return said;
    }
    std::uint32_t deleted(std::size_t call) const {
        auto const* message = std::get_if<DeleteChannelRequest>(&ports_.calls.at(call).request);
        return message == nullptr ? 0 : message->channel();
    }
};

// The next controller may not have heard that its creator is gone.
TEST_F(GivingBack, ADeadApplicationsChannelIsNamedUntilItIsDeleted) {
    register_agent();
    hello(1, created(5));
    core_.application_left(1, "its process has ended", now_);
    EXPECT_EQ(deleted(0), 5u);
    Register const said = registered_again();
    ASSERT_EQ(said.channels_size(), 1);
    EXPECT_TRUE(said.channels(0).creator());
    end_call(0, CallOutcome::Kind::Done);  // of the old session
    wait(Milliseconds(150));
    EXPECT_EQ(deleted(1), 5u);
    end_call(1, CallOutcome::Kind::Done);
    EXPECT_EQ(registered_again().channels_size(), 0);
    EXPECT_EQ(core_.status()["requests"], 0u);
}

TEST_F(GivingBack, AChannelMadeForADeadApplicationIsNamedUntilItIsDeleted) {
    register_agent();
    hello(1);
    ask(1, channel(1));
    core_.application_left(1, "its process has ended", now_);
    made(0, 5, 1);
    EXPECT_EQ(deleted(1), 5u);
    Register const said = registered_again();
    ASSERT_EQ(said.channels_size(), 1);
    EXPECT_EQ(said.channels(0).id(), 5u);
    EXPECT_TRUE(said.channels(0).creator());
    EXPECT_EQ(said.channels(0).request(), "request-1");
}

TEST_F(GivingBack, ADeletionOutlivesItsCallersTime) {
    register_agent();
    hello(1, created(5));
    break_session();
    ask(1, {{"op", "delete_channel"}, {"id", 1u}, {"channel", 5u}, {"timeout_ms", 50u}});
    ask(1, {{"op", "delete_channel"}, {"id", 2u}, {"channel", 5u}, {"timeout_ms", 60u}});
    wait(Milliseconds(100));
    EXPECT_NE(error_of(ports_.told[1].back()).find("took too long"), std::string::npos);
    EXPECT_EQ(core_.status()["requests"], 1u) << "deleted once, however often it was asked for";
    wait(std::chrono::minutes(1));
    while (!ports_.open) wait(Milliseconds(1));
    register_agent();
    ASSERT_EQ(ports_.calls.size(), 1u);
    EXPECT_EQ(deleted(0), 5u);
    end_call(0, CallOutcome::Kind::Done);
    EXPECT_EQ(ports_.told[1].back()["notice"], "channel_ended");
}

// Its connection broke, not the agent: both ask by the same request, and one answer is theirs.
TEST_F(GivingBack, WhoAsksAgainTakesOverWhatIsUnderWay) {
    register_agent();
    hello(1);
    ask(1, create(1));
    core_.application_left(1, "the connection broke", now_);
    hello(2);
    ask(2, create(1));
    ASSERT_EQ(ports_.calls.size(), 1u);
    std::size_t const said = ports_.sent.size();
    end_call(0, CallOutcome::Kind::Done, 55);
    EXPECT_EQ(ports_.told[2].back()["endpoint"], 55u);
    EXPECT_EQ(ports_.sent.size(), said) << "nothing is given back";
    EXPECT_EQ(core_.status()["endpoints"], 1u);

    ask(2, channel(7));
    core_.application_left(2, "the connection broke", now_);
    hello(3);
    Json again = channel(7);
    again["id"] = 9u;
    ask(3, again);
    ASSERT_EQ(ports_.calls.size(), 2u);
    made(1, 5, 1);
    EXPECT_EQ(ports_.told[3].back()["channel"], 5u);
    EXPECT_EQ(ports_.told[3].back()["id"], 9u);
    EXPECT_EQ(ports_.calls.size(), 2u);
    EXPECT_EQ(core_.status()["requests"], 0u);
}

TEST_F(GivingBack, AnotherChannelByTheSameRequestIsNotTakenOver) {
    register_agent();
    hello(1);
    ask(1, channel(1));
    core_.application_left(1, "the connection broke", now_);
    hello(2);
    Json other = channel(1);
    other["sources"] = {3u, 1u};
    ask(2, other);
    EXPECT_EQ(ports_.calls.size(), 2u) << "the controller says what it thinks of that";
}

TEST_F(GivingBack, AGenerationThatNoChannelHasIsNoAnswer) {
    register_agent();
    hello(1);
    for (std::uint64_t const generation : {std::uint64_t(0), UINT64_MAX}) {
        std::size_t const call = ports_.calls.size();
        ask(1, channel(call));
        made(call, 5, generation);
        EXPECT_NE(error_of(ports_.told[1].back()).find("generation"), std::string::npos);
        EXPECT_EQ(deleted(call + 1), 5u);
        end_call(call + 1, CallOutcome::Kind::Done);
    }
    EXPECT_EQ(core_.status()["requests"], 0u);
}

// The agent was restarted while the channel was made: its plan comes again.
TEST_F(GivingBack, AChannelWhosePlanIsToComeIsHeld) {
    register_agent();
    hello(1, {{"endpoints", {{{"endpoint", 55u}, {"vertex", 1u}}}}});
    ask(1, channel(1, 55));
    made(0, 5, 1);
    EXPECT_FALSE(ports_.told[1].back().contains("channel"));
    auto const named = [](Register const& said) {
        return said.channels_size() == 1 && said.channels(0).id() == 5 &&
               said.channels(0).generation() == 0 && said.channels(0).creator() &&
               said.channels(0).spec().sources(0) == 55;
    };
    EXPECT_TRUE(named(registered_again()));
    ControllerMessage prepare = message();
    prepare.mutable_prepare_plan()->set_channel(5);
    prepare.mutable_prepare_plan()->set_owner(owner_of(1000, ""));
    prepare.mutable_prepare_plan()->set_generation(2);
    *prepare.mutable_prepare_plan()->mutable_spec() =
        std::get<CreateChannelRequest>(ports_.calls[0].request).spec();
    receive(prepare);
    ControllerMessage abort = message();
    abort.mutable_abort_plan()->set_channel(5);
    abort.mutable_abort_plan()->set_generation(2);
    receive(abort);
    EXPECT_TRUE(named(registered_again()));
    prepare.mutable_prepare_plan()->set_generation(3);
    receive(prepare);
    ControllerMessage commit = message();
    commit.mutable_commit_plan()->set_channel(5);
    commit.mutable_commit_plan()->set_generation(3);
    receive(commit);
    EXPECT_EQ(ports_.told[1].back()["generation"], 3u);
    EXPECT_EQ(registered_again().channels(0).generation(), 3u);
}

TEST_F(GivingBack, AHelloWithMoreEndpointsThanAnApplicationHasIsRefused) {
    Json endpoints = Json::array();
    for (std::uint32_t i = 0; i <= AgentCore::kMostEndpointsEach; ++i) {
        endpoints.push_back({{"endpoint", i}, {"vertex", 1u}});
    }
    EXPECT_NE(error_of(claim(1, {{"endpoints", endpoints}})).find("65536 endpoints"),
              std::string::npos);
    EXPECT_EQ(core_.status()["endpoints"], 0u);
}

}  // namespace
}  // namespace mgi::control::test
