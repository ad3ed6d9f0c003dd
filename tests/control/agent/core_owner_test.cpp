// What applications name belongs to their owner, and nobody gets it by naming it.
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "control/agent/core_fixture.hpp"

namespace mgi::control::test {
namespace {

constexpr std::uint32_t kOther = 2000;
constexpr char const* kSecret = "0123456789abcdef0123456789abcdef";

/// Application 1, of user 1000, has endpoint 55 of channel 5, which it has created.
class Owners : public Core {
protected:
    explicit Owners(CoreOptions made = options()) : Core(std::move(made)) {}

    static Json held(std::uint64_t generation = 1, bool created = true) {
        ClusterChannelSpec spec;
        spec.sources = {55};
        spec.destinations = {56};
        Json channel = {{"channel", 5u},
                        {"generation", generation},
                        {"request", "request-5"},
                        {"created", created}};
        add_spec(channel, spec);
        return {{"endpoints", {{{"endpoint", 55u}, {"vertex", 1u}}}},
                {"channels", Json::array({channel})}};
    }
    Json part(ApplicationId id) {
        return ask(id, {{"op", "get_part"}, {"id", 9u}, {"channel", 5u}, {"timeout_ms", 100u}});
    }
    /// That an application holds nothing of what it has said, and has ended nothing.
    void expect_refused(ApplicationId id) {
        std::size_t lost = 0;
        for (Json const& message : ports_.told[id]) {
            lost += message.value("notice", "") == "endpoint_lost" ? 1 : 0;
            lost += message.value("notice", "") == "channel_ended" ? 1 : 0;
        }
        EXPECT_EQ(lost, 2u);
        EXPECT_NE(error_of(part(id)).find("no endpoint of this application"), std::string::npos);
        for (AgentMessage const& message : ports_.sent) EXPECT_FALSE(message.has_held());
        core_.application_left(id, "its process has ended", now_);
        wait(std::chrono::seconds(2));
        EXPECT_TRUE(ports_.calls.empty()) << "it gives back what is not its own";
        for (AgentMessage const& message : ports_.sent) EXPECT_FALSE(message.has_endpoints_gone());
    }
};

TEST_F(Owners, NobodyGetsWhatAnAgentHasForgottenByNamingIt) {
    register_agent();
    claim(2, held(), kOther);
    expect_refused(2);
    // And whose it is finds it as it was.
    hello(1, held());
    EXPECT_EQ(core_.status()["endpoints"], 1u);
    EXPECT_EQ(core_.status()["channels"], 1u);
}

TEST_F(Owners, AnotherUsersTicketsProveNothing) {
    register_agent();
    claim(2, with_tickets(held(), kTicketKey, owner_of(1000, "")), kOther);
    expect_refused(2);
}

TEST_F(Owners, AnotherAgentsTicketsProveNothing) {
    register_agent();
    claim(2, with_tickets(held(), "the key of another agent", owner_of(1000, "")));
    expect_refused(2);
}

TEST_F(Owners, ATicketIsOfItsOwnGenerationAlone) {
    register_agent();
    hello(1, held());
    ports_.sent.clear();
    Json const old = with_tickets(held(), kTicketKey, owner_of(1000, ""));
    Json later = held(100, false);
    later["channels"][0]["ticket"] = old["channels"][0]["ticket"];
    claim(2, std::move(later));
    EXPECT_EQ(ports_.told[2].back()["notice"], "channel_ended");
    ControllerMessage prepare = message();
    prepare.mutable_prepare_plan()->set_channel(5);
    prepare.mutable_prepare_plan()->set_generation(2);
    prepare.mutable_prepare_plan()->set_owner(owner_of(1000, ""));
    prepare.mutable_prepare_plan()->mutable_spec()->add_sources(55);
    prepare.mutable_prepare_plan()->mutable_spec()->add_destinations(56);
    receive(prepare);
    EXPECT_TRUE(ports_.sent.back().plan_ack().accepted()) << "plans of its own go on";
}

TEST_F(Owners, WhoTakesPartHasNotCreatedIt) {
    register_agent();
    Json claims = with_tickets(held(), kTicketKey, owner_of(1000, ""));
    claims["channels"][0].erase("creator_ticket");
    claims.erase("endpoints");
    claim(2, std::move(claims));
    EXPECT_EQ(ports_.told[2].back()["notice"], "channel_ended");
    core_.application_left(2, "its process has ended", now_);
    EXPECT_TRUE(ports_.calls.empty());
}

TEST_F(Owners, TicketsComeWithEndpointsAndPlans) {
    register_agent();
    hello(1);
    ask(1, create(1));
    EXPECT_EQ(std::get<CreateEndpointRequest>(ports_.calls.at(0).request).owner(),
              owner_of(1000, ""));
    end_call(0, CallOutcome::Kind::Done, 55);
    Tickets const tickets{kTicketKey};
    EXPECT_EQ(bytes_in(ports_.told[1].back(), "ticket"),
              tickets.of_endpoint(owner_of(1000, ""), 55, 1));
    ClusterChannelSpec spec;
    spec.sources = {55};
    spec.destinations = {56};
    Json request = {{"op", "create_channel"}, {"id", 2u}, {"request", "request-2"}};
    add_spec(request, spec);
    ask(1, request);
    CreateChannelRequest const asked = std::get<CreateChannelRequest>(ports_.calls.at(1).request);
    EXPECT_EQ(asked.owner(), owner_of(1000, ""));
    ControllerMessage prepare = message();
    prepare.mutable_prepare_plan()->set_channel(5);
    prepare.mutable_prepare_plan()->set_generation(1);
    prepare.mutable_prepare_plan()->set_owner(asked.owner());
    *prepare.mutable_prepare_plan()->mutable_spec() = asked.spec();
    receive(prepare);
    ControllerMessage commit = message();
    commit.mutable_commit_plan()->set_channel(5);
    commit.mutable_commit_plan()->set_generation(1);
    receive(commit);
    CallOutcome made;
    made.id = 5;
    made.generation = 1;
    core_.call_ended(ports_.calls.at(1).number, made, now_);
    Json const& answer = ports_.told[1].back();
    ASSERT_EQ(answer["channel"], 5u) << answer;
    EXPECT_EQ(bytes_in(answer, "ticket"), tickets.of_plan(asked.owner(), plan_in(answer)));
    EXPECT_EQ(bytes_in(answer, "creator_ticket"), tickets.of_creator(asked.owner(), 5));
}

TEST_F(Owners, APlanWithAnothersEndpointIsRefused) {
    register_agent();
    hello(1, held());
    ControllerMessage prepare = message();
    prepare.mutable_prepare_plan()->set_channel(6);
    prepare.mutable_prepare_plan()->set_generation(1);
    prepare.mutable_prepare_plan()->set_owner(owner_of(kOther, ""));
    prepare.mutable_prepare_plan()->mutable_spec()->add_sources(55);
    receive(prepare);
    PlanAck const& ack = ports_.sent.back().plan_ack();
    EXPECT_FALSE(ack.accepted());
    EXPECT_NE(ack.why().find("endpoint 55 is somebody else's"), std::string::npos) << ack.why();
}

TEST_F(Owners, WhatIsUnderWayIsTakenOverByItsOwnerAlone) {
    register_agent();
    hello(1);
    ask(1, create(1));
    core_.application_left(1, "the connection broke", now_);
    hello(2, Json::object(), kOther);
    ask(2, create(1));
    ASSERT_EQ(ports_.calls.size(), 2u) << "another user's is another request";
    end_call(0, CallOutcome::Kind::Done, 55);
    EXPECT_EQ(ports_.told[2].size(), 1u) << "its hello's answer";
}

TEST_F(Owners, AJobsSecretIsOneOwnerForAllUsers) {
    register_agent();
    std::string const owner = owner_of(1, kSecret);
    EXPECT_EQ(owner, owner_of(2, kSecret));
    EXPECT_NE(owner, owner_of(1, std::string(kSecret) + "x"));
    EXPECT_EQ(owner.find(kSecret), std::string::npos);
    Json claims = with_tickets(held(), kTicketKey, owner);
    claim(2, claims);  // its own user's, without the secret
    expect_refused(2);
    claims["job_secret"] = kSecret;
    claim(3, claims, kOther);
    EXPECT_EQ(core_.status()["endpoints"], 1u);
    register_agent();
    ask(3, {{"op", "gather"},
            {"id", 1u},
            {"key", "key"},
            {"rank", 0u},
            {"size", 2u},
            {"request", "request-1"},
            {"data", bytes_value("x")}});
    EXPECT_EQ(std::get<GatherRequest>(ports_.calls.at(0).request).owner(), owner);
    EXPECT_NE(error_of(claim(4, {{"job_secret", "short"}})).find("at least 32"), std::string::npos);
}

TEST_F(Owners, StatusIsAskedForAllForRootAndForTheAgentsUserAlone) {
    register_agent();
    auto const asked = [&](ApplicationId id, Json const& said, std::uint32_t uid) {
        claim(id, said, uid);
        ask(id, {{"op", "status"}, {"id", 1u}});
        return std::get<StatusRequest>(ports_.calls.back().request);
    };
    EXPECT_FALSE(asked(1, Json::object(), 0).has_owner());
    EXPECT_EQ(asked(2, Json::object(), 1000).owner(), owner_of(1000, ""));
    EXPECT_EQ(asked(3, {{"job_secret", kSecret}}, kOther).owner(), owner_of(kOther, kSecret));
    CallOutcome outcome;
    outcome.text = "what the controller lets it see";
    core_.call_ended(ports_.calls.back().number, outcome, now_);
    EXPECT_EQ(ports_.told[3].back()["status"], outcome.text);
}

TEST_F(Owners, OneUserLeavesPlacesToOthers) {
    register_agent();
    ApplicationId id = 1;
    for (; id <= AgentCore::kMostApplications * 3 / 4; ++id) {
        core_.application_came(id, 42, 1000, now_);
    }
    EXPECT_TRUE(ports_.dismissed.empty());
    core_.application_came(id, 42, 1000, now_);
    EXPECT_EQ(ports_.dismissed, std::vector<ApplicationId>{id});
    EXPECT_NE(error_of(ports_.told[id].back())
                  .find("applications at this agent: the limit is 1024 for all; this one has 768"),
              std::string::npos);
    EXPECT_TRUE(claim(id + 1, Json::object(), kOther).contains("ok"));
}

// Nor does it help that they end and leave what they asked for behind.
TEST_F(Owners, OneUsersRequestsLeaveRoomForOthers) {
    register_agent();
    std::size_t asked = 0;
    ApplicationId id = 1;
    for (bool full = false; !full; ++id) {
        hello(id);
        for (std::uint64_t i = 1; i <= 200 && !full; ++i) {
            std::size_t const before = ports_.calls.size();
            Json message = create(i);
            message["request"] = std::to_string(id) + "-request-" + std::to_string(i);
            Json const answer = ask(id, message);
            full = ports_.calls.size() == before;
            if (!full) {
                ++asked;
                continue;
            }
            EXPECT_NE(error_of(answer).find("requests that wait at this agent"), std::string::npos);
        }
        core_.application_left(id, "it ended", now_);
    }
    EXPECT_EQ(asked, AgentCore::kMostRequestsOfAll * 3 / 4);
    hello(id, Json::object(), kOther);
    std::size_t const before = ports_.calls.size();
    ask(id, create(1));
    EXPECT_EQ(ports_.calls.size(), before + 1);
    // Once that is answered its places are free.
    for (std::size_t i = 0; i < ports_.calls.size(); ++i) {
        end_call(i, CallOutcome::Kind::Done, std::uint32_t(i + 1));
    }
    EXPECT_EQ(core_.status()["requests"], 0u);
    hello(id + 1);
    std::size_t const then = ports_.calls.size();
    ask(id + 1, create(2));
    EXPECT_EQ(ports_.calls.size(), then + 1);
}

TEST_F(Owners, OneUsersGathersAreNotForgottenForAnothers) {
    register_agent();
    auto const gather = [&](ApplicationId id, std::uint64_t number) {
        ask(id, {{"op", "gather"},
                 {"id", number},
                 {"key", "key"},
                 {"rank", 0u},
                 {"size", 1u},
                 {"request", "request-" + std::to_string(id) + "-" + std::to_string(number)},
                 {"data", bytes_value("x")}});
        CallOutcome outcome;
        outcome.gathered = std::make_shared<GatherReply const>();
        core_.call_ended(ports_.calls.back().number, outcome, now_);
    };
    hello(1, Json::object(), kOther);
    gather(1, 1);
    hello(2);
    for (std::uint64_t i = 1; i <= 2 * AgentCore::kMostRepeated; ++i) gather(2, i);
    EXPECT_EQ(core_.status()["requests"], AgentCore::kMostRepeated);
    core_.session_broken(ports_.opened.back().first, "it broke", now_);
    ports_.open = false;
    ports_.calls.clear();
    while (!ports_.open) wait(Milliseconds(1));
    ControllerMessage answer = message(2);
    answer.mutable_registered()->set_agent(7);
    answer.mutable_registered()->set_incarnation(1);
    answer.mutable_registered()->set_heartbeat_ms(300);
    answer.mutable_registered()->set_lease_ms(1200);
    receive(answer);
    bool said_again = false;
    for (Asked const& call : ports_.calls) {
        auto const* again = std::get_if<GatherRequest>(&call.request);
        said_again = said_again || (again != nullptr && again->request() == "request-1-1");
    }
    EXPECT_TRUE(said_again);
}

/// An agent in a user namespace that has no number for most users.
class OwnersWithoutNumber : public Owners {
protected:
    OwnersWithoutNumber() : Owners(with_nobody()) {}
    static CoreOptions with_nobody() {
        CoreOptions made = options();
        made.nobody = 65534;
        return made;
    }
};

TEST_F(OwnersWithoutNumber, NeedASecret) {
    register_agent();
    EXPECT_NE(error_of(claim(1, Json::object(), 65534)).find("MGI_JOB_SECRET"), std::string::npos);
    EXPECT_TRUE(claim(2, {{"job_secret", kSecret}}, 65534).contains("ok"));
    EXPECT_TRUE(claim(3, Json::object()).contains("ok"));
}

}  // namespace
}  // namespace mgi::control::test
