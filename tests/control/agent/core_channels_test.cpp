// The agent's core against a scripted controller: what a channel's processes share, and who leaves it.
#include <gtest/gtest.h>

#include <fcntl.h>
#include <unistd.h>

#include <string>
#include <variant>

#include "control/agent/core_fixture.hpp"

namespace mgi::control::test {
namespace {

/// Applications 1 and 2 have endpoints 1 and 2 of channel 5, application 3 has endpoint 3.
class SharingCore : public Core {
protected:
    void SetUp() override {
        register_agent();
        for (std::uint32_t id : {1u, 2u, 3u}) {
            Json held = {{"endpoints", {{{"endpoint", id}, {"vertex", 0u}}}}};
            if (id < 3) held["channels"] = Json::array({channel(id == 1)});
            hello(id, held);
            ports_.told[id].clear();
        }
        ports_.sent.clear();
    }
    static Json channel(bool created) {
        ClusterChannelSpec spec;
        spec.sources = {1};
        spec.destinations = {2};
        Json made = {
            {"channel", 5u}, {"generation", 1u}, {"request", "request-5"}, {"created", created}};
        add_spec(made, spec);
        return made;
    }
    static Fd file() {
        int ends[2] = {-1, -1};
        EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
        Fd const other(ends[1]);
        return Fd(ends[0]);
    }
    static bool open(int fd) { return fcntl(fd, F_GETFD) != -1; }
    Json put(ApplicationId id, Fd fd, std::uint32_t of = 5) {
        Json const message = {{"op", "put_part"}, {"id", 1u}, {"channel", of}, {"fd", true}};
        core_.application_said(id, message, now_, std::move(fd));
        return ports_.told[id].back();
    }
    void get(ApplicationId id, std::uint64_t request, std::uint64_t timeout = 10'000) {
        core_.application_said(
            id, {{"op", "get_part"}, {"id", request}, {"channel", 5u}, {"timeout_ms", timeout}},
            now_);
    }
    void end_channel() {
        ControllerMessage over = message();
        over.mutable_channel_ended()->set_channel(5);
        over.mutable_channel_ended()->set_why("deleted");
        receive(over);
    }
};

TEST_F(SharingCore, APartIsHandedToWhoTakesPart) {
    Fd part = file();
    int const kept = part.get();
    get(2, 7);  // before it is there
    EXPECT_TRUE(ports_.told[2].empty());
    EXPECT_TRUE(put(1, std::move(part)).contains("ok"));
    get(2, 8);
    ASSERT_EQ(ports_.told[2].size(), 2u);
    EXPECT_EQ(ports_.told[2][0]["id"], 7u);
    EXPECT_EQ(ports_.told[2][0]["fd"], true);
    ASSERT_EQ(ports_.handed.size(), 2u);
    for (Fd const& fd : ports_.handed) {
        EXPECT_TRUE(open(fd.get()));
        EXPECT_NE(fd.get(), kept);
    }
    EXPECT_TRUE(open(kept));
    end_channel();
    EXPECT_FALSE(open(kept));
}

TEST_F(SharingCore, AnotherPartTakesItsPlace) {
    Fd first = file();
    Fd second = file();
    int const old = first.get();
    put(1, std::move(first));
    put(1, std::move(second));
    EXPECT_FALSE(open(old));
}

TEST_F(SharingCore, OthersGetNothingAndLeaveNothing) {
    Fd part = file();
    int const stranger = part.get();
    EXPECT_NE(error_of(put(3, std::move(part))).find("no endpoint of this application"),
              std::string::npos);
    EXPECT_FALSE(open(stranger));
    part = file();
    int const nowhere = part.get();
    EXPECT_NE(error_of(put(1, std::move(part), 99)).find("does not exist"), std::string::npos);
    EXPECT_FALSE(open(nowhere));
    put(1, file());
    get(3, 9);
    EXPECT_NE(error_of(ports_.told[3].back()).find("get_part"), std::string::npos);
    EXPECT_TRUE(ports_.handed.empty());
}

// All applications here are one user's.
TEST_F(SharingCore, TheFirstBoardIsEverybodysUntilAllHaveEnded) {
    auto const share = [&](ApplicationId id, Fd fd) {
        core_.application_said(id, {{"op", "share_board"}, {"id", 1u}, {"fd", true}}, now_,
                               std::move(fd));
        return ports_.told[id].back();
    };
    Fd first = file();
    Fd second = file();
    int const kept = first.get();
    int const late = second.get();
    EXPECT_EQ(share(1, std::move(first))["fd"], true);
    EXPECT_EQ(share(3, std::move(second))["fd"], true);
    ASSERT_EQ(ports_.handed.size(), 2u);
    EXPECT_TRUE(open(kept));
    EXPECT_FALSE(open(late));
    EXPECT_NE(error_of(share(2, Fd())).find("share_board brings no file descriptor"),
              std::string::npos);
    for (ApplicationId const id : {1u, 2u}) core_.application_left(id, "it ended", now_);
    EXPECT_TRUE(open(kept));
    core_.application_left(3, "it ended", now_);
    EXPECT_FALSE(open(kept));
}

TEST_F(SharingCore, WhatGotLostOnItsWayIsAnError) {
    EXPECT_NE(error_of(put(1, Fd())).find("too many open files"), std::string::npos);
    core_.application_said(1, {{"op", "put_part"}, {"id", 1u}, {"channel", 5u}}, now_);
    EXPECT_NE(error_of(ports_.told[1].back()).find("brings no file descriptor"), std::string::npos);
}

TEST_F(SharingCore, WaitingForAPartHasADeadline) {
    get(2, 7, 1000);
    wait(Milliseconds(1001));
    EXPECT_NE(error_of(ports_.told[2].back()).find("has put the channel's part"),
              std::string::npos);
    get(2, 8);
    end_channel();
    Json const last = ports_.told[2].back();
    EXPECT_EQ(last["id"], 8u);
    EXPECT_NE(error_of(last).find("channel 5 has ended"), std::string::npos);
    EXPECT_TRUE(ports_.told[2].size() == 3 && ports_.told[2][1]["notice"] == "channel_ended");
}

TEST_F(SharingCore, WhoEndsWaitsForNothing) {
    get(2, 7);
    core_.application_left(2, "its process has ended", now_);
    ports_.told[2].clear();
    put(1, file());
    wait(Milliseconds(11'000));
    EXPECT_TRUE(ports_.told[2].empty());
    EXPECT_TRUE(ports_.handed.empty());
}

TEST_F(SharingCore, WaitingsAreBounded) {
    for (std::uint64_t i = 0; i <= AgentCore::kMostRequests; ++i) get(2, i + 1);
    EXPECT_NE(error_of(ports_.told[2].back()).find("wait already"), std::string::npos);
    // What it shares and leaves meanwhile waits for nothing.
    core_.application_said(2, {{"op", "share_board"}, {"id", 900u}, {"fd", true}}, now_, file());
    EXPECT_EQ(ports_.told[2].back()["id"], 900u);
    EXPECT_TRUE(ports_.told[2].back().contains("ok"));
    ports_.handed.clear();
    put(1, file());
    EXPECT_EQ(ports_.handed.size(), AgentCore::kMostRequests);
    get(2, 1000);
    EXPECT_EQ(ports_.told[2].back()["id"], 1000u);
}

TEST_F(SharingCore, WhatEndsWaitingIsNotRefusedForAllThatWaits) {
    // All of them are user 1000's.
    std::size_t const share = AgentCore::kMostRequestsOfAll * 3 / 4;
    for (std::size_t i = 0; i < share - 1; ++i) {
        ApplicationId const id = 10 + i / AgentCore::kMostRequests;
        if (i % AgentCore::kMostRequests == 0) hello(id);
        ask(id, {{"op", "status"}, {"id", i + 1}});
    }
    get(2, 7);
    EXPECT_TRUE(ports_.told[2].empty()) << ports_.told[2].back().dump();
    get(2, 8);
    EXPECT_NE(error_of(ports_.told[2].back()).find("requests that wait at this agent"),
              std::string::npos);
    std::size_t const calls = ports_.calls.size();
    ask(3, {{"op", "delete_endpoint"}, {"id", 9u}, {"endpoint", 3u}});
    ask(1, {{"op", "delete_channel"}, {"id", 10u}, {"channel", 5u}});
    EXPECT_EQ(ports_.calls.size(), calls + 2);
    ports_.told[2].clear();
    EXPECT_TRUE(put(1, file()).contains("ok"));
    ASSERT_EQ(ports_.told[2].size(), 1u);
    EXPECT_EQ(ports_.told[2][0]["id"], 7u);
    EXPECT_TRUE(ask(1, {{"op", "leave_channel"}, {"id", 11u}, {"channel", 5u}}).contains("ok"));
    // Of the place that is free now there is use: the deletions have theirs beside the share.
    for (std::size_t i = calls; i < calls + 2; ++i) end_call(i, CallOutcome::Kind::Done);
    ask(2, {{"op", "status"}, {"id", 12u}});
    EXPECT_EQ(ports_.calls.size(), calls + 3);
}

TEST_F(SharingCore, LeavingIsAnsweredAtOnceAndToldInOrder) {
    ask(1, {{"op", "leave_channel"}, {"id", 1u}, {"channel", 5u}});
    EXPECT_TRUE(ports_.told[1].back().contains("ok"));
    core_.application_left(1, "its process has ended", now_);
    ASSERT_EQ(ports_.sent.size(), 2u);
    ChannelLeft const& left = ports_.sent[0].channel_left();
    EXPECT_EQ(left.channel(), 5u);
    EXPECT_TRUE(left.creator());
    ASSERT_EQ(left.endpoints_size(), 1);
    EXPECT_EQ(left.endpoints(0), 1u);
    EXPECT_TRUE(ports_.sent[1].has_endpoints_gone());
    EXPECT_TRUE(ports_.calls.empty());  // its creator has left it: it is not deleted
}

// Its end as a creator, which only ends the channel, must not come before its end as an endpoint, which fails it.
TEST_F(SharingCore, ACreatorThatDiesInAChannelFailsIt) {
    core_.application_left(1, "its process has ended", now_);
    ASSERT_EQ(ports_.sent.size(), 1u);
    EXPECT_TRUE(ports_.sent[0].has_endpoints_gone());
    EXPECT_TRUE(ports_.calls.empty());
    wait(AgentCore::kAfterEndpoints + Milliseconds(1));
    ASSERT_EQ(ports_.calls.size(), 1u);  // should the controller not know of the endpoints
    EXPECT_EQ(std::get<DeleteChannelRequest>(ports_.calls[0].request).channel(), 5u);
}

TEST_F(SharingCore, WhoHasLeftHearsOfItsGoodEndAndNothingElse) {
    ask(1, {{"op", "leave_channel"}, {"id", 1u}, {"channel", 5u}});
    ask(1, {{"op", "leave_channel"}, {"id", 2u}, {"channel", 5u}});
    EXPECT_TRUE(ports_.told[1].back().contains("ok"));
    EXPECT_EQ(ports_.sent.size(), 1u);
    ControllerMessage word = message();
    word.mutable_channel_left()->set_channel(5);
    word.mutable_channel_left()->add_endpoints(1);
    receive(word);
    EXPECT_EQ(ports_.told[2].back()["notice"], "channel_left");
    EXPECT_EQ(ports_.told[1].size(), 2u);
    ControllerMessage over = message();
    over.mutable_channel_ended()->set_channel(5);
    over.mutable_channel_ended()->set_failed(true);
    receive(over);
    EXPECT_EQ(ports_.told[1].back()["failed"], false);
    EXPECT_EQ(ports_.told[2].back()["failed"], true);
}

TEST_F(SharingCore, ALeaverHasNoPartInItAnyMore) {
    put(1, file());
    ask(2, {{"op", "leave_channel"}, {"id", 1u}, {"channel", 5u}});
    get(2, 2);
    EXPECT_NE(error_of(ports_.told[2].back()).find("no endpoint"), std::string::npos);
}

}  // namespace
}  // namespace mgi::control::test
