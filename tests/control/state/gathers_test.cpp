// What processes say to each other under one key.
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

#include "control/state/owned.hpp"

namespace mgi::control::test {
namespace {

struct Met : ::testing::Test {
    explicit Met(Settings const& settings = {}) : rig(settings) {}

    Rig rig;
    Agent a = rig.register_agent("a");
    Agent b = rig.register_agent("b");

    std::vector<std::string> shares(CallId call) const {
        Answer const& answer = rig.answers.at(call);
        EXPECT_EQ(answer.problem, Problem::None) << answer.text;
        if (answer.gathered == nullptr) return {};
        return {answer.gathered->data().begin(), answer.gathered->data().end()};
    }
    void gone(CallId call) {
        rig.apply([&](Now now, Effects& effects) { rig.cluster.call_gone(call, now, effects); });
    }
    void expect_wrong(CallId call, Problem problem, std::string const& text) const {
        ASSERT_TRUE(rig.answers.contains(call));
        EXPECT_EQ(rig.answers.at(call).problem, problem);
        EXPECT_NE(rig.answers.at(call).text.find(text), std::string::npos)
            << rig.answers.at(call).text;
    }
};
using ControlGathers = Met;
using Strings = std::vector<std::string>;

TEST_F(ControlGathers, AllGetWhatAllHaveSaidByRank) {
    CallId const second = rig.gather(b, "request-b", 1, 3, "two");
    CallId const first = rig.gather(a, "request-a", 0, 3, std::string("\0one", 4));
    EXPECT_FALSE(rig.answers.contains(first));
    CallId const third = rig.gather(b, "request-c", 2, 3, "");
    Strings const all{std::string("\0one", 4), "two", ""};
    EXPECT_EQ(shares(first), all);
    EXPECT_EQ(shares(second), all);
    EXPECT_EQ(shares(third), all);
    EXPECT_EQ(rig.cluster.gathers().waiting().all(), 0u);
}

TEST_F(ControlGathers, OneRankWaitsForNobody) {
    EXPECT_EQ(shares(rig.gather(a, "request-a", 0, 1, "alone")), Strings{"alone"});
}

TEST_F(ControlGathers, KeysKeepThemApart) {
    CallId const one = rig.gather(a, "request-a", 0, 2, "x", "one");
    rig.gather(b, "request-b", 1, 2, "y", "other");
    EXPECT_FALSE(rig.answers.contains(one));
}

TEST_F(ControlGathers, TheDeadlineNamesWhoIsMissing) {
    CallId const call = rig.gather(a, "request-a", 1, 4, "x", "key", 1000);
    rig.gather(b, "request-b", 3, 4, "y", "key", 5000);
    rig.pass(999, {&a, &b});
    EXPECT_FALSE(rig.answers.contains(call));
    rig.pass(1, {&a, &b});
    expect_wrong(call, Problem::DeadlineExceeded, "gather 'key': ranks 0, 2 of 4 have not come");
    // Who gave up is missing, too.
    rig.pass(4000, {&a, &b});
    CallId const last = rig.gather(a, "request-c", 0, 100, "x", "many", 1000);
    rig.pass(1000, {&a, &b});
    expect_wrong(last, Problem::DeadlineExceeded, "8 and 91 more of 100 have not come");
    // Who comes later is missing no more, and who gives up later is again.
    CallId const first = rig.gather(a, "request-d", 3, 4, "x", "late", 1000);
    CallId const second = rig.gather(a, "request-e", 2, 4, "x", "late", 2000);
    rig.pass(1000, {&a, &b});
    expect_wrong(first, Problem::DeadlineExceeded, "ranks 0, 1 of 4 have not come");
    CallId const third = rig.gather(a, "request-f", 1, 4, "x", "late", 3000);
    rig.pass(1000, {&a, &b});
    expect_wrong(second, Problem::DeadlineExceeded, "ranks 0, 3 of 4 have not come");
    rig.pass(2000, {&a, &b});
    expect_wrong(third, Problem::DeadlineExceeded, "ranks 0, 2, 3 of 4 have not come");
    EXPECT_EQ(rig.cluster.gathers().bytes().all(), 0u);
}

TEST_F(ControlGathers, WhoGivesUpTakesItsShareAlong) {
    CallId const left = rig.gather(a, "request-a", 0, 2, "old");
    gone(left);
    CallId const waits = rig.gather(b, "request-b", 1, 2, "y");
    EXPECT_FALSE(rig.answers.contains(waits));
    rig.gather(a, "request-c", 0, 2, "new");
    EXPECT_EQ(shares(waits), (Strings{"new", "y"}));
    EXPECT_FALSE(rig.answers.contains(left));
}

TEST_F(ControlGathers, TheSameCallAgainIsTheSame) {
    CallId const lost = rig.gather(a, "request-a", 0, 2, "x");
    CallId const again = rig.gather(a, "request-a", 0, 2, "x");  // before the first one is gone
    gone(lost);
    CallId const other = rig.gather(b, "request-b", 1, 2, "y");
    EXPECT_EQ(shares(again), (Strings{"x", "y"}));
    EXPECT_EQ(shares(other), (Strings{"x", "y"}));
    // An answer that got lost is there for a while, whatever has begun under its key.
    CallId const next = rig.gather(b, "request-c", 1, 2, "z");
    EXPECT_EQ(shares(rig.gather(a, "request-a", 0, 2, "x")), (Strings{"x", "y"}));
    EXPECT_FALSE(rig.answers.contains(next));
}

TEST_F(ControlGathers, AreForgottenAfterTheGrace) {
    rig.gather(a, "request-a", 0, 1, "x");
    EXPECT_NE(rig.cluster.gathers().kept_bytes(), 0u);
    rig.pass(9999, {&a, &b});
    EXPECT_NE(rig.cluster.gathers().kept_bytes(), 0u);
    rig.pass(1, {&a, &b});
    EXPECT_EQ(rig.cluster.gathers().kept_bytes(), 0u);
}

TEST_F(ControlGathers, WhoContradictsIsWrongAndTheOthersGoOn) {
    CallId const first = rig.gather(a, "request-a", 0, 2, "x");
    expect_wrong(rig.gather(b, "request-b", 1, 3, "y"), Problem::InvalidArgument,
                 "rank 1 says that there are 3 ranks, and others have said 2");
    expect_wrong(rig.gather(b, "request-c", 0, 2, "y"), Problem::InvalidArgument,
                 "rank 0 has said something else already");
    CallId const same = rig.gather(b, "request-d", 0, 2, "x");
    rig.gather(b, "request-e", 1, 2, "y");
    EXPECT_EQ(shares(first), (Strings{"x", "y"}));
    EXPECT_EQ(shares(same), (Strings{"x", "y"}));
}

TEST_F(ControlGathers, WhatCannotBeIsRefused) {
    expect_wrong(rig.gather(a, "request-a", 2, 2, ""), Problem::InvalidArgument,
                 "rank 2 of 2: ranks count from 0");
    expect_wrong(rig.gather(a, "request-a", 0, 0, ""), Problem::InvalidArgument, "of 0 ranks");
    expect_wrong(rig.gather(a, "request-a", 0, 65'537, ""), Problem::InvalidArgument, "65536");
    expect_wrong(rig.gather(a, "request-a", 0, 2, "", ""), Problem::InvalidArgument, "the key");
    expect_wrong(rig.gather(a, "r", 0, 2, ""), Problem::InvalidArgument, "request");
    expect_wrong(rig.gather(a, "request-a", 0, 2, std::string((256u << 10) + 1, 'x')),
                 Problem::InvalidArgument, "at most 262144 are possible");
    Agent stale = a;
    stale.sender.set_incarnation(9);
    expect_wrong(rig.gather(stale, "request-a", 0, 2, ""), Problem::FailedPrecondition, "stale");
    EXPECT_EQ(rig.cluster.gathers().bytes().all(), 0u);
}

struct Said {
    std::string request;
    std::uint32_t rank = 0;
    std::string data;
    bool failed = false;
    std::vector<std::uint32_t> endpoints = {};
    std::uint32_t deadline_ms = 5000;
};

CallId say(Met& met, Agent const& agent, Said const& said, std::uint32_t size = 3) {
    return met.rig.call([&](CallId call, Now now, Effects& effects) {
        GatherRequest asked;
        *asked.mutable_sender() = agent.sender;
        asked.set_request(said.request);
        asked.set_key("key");
        asked.set_rank(said.rank);
        asked.set_size(size);
        asked.set_data(said.data);
        asked.set_failed(said.failed);
        asked.set_deadline_ms(said.deadline_ms);
        for (std::uint32_t const endpoint : said.endpoints) asked.add_endpoints(endpoint);
        met.rig.cluster.gather(call, asked, now, effects);
    });
}

TEST_F(ControlGathers, WhoFailsWaitsForNobodyAndIsHeardByAllOnce) {
    CallId const waits = say(*this, a, {"request-a", 0, "one"});
    CallId const fails = say(*this, b, {"request-b", 1, "no memory", true});
    Strings const told{"", "no memory", ""};
    EXPECT_EQ(shares(waits), told);
    EXPECT_EQ(shares(fails), told);
    // Those who have heard of it meet again under the key; who comes to the first meeting only now hears of that one.
    CallId const next = say(*this, a, {"request-c", 0, "two"});
    say(*this, b, {"request-d", 1, "three"});
    EXPECT_FALSE(rig.answers.contains(next));
    CallId const late = say(*this, b, {"request-e", 2, "late"});
    EXPECT_EQ(shares(late), told);
    EXPECT_EQ(shares(say(*this, b, {"request-e", 2, "late"})), told) << "its answer got lost";
    EXPECT_FALSE(rig.answers.contains(next));
    say(*this, b, {"request-f", 2, "four"});
    EXPECT_EQ(shares(next), (Strings{"two", "three", "four"}));
    EXPECT_EQ(rig.cluster.gathers().bytes().all(), 0u);
    EXPECT_EQ(rig.cluster.gathers().waiting().all(), 0u);
}

TEST_F(ControlGathers, SeveralThatFailAreOneMeeting) {
    say(*this, a, {"request-a", 0, "first", true});
    CallId const second = say(*this, b, {"request-b", 1, "second", true});
    EXPECT_EQ(shares(second), (Strings{"first", "", ""}));
    EXPECT_EQ(shares(say(*this, b, {"request-c", 2, "x"})), (Strings{"first", "", ""}));
    EXPECT_EQ(rig.cluster.gathers().bytes().all(), 0u);
}

TEST_F(ControlGathers, AFailureIsKeptUntilItsDeadline) {
    say(*this, a, {"request-a", 0, "failed", true, {}, 1000});
    EXPECT_NE(rig.cluster.gathers().bytes().all(), 0u);
    rig.pass(1000, {&a, &b});
    EXPECT_EQ(rig.cluster.gathers().bytes().all(), 0u);
    CallId const waits = say(*this, b, {"request-b", 1, "x"});
    EXPECT_FALSE(rig.answers.contains(waits));
}

TEST_F(ControlGathers, WhoseEndpointIsGoneIsNotWaitedFor) {
    std::vector<std::uint32_t> const endpoints{rig.endpoint(a), rig.endpoint(b), rig.endpoint(b)};
    CallId const waits = say(*this, a, {"request-a", 0, "x", false, endpoints});
    CallId const other = say(*this, b, {"request-b", 1, "y", false, endpoints});
    rig.delete_endpoint(b, endpoints[2]);
    expect_wrong(waits, Problem::Aborted, "gather 'key': rank 2 of 3 is gone: endpoint");
    expect_wrong(other, Problem::Aborted, "deleted");
    // Also where somebody comes later.
    expect_wrong(say(*this, a, {"request-c", 0, "x", false, endpoints}), Problem::Aborted,
                 "rank 2 of 3 is gone");
    EXPECT_EQ(rig.cluster.gathers().bytes().all(), 0u);
    EXPECT_EQ(rig.cluster.gathers().waiting().all(), 0u);
    expect_wrong(say(*this, a, {"request-d", 0, "x", false, {1}}), Problem::InvalidArgument,
                 "1 endpoints of 3 ranks");
}

// Said again by an agent for others, after the controller was restarted.
TEST_F(ControlGathers, AnAnsweredShareStandsInNobodysWay) {
    CallId next = 1'000'000;
    auto const answered = [&](std::string const& request, std::uint32_t rank,
                              std::string const& data) {
        GatherRequest message;
        *message.mutable_sender() = a.sender;
        message.set_request(request);
        message.set_key("key");
        message.set_rank(rank);
        message.set_size(2);
        message.set_data(data);
        message.set_answered(true);
        CallId const call = next++;
        rig.apply(
            [&](Now now, Effects& effects) { rig.cluster.gather(call, message, now, effects); });
        return call;
    };
    CallId const old = answered("request-a", 0, "x");
    CallId const late = rig.gather(b, "request-b", 1, 2, "y");
    EXPECT_EQ(shares(late), (Strings{"x", "y"}));
    EXPECT_TRUE(rig.answers.contains(old));
    // The next job's ranks say something else under the same key.
    rig.answers.clear();
    answered("request-c", 0, "old");
    CallId const fresh = rig.gather(a, "request-d", 0, 2, "new");
    EXPECT_FALSE(rig.answers.contains(fresh));
    rig.gather(b, "request-e", 1, 2, "y");
    EXPECT_EQ(shares(fresh), (Strings{"new", "y"}));
    rig.answers.clear();
    CallId const waits = rig.gather(a, "request-f", 1, 2, "z");
    expect_wrong(answered("request-g", 1, "older"), Problem::Aborted, "over");
    EXPECT_FALSE(rig.answers.contains(waits));
}

Settings small() {
    Settings made;
    made.limits.gather_bytes = 100;
    made.limits.gathers_bytes = made.limits.kept_gathers_bytes = 1000;
    return made;
}
struct ControlGathersLimits : Met {
    ControlGathersLimits() : Met(small()) {}
};

TEST_F(ControlGathersLimits, OfOneGather) {
    CallId const first = rig.gather(a, "request-a", 0, 2, std::string(60, 'x'));
    expect_wrong(rig.gather(b, "request-b", 1, 2, std::string(60, 'y')), Problem::ResourceExhausted,
                 "more than 100 bytes");
    EXPECT_FALSE(rig.answers.contains(first));
}

TEST_F(ControlGathersLimits, OldAnswersMakeRoomForNewOnesAndWhoWaitsDoesNot) {
    for (int i = 0; i < 10; ++i) {
        shares(rig.gather(a, "request-" + std::to_string(i), 0, 1, std::string(90, 'x')));
    }
    EXPECT_EQ(rig.cluster.gathers().bytes().all(), 0u);
    EXPECT_LE(rig.cluster.gathers().kept_bytes(), 1000u);
    EXPECT_GE(rig.cluster.gathers().kept_bytes(), 600u);
    for (int i = 0; i < 2; ++i) {
        rig.gather(a, "waiting-" + std::to_string(i), 0, 2, std::string(90, 'x'),
                   "key" + std::to_string(i));
    }
    expect_wrong(rig.gather(a, "waiting-2", 0, 2, std::string(90, 'x'), "key2"),
                 Problem::ResourceExhausted,
                 "the limit is 1000 for all; this one has 692 and asks for 346 more");
}

Settings few_calls() {
    Settings made;
    made.limits.gather_calls = 8;
    return made;
}
struct ControlGathersCalls : Met {
    ControlGathersCalls() : Met(few_calls()) {}
};

TEST_F(ControlGathersCalls, HaveALimit) {
    for (int i = 0; i < 6; ++i) rig.gather(a, "request-a", 0, 2, "");
    expect_wrong(rig.gather(a, "request-a", 0, 2, ""), Problem::Unavailable, "repeat");
}

struct ControlGathersOfLargeJobs : Owned {
    void come(Agent const& agent, std::string const& owner, std::uint32_t from, std::uint32_t to,
              std::uint32_t size) {
        for (std::uint32_t rank = from; rank < to; ++rank) {
            last = gather(agent, "request-" + std::to_string(rank), rank, owner, "start", size);
        }
    }
    CallId last = 0;
};

TEST_F(ControlGathersOfLargeJobs, OneOwnersMeetWithAsManyRanksAsAGatherMayHave) {
    std::uint32_t const most = 65'536;
    Agent const a = rig.register_agent("a");
    come(a, "one", 0, most - 1, most);
    EXPECT_FALSE(rig.answers.contains(last));
    EXPECT_EQ(rig.cluster.gathers().waiting().of("one"), most - 1);
    come(a, "one", most - 1, most, most);
    EXPECT_EQ(problem(last), Problem::None) << rig.answers.at(last).text;
    EXPECT_EQ(rig.answers.at(last).gathered->data_size(), int(most));
    EXPECT_EQ(rig.cluster.gathers().waiting().all(), 0u);
}

TEST_F(ControlGathersOfLargeJobs, TwoOwnersMeetAtTheSameTime) {
    std::uint32_t const ranks = 32'768;
    Agent const a = rig.register_agent("a");
    for (std::string const owner : {"one", "two"}) come(a, owner, 0, ranks - 1, ranks);
    EXPECT_TRUE(rig.answers.empty());
    for (std::string const owner : {"one", "two"}) {
        come(a, owner, ranks - 1, ranks, ranks);
        EXPECT_EQ(problem(last), Problem::None) << rig.answers.at(last).text;
    }
}

// Each of them has a deadline of its own, and its error names who is missing.
TEST_F(ControlGathersOfLargeJobs, ThoseThatDoNotMeetAreToldSoInTime) {
    std::uint32_t const most = 65'536;
    Agent const a = rig.register_agent("a");
    for (std::uint32_t rank = most - 1; rank > 0; --rank) come(a, "one", rank - 1, rank, most);
    auto const begin = std::chrono::steady_clock::now();
    rig.pass(6000, {&a});
    EXPECT_EQ(rig.answers.size(), most - 1);
    EXPECT_NE(rig.answers.at(last).text.find("have not come"), std::string::npos);
    // By itself some 100 ms; looking at all ranks for each of them takes minutes.
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
}

}  // namespace
}  // namespace mgi::control::test
