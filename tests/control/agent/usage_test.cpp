// What applications say of their channels, on its way to the controller.
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "control/agent/core_fixture.hpp"
#include "control/local/use_words.hpp"

namespace mgi::control::test {
namespace {

/// Applications 1 and 2 have endpoints 1 and 2 of channel 5.
class UsageCore : public Core {
protected:
    void SetUp() override {
        register_agent();
        ClusterChannelSpec spec;
        spec.sources = spec.destinations = {1, 2};
        for (std::uint32_t id : {1u, 2u}) {
            Json channel = {{"channel", 5u},
                            {"generation", 1u},
                            {"request", "request-5"},
                            {"created", id == 1}};
            add_spec(channel, spec);
            hello(id, {{"endpoints", {{{"endpoint", id}, {"vertex", 0u}}}},
                       {"channels", Json::array({channel})}});
        }
    }
    static ClusterUse use(std::uint32_t source, std::uint64_t bytes) {
        ClusterUse made;
        made.channel = 5;
        made.flow.rows = bytes / 10;
        made.flow.bytes = bytes;
        made.flow.waited_ms = 100;
        made.flow.longest_wait_ms = bytes;
        made.queued = 2;
        ClusterPathUse path;
        path.source = source;
        path.destination = 2;
        path.by = "reference";
        path.flow = made.flow;
        made.paths = {path};
        made.nics = {{"eth0", made.flow}};
        made.waits = {{ClusterWait::For::Credit, source, {2}, 0, bytes, "because"}};
        return made;
    }
    void say(ApplicationId application, Json const& channel) {
        core_.application_said(
            application, {{"op", "use"}, {"id", 0u}, {"channels", Json::array({channel})}}, now_);
    }
    /// The next one.
    Heartbeat beat() {
        ports_.sent.clear();
        wait(Milliseconds(600));
        for (AgentMessage const& message : ports_.sent) {
            if (message.has_heartbeat()) return message.heartbeat();
        }
        ADD_FAILURE() << "no heartbeat";
        return {};
    }
    ChannelUse told(std::uint32_t channel = 5) {
        Heartbeat const next = beat();
        for (ChannelUse const& figure : next.channels()) {
            if (figure.channel() == channel) return figure;
        }
        return {};
    }
};

TEST_F(UsageCore, ApplicationsOfAChannelAddUp) {
    say(1, json_of(use(1, 1000)));
    say(2, json_of(use(2, 3000)));
    say(1, json_of(use(1, 2000)));
    ChannelUse const figure = told();
    EXPECT_EQ(figure.rows(), 500u);
    EXPECT_EQ(figure.bytes(), 5000u);
    EXPECT_EQ(figure.queued(), 4u);
    EXPECT_EQ(figure.flow().waited_ms(), 200u);
    EXPECT_EQ(figure.flow().longest_wait_ms(), 3000u) << "the longest, and no sum";
    ASSERT_EQ(figure.paths_size(), 2);
    EXPECT_EQ(figure.paths(0).source(), 2u) << "the busiest first";
    EXPECT_EQ(figure.paths(0).flow().bytes(), 3000u);
    ASSERT_EQ(figure.waits_size(), 2);
    EXPECT_EQ(figure.waits(0).who(), 2u) << "the longest first";
    EXPECT_EQ(figure.waits(0).whom(0), 2u);
    EXPECT_EQ(figure.waits(0).why(), "because");
}

TEST_F(UsageCore, WhoHasLeftHasSentWhatHeSentAndWaitsForNobody) {
    say(1, json_of(use(1, 1000)));
    say(2, json_of(use(2, 3000)));
    ask(2, {{"op", "leave_channel"}, {"id", 1u}, {"channel", 5u}});
    ChannelUse const figure = told();
    EXPECT_EQ(figure.bytes(), 4000u);
    EXPECT_EQ(figure.queued(), 2u);
    EXPECT_EQ(figure.paths_size(), 1);
    EXPECT_EQ(figure.waits_size(), 1);
    core_.application_left(2, "it ended", now_);
    EXPECT_EQ(told().bytes(), 4000u);
}

TEST_F(UsageCore, OnlySoManyPathsAndWaitsAreTold) {
    ClusterUse many = use(1, 1000);
    many.paths.assign(ClusterUse::kMostPaths, many.paths[0]);
    for (std::uint32_t i = 0; i < many.paths.size(); ++i) many.paths[i].destination = 100 + i;
    many.more_paths = 4;
    many.waits.assign(ClusterUse::kMostWaits, many.waits[0]);
    say(1, json_of(many));
    for (ClusterPathUse& path : many.paths) path.source = 2;
    many.paths[0].flow.bytes = 9999;
    say(2, json_of(many));
    ChannelUse const figure = told();
    EXPECT_EQ(figure.paths_size(), int(ClusterUse::kMostPaths));
    EXPECT_EQ(figure.paths(0).flow().bytes(), 9999u);
    EXPECT_EQ(figure.more_paths(), 8 + ClusterUse::kMostPaths);
    EXPECT_EQ(figure.waits_size(), int(ClusterUse::kMostWaits));
    EXPECT_EQ(figure.more_waits(), ClusterUse::kMostWaits);
}

TEST_F(UsageCore, OnlyWhoHasAPartInAChannelIsHeardOfIt) {
    say(1, json_of(use(1, 1000)));
    say(2, json_of(use(2, 3000)));
    hello(3);
    say(3, json_of(use(3, 500)));
    ask(2, {{"op", "leave_channel"}, {"id", 1u}, {"channel", 5u}});
    say(2, json_of(use(2, 3000)));  // what it had looked at before it left
    ChannelUse const figure = told();
    EXPECT_EQ(figure.bytes(), 4000u);
    EXPECT_EQ(figure.paths_size(), 1);
    ASSERT_EQ(figure.waits_size(), 1);
    EXPECT_EQ(figure.waits(0).who(), 1u);
}

TEST_F(UsageCore, WiresByOneNicToOneProcessAreOnePath) {
    ClusterPathUse wire;
    wire.by = "wire";
    wire.nic = "eth0";
    wire.peer = "rank 3 on server b";
    for (ApplicationId application : {1u, 2u}) {
        ClusterUse made = use(std::uint32_t(application), 1000);
        wire.flow.bytes = wire.flow.segments = 100 * application;
        made.paths = {wire, wire};  // that process has more NICs than this server
        say(application, json_of(made));
    }
    ChannelUse const figure = told();
    ASSERT_EQ(figure.paths_size(), 1) << "what has one name has one rate";
    EXPECT_EQ(figure.paths(0).flow().bytes(), 600u);
    EXPECT_EQ(figure.paths(0).peer(), "rank 3 on server b");
    EXPECT_EQ(figure.paths(0).source(), ClusterPathUse::kAll);
}

TEST_F(UsageCore, NicsAddUpOverApplicationsAndChannelsThatHaveEnded) {
    say(1, json_of(use(1, 1000)));
    say(2, json_of(use(2, 3000)));
    auto const nics = [&] {
        std::map<std::string, std::uint64_t> bytes;
        Heartbeat const next = beat();
        for (NicUse const& nic : next.nics()) bytes[nic.nic()] = nic.flow().bytes();
        return bytes;
    };
    std::map<std::string, std::uint64_t> const all{{"eth0", 4000}};
    EXPECT_EQ(nics(), all);
    ControllerMessage over = message();
    over.mutable_channel_ended()->set_channel(5);
    receive(over);
    EXPECT_EQ(nics(), all);
}

TEST(Usage, NicsHaveTheGraphsNames) {
    Usage usage(Usage::NicNames{{"eth0", "nic 0000:01:00"}});
    ClusterUse use;
    use.paths.emplace_back().nic = "eth0";
    use.nics = {{"eth0", {}}, {"bond0", {}}};
    usage.take(1, use);
    Heartbeat heartbeat;
    usage.add_to(heartbeat);
    EXPECT_EQ(heartbeat.channels(0).paths(0).nic(), "nic 0000:01:00");
    ASSERT_EQ(heartbeat.nics_size(), 2);
    EXPECT_EQ(heartbeat.nics(0).nic(), "bond0");
    EXPECT_EQ(heartbeat.nics(1).nic(), "nic 0000:01:00");
}

TEST(Usage, ANicsCountNeverFallsAndNamesAreBounded) {
    Usage usage;
    for (std::uint32_t i = 0; i < 2 * Usage::kMostNics; ++i) {
        ClusterUse use;
        use.channel = i;
        use.nics.push_back({"nic" + std::to_string(i), {}});
        use.nics[0].flow.bytes = 1;
        use.nics[0].flow.in_flight = 1;
        usage.take(1, use);
        usage.forget_channel(i);
    }
    Heartbeat heartbeat;
    usage.add_to(heartbeat);
    EXPECT_EQ(heartbeat.nics_size(), int(Usage::kMostNics));
    for (NicUse const& nic : heartbeat.nics()) {
        EXPECT_EQ(nic.flow().bytes(), 1u);
        EXPECT_EQ(nic.flow().in_flight(), 0u);
    }
}

TEST_F(UsageCore, OlderApplicationsFiguresCount) {
    say(1, {{"channel", 5u}, {"rows", 3u}, {"bytes", 30u}});
    EXPECT_EQ(told().bytes(), 30u);
}

TEST_F(UsageCore, WhatIsWrongIsSaidAndOfOtherChannelsNothing) {
    ports_.told[1].clear();
    say(1, {{"channel", 5u}, {"paths", "many"}});
    EXPECT_NE(error_of(ports_.told[1].back()).find("paths"), std::string::npos);
    ClusterUse other = use(1, 1000);
    other.channel = 6;
    say(1, json_of(other));
    EXPECT_EQ(told(6).bytes(), 0u);
}

TEST_F(UsageCore, AChannelThatEndedHasNone) {
    say(1, json_of(use(1, 1000)));
    ControllerMessage over = message();
    over.mutable_channel_ended()->set_channel(5);
    receive(over);
    EXPECT_EQ(told().bytes(), 0u);
}

}  // namespace
}  // namespace mgi::control::test
