// Registration, leases, presence, and who is refused.
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "control/state/rig.hpp"

namespace mgi::control::test {
namespace {

using Kind = ControllerMessage::MessageCase;

Refused refusal(Rig const& rig, SessionId session) {
    EXPECT_EQ(rig.last(session).message_case(), ControllerMessage::kRefused);
    return rig.last(session).refused();
}

TEST(ControlServers, RegistersAndTellsTimes) {
    Rig rig;
    Agent const a = rig.register_agent("a");
    auto const reply = rig.got(a, Kind::kRegistered).at(0);
    EXPECT_EQ(reply.protocol(), kProtocol);
    EXPECT_EQ(reply.epoch(), 1u);
    EXPECT_EQ(reply.registered().agent(), 1u);
    EXPECT_EQ(reply.registered().incarnation(), 1u);
    EXPECT_EQ(reply.registered().lease_ms(), 1200u);
    EXPECT_EQ(rig.state("a"), "present");
}

TEST(ControlServers, LeaseEndsExactlyAfterItsTime) {
    Rig rig;
    Agent const a = rig.register_agent("a");
    Agent const b = rig.register_agent("b");
    rig.pass(1199, {&b});
    EXPECT_EQ(rig.state("a"), "present");
    rig.pass(1, {&b});
    EXPECT_EQ(rig.state("a"), "away");
    auto const notice = rig.got(b, Kind::kServerNotice).at(0).server_notice();
    EXPECT_EQ(notice.name(), "a");
    EXPECT_EQ(notice.state(), ServerNotice::AWAY);
    rig.heartbeat(a);
    EXPECT_EQ(rig.state("a"), "present");
    EXPECT_EQ(rig.got(b, Kind::kServerNotice).at(1).server_notice().state(), ServerNotice::PRESENT);
}

TEST(ControlServers, FailedExactlyAfterTheGrace) {
    Rig rig;
    Agent const a = rig.register_agent("a");
    Agent const b = rig.register_agent("b");
    rig.close(a);
    EXPECT_EQ(rig.state("a"), "away");
    rig.pass(9999, {&b});
    EXPECT_EQ(rig.state("a"), "away");
    rig.pass(1, {&b});
    EXPECT_EQ(rig.state("a"), "failed");
    EXPECT_EQ(rig.got(b, Kind::kServerNotice).at(1).server_notice().state(), ServerNotice::FAILED);
    Agent const again = rig.register_agent("a", "instance-2");
    EXPECT_EQ(again.sender.agent(), a.sender.agent());
    EXPECT_EQ(again.sender.incarnation(), 2u);
}

TEST(ControlServers, AFailedOneIsForgottenAfterAnHour) {
    Rig rig;
    Agent const a = rig.register_agent("a");
    Agent const b = rig.register_agent("b");
    rig.close(a);
    rig.close(b);
    rig.pass(10'000);
    Agent const again = rig.register_agent("b", "instance-2");
    rig.pass(3'599'999, {&again});
    EXPECT_EQ(rig.state("a"), "failed");
    rig.pass(1, {&again});
    EXPECT_EQ(rig.state("a"), "unknown");
    EXPECT_EQ(rig.state("b"), "present");  // it came back meanwhile
    Agent const later = rig.register_agent("a", "instance-2", {}, a.sender);
    EXPECT_EQ(later.sender.agent(), 3u);
    EXPECT_EQ(rig.cluster.timers(), 2u);
}

TEST(ControlServers, AFrozenAgentThatFailedIsToldToRegisterAgain) {
    Rig rig;
    Agent const a = rig.register_agent("a");
    rig.pass(11'200);
    EXPECT_EQ(rig.state("a"), "failed");
    EXPECT_EQ(refusal(rig, a.session).why(), Refused::STALE);
    EXPECT_EQ(rig.closed.back(), a.session);
}

TEST(ControlServers, TheControllersOwnSleepCountsAgainstNobody) {
    Rig rig;
    Agent const a = rig.register_agent("a");
    rig.time += 60'000;
    rig.pass(50);
    EXPECT_EQ(rig.state("a"), "present");
    rig.heartbeat(a);
    rig.pass(1200);
    EXPECT_EQ(rig.state("a"), "away");
}

TEST(ControlServers, AnAgentsClockDoesNotMatter) {
    Rig rig;
    rig.wall = 10'000'000;
    Register word;
    word.set_clock_ms(rig.wall + 3'600'000);
    Agent const a = rig.register_agent("a", "instance-1", word);
    rig.pass(1000);
    EXPECT_EQ(rig.state("a"), "present");
    Snapshot const shown = rig.cluster.snapshot(Now{rig.time, rig.wall});
    EXPECT_EQ(shown.servers.at(0).clock_off_ms, 3'600'000);
    EXPECT_NE(shown.failures.at(0).what.find("clock of server a is 3600 s off"), std::string::npos);
}

TEST(ControlServers, ASecondAgentOfALivingNameIsRefused) {
    Rig rig;
    Agent const a = rig.register_agent("a");
    Agent const other = rig.register_agent("a", "instance-2");
    EXPECT_EQ(refusal(rig, other.session).why(), Refused::NAME_IN_USE);
    EXPECT_EQ(rig.state("a"), "present");
    rig.heartbeat(a, 7);
    EXPECT_EQ(rig.last(a.session).heartbeat_ack().sequence(), 7u);
    rig.pass(1200);
    Agent const later = rig.register_agent("a", "instance-2");
    EXPECT_EQ(later.sender.incarnation(), 2u);
    EXPECT_EQ(refusal(rig, a.session).why(), Refused::STALE);
}

TEST(ControlServers, TheSameInstanceTakesItsNameOver) {
    Rig rig;
    Agent const a = rig.register_agent("a");
    Agent const again = rig.register_agent("a");
    EXPECT_EQ(again.sender.agent(), a.sender.agent());
    EXPECT_EQ(again.sender.incarnation(), 2u);
    EXPECT_EQ(refusal(rig, a.session).why(), Refused::STALE);
}

TEST(ControlServers, StaleSendersAreRefused) {
    struct Case {
        char const* what;
        void (*spoil)(Sender&);
        Refused::Why why;
    };
    for (Case const& one : {
             Case{"epoch", [](Sender& s) { s.set_epoch(s.epoch() - 1); }, Refused::STALE},
             Case{"incarnation", [](Sender& s) { s.set_incarnation(s.incarnation() - 1); },
                  Refused::STALE},
             Case{"agent", [](Sender& s) { s.set_agent(s.agent() + 1); }, Refused::STALE},
             Case{"protocol", [](Sender& s) { s.set_protocol(kProtocol + 1); }, Refused::PROTOCOL},
         }) {
        Rig rig({}, 5);
        Agent const old = rig.register_agent("a");
        Agent a = rig.register_agent("a");
        rig.endpoint(a);
        Agent spoiled = a;
        one.spoil(spoiled.sender);
        CallId const call = rig.create_endpoint(spoiled, "request-2");
        EXPECT_NE(rig.answers.at(call).problem, Problem::None) << one.what;
        CallId const channel = rig.create_channel(spoiled, "request-3", {1}, {1});
        EXPECT_NE(rig.answers.at(channel).problem, Problem::None) << one.what;
        rig.heartbeat(spoiled);
        EXPECT_EQ(refusal(rig, a.session).why(), one.why) << one.what;
        EXPECT_EQ(rig.state("a"), "away") << one.what;
    }
}

TEST(ControlServers, ANewerEpochMeansThatAnotherControllerLeads) {
    Rig rig({}, 5);
    Sender previous;
    previous.set_epoch(6);
    Agent const a = rig.register_agent("a", "instance-1", {}, previous);
    EXPECT_EQ(refusal(rig, a.session).why(), Refused::NOT_LEADER);
    EXPECT_EQ(rig.state("a"), "unknown");
}

TEST(ControlServers, AnEarlierControllersAgentKeepsItsId) {
    Rig rig({}, 2, 1001);
    Sender previous;
    previous.set_epoch(1);
    previous.set_agent(7);
    previous.set_incarnation(3);
    EXPECT_EQ(rig.register_agent("a", "instance-1", {}, previous).sender.agent(), 7u);
    // Another name by the same id, and an id that nobody can have: both get one of their own.
    EXPECT_EQ(rig.register_agent("b", "instance-1", {}, previous).sender.agent(), 1001u);
    previous.set_agent(5000);
    EXPECT_EQ(rig.register_agent("c", "instance-1", {}, previous).sender.agent(), 1002u);
}

TEST(ControlServers, BadRegistrationsSayWhatIsWrong) {
    struct Case {
        void (*spoil)(Register&);
        Refused::Why why;
        char const* text;
    };
    for (Case const& one : {
             Case{[](Register& r) { r.mutable_graph()->mutable_links(0)->set_gbps(0); },
                  Refused::BAD_GRAPH, "capacity of 0"},
             Case{[](Register& r) { r.mutable_graph()->mutable_links(0)->set_gbps(-1); },
                  Refused::BAD_GRAPH, "capacity of -1"},
             Case{[](Register& r) { r.mutable_graph()->mutable_links(0)->set_gbps(NAN); },
                  Refused::BAD_GRAPH, "capacity of nan"},
             Case{[](Register& r) { r.mutable_graph()->mutable_links(0)->set_to(9); },
                  Refused::BAD_GRAPH, "link 1 -> 9"},
             Case{[](Register& r) { *r.mutable_graph()->add_links() = r.graph().links(0); },
                  Refused::BAD_GRAPH, "stands twice"},
             Case{[](Register& r) { r.mutable_graph()->mutable_vertices(1)->set_name("cpu0"); },
                  Refused::BAD_GRAPH, "vertex 1: the name 'cpu0' stands twice"},
             Case{[](Register& r) { r.mutable_graph()->mutable_vertices(1)->set_kind(99); },
                  Refused::BAD_GRAPH, "kind 99"},
             Case{[](Register& r) { r.mutable_graph()->mutable_vertices(1)->set_parent(2); },
                  Refused::BAD_GRAPH, "parent 2"},
             Case{[](Register& r) { r.mutable_graph()->mutable_vertices()->Clear(); },
                  Refused::BAD_GRAPH, "0 vertices"},
             Case{[](Register& r) { *r.mutable_graph() = server_graph(72); }, Refused::BAD_GRAPH,
                  "73 GPUs and CPUs, at most 72 of one server can be planned in time"},
         }) {
        Rig rig;
        Register word;
        *word.mutable_graph() = server_graph();
        one.spoil(word);
        Agent const a = rig.register_agent("a", "instance-1", word);
        EXPECT_EQ(refusal(rig, a.session).why(), one.why);
        EXPECT_NE(refusal(rig, a.session).text().find(one.text), std::string::npos)
            << refusal(rig, a.session).text();
    }
    Rig rig;
    EXPECT_EQ(refusal(rig, rig.register_agent("").session).why(), Refused::OTHER);
    EXPECT_EQ(refusal(rig, rig.register_agent("a\nb").session).why(), Refused::OTHER);
    EXPECT_EQ(refusal(rig, rig.register_agent("a", "short").session).why(), Refused::OTHER);
    EXPECT_EQ(rig.state("a"), "unknown");
}

TEST(ControlServers, TheFirstWordMustRegisterAndInTime) {
    Rig rig;
    SessionId const silent = rig.open();
    SessionId const rude = rig.open();
    Sender sender;
    sender.set_protocol(kProtocol);
    AgentMessage message;
    message.mutable_heartbeat();
    rig.say(rude, sender, message);
    EXPECT_EQ(refusal(rig, rude).why(), Refused::STALE);
    rig.pass(5000);
    EXPECT_EQ(refusal(rig, silent).why(), Refused::OTHER);
    EXPECT_EQ(rig.cluster.timers(), 0u);
}

TEST(ControlServers, LeaveFailsAtOnce) {
    Rig rig;
    Agent const a = rig.register_agent("a");
    Agent const b = rig.register_agent("b");
    AgentMessage message;
    message.mutable_leave()->set_why("shut down");
    rig.say(a, message);
    EXPECT_EQ(rig.state("a"), "failed");
    EXPECT_EQ(rig.got(b, Kind::kServerNotice).at(0).server_notice().state(), ServerNotice::FAILED);
}

TEST(ControlServers, WhoIsAwayIsToldToThoseWhoCome) {
    Rig rig;
    Agent const a = rig.register_agent("a");
    rig.close(a);
    Agent const b = rig.register_agent("b");
    EXPECT_EQ(rig.got(b, Kind::kServerNotice).at(0).server_notice().state(), ServerNotice::AWAY);
}

TEST(ControlServers, IdsComeFromReservedBlocksOnly) {
    Settings settings;
    Rig rig(settings);
    Agent a = rig.register_agent("a");
    rig.endpoint(a);
    ASSERT_EQ(rig.reserves.size(), 2u);  // of agents and of endpoints, each once
    for (int i = 1; i < 1000; ++i) rig.endpoint(a);
    CallId const late = rig.create_endpoint(a, "one too many");
    EXPECT_EQ(rig.answers.at(late).problem, Problem::Unavailable);
    rig.cluster.ids_reserved(IdKind::Endpoint, {5001, 1000});
    EXPECT_EQ(rig.endpoint(a), 5001u);
}

TEST(ControlServers, SessionsAndServersHaveLimits) {
    Settings settings;
    settings.limits.servers = 2;
    settings.limits.sessions = 4;
    Rig rig(settings);
    Agent const a = rig.register_agent("a");
    rig.register_agent("b");
    EXPECT_EQ(refusal(rig, rig.register_agent("c").session).why(), Refused::LIMIT);
    AgentMessage leave;
    leave.mutable_leave();
    rig.say(a, leave);
    EXPECT_EQ(rig.register_agent("c").sender.agent(), 3u);  // in the place of what failed
    EXPECT_EQ(rig.state("a"), "unknown");
    rig.open();
    rig.open();
    EXPECT_EQ(refusal(rig, rig.open()).why(), Refused::LIMIT);
}

// An agent tells figures of the channels that it created, too, with endpoints of them or without.
TEST(ControlServers, FiguresOfCreatedChannelsAreTaken) {
    Rig rig;
    Agent a = rig.register_agent("a");
    Agent b = rig.register_agent("b");
    Agent const c = rig.register_agent("c");
    std::uint32_t const from = rig.endpoint(a);
    std::uint32_t const to = rig.endpoint(b);
    rig.create_channel(c, "request-1", {from}, {to});
    AgentMessage message;
    for (std::uint32_t i = 0; i < 1025; ++i) {
        message.mutable_heartbeat()->add_channels()->set_channel(1 + i);
    }
    rig.say(c, message);
    EXPECT_TRUE(rig.last(c.session).has_heartbeat_ack());
    message.mutable_heartbeat()->add_channels();
    rig.say(c, message);
    EXPECT_EQ(rig.last(c.session).refused().why(), Refused::LIMIT);
}

}  // namespace
}  // namespace mgi::control::test
