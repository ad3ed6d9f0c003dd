// Rates of channels, from figures that applications bring about once a second.
#include <gtest/gtest.h>

#include <utility>

#include <mgi/graph.hpp>

#include "control/state/rig.hpp"

namespace mgi::control::test {
namespace {

struct Used : ::testing::Test {
    Rig rig;
    Agent a = rig.register_agent("a");
    Agent b = rig.register_agent("b");
    std::uint32_t const ea = rig.endpoint(a);
    std::uint32_t const eb = rig.endpoint(b);
    std::uint32_t const id = rig.running(a, b);

    double gbps() const {
        Snapshot shown = rig.cluster.snapshot(Now{rig.time, 0});
        complete(shown);
        return shown.channels.at(0).flow.gbps;
    }
    void beat(std::uint64_t bytes) {
        rig.pass(100, {&b});
        AgentMessage message;
        ChannelUse& use = *message.mutable_heartbeat()->add_channels();
        use.set_channel(id);
        use.set_bytes(bytes);
        rig.say(a, message);
    }
};
using ControlUse = Used;

TEST_F(ControlUse, RatesDoNotFlickerBetweenReports) {
    constexpr std::uint64_t kGigabyte = 1'000'000'000;
    for (int tenth = 1; tenth <= 300; ++tenth) {
        beat(static_cast<std::uint64_t>(tenth / 10) * kGigabyte);  // 1 GB/s, said once a second
        if (tenth < 60) continue;
        ASSERT_GT(gbps(), 0.6) << tenth;
        ASSERT_LT(gbps(), 1.4) << tenth;
    }
    for (int tenth = 0; tenth < 65; ++tenth) beat(30 * kGigabyte);
    EXPECT_EQ(gbps(), 0);
}

TEST_F(ControlUse, ANewChannelsRateIsSeenSoon) {
    beat(0);
    beat(100'000'000);
    EXPECT_NEAR(gbps(), 1, 1e-9);
}

TEST_F(ControlUse, AnApplicationThatBeginsAgainHasNoNegativeRate) {
    for (int tenth = 1; tenth <= 60; ++tenth) {
        beat(static_cast<std::uint64_t>(tenth) * 100'000'000);
    }
    beat(5);
    EXPECT_EQ(gbps(), 0);
}

TEST_F(ControlUse, MoreFiguresThanAnyServerHasAreRefused) {
    AgentMessage message;
    for (std::size_t i = 0; i <= Limits().figures; ++i) {
        message.mutable_heartbeat()->add_nics();
    }
    rig.say(a, message);
    EXPECT_EQ(rig.last(a.session).refused().why(), Refused::LIMIT);
    AgentMessage paths;
    ChannelUse& use = *paths.mutable_heartbeat()->add_channels();
    use.set_channel(id);
    for (std::size_t i = 0; i <= Limits().figures; ++i) use.add_paths();
    rig.say(b, paths);
    EXPECT_EQ(rig.last(b.session).refused().why(), Refused::LIMIT);
}

struct Details : ControlUse {
    void beat(std::uint64_t bytes) {
        rig.pass(1000);
        for (Agent const* agent : {&a, &b}) {
            AgentMessage message;
            ChannelUse& use = *message.mutable_heartbeat()->add_channels();
            use.set_channel(id);
            use.set_bytes(2 * bytes);
            use.mutable_flow()->set_in_flight(3);
            use.mutable_flow()->set_longest_wait_ms(agent == &a ? 70 : 40);
            use.set_more_paths(1);
            for (std::uint32_t const destination : {ea, eb}) {
                PathUse& path = *use.add_paths();
                path.set_source(agent == &a ? ea : eb);
                path.set_destination(destination);
                path.set_by("copy");
                path.mutable_flow()->set_bytes(destination == eb ? bytes : bytes / 2);
            }
            WaitUse& wait = *use.add_waits();
            wait.set_what(agent == &a ? 1 : 0);
            wait.set_who(agent == &a ? ea : eb);
            wait.set_ms(agent == &a ? 9000 : 10);
            rig.say(*agent, message);
        }
    }
    [[nodiscard]] ChannelView shown() const {
        Snapshot snapshot = rig.cluster.snapshot(Now{rig.time, 0});
        complete(snapshot);
        return snapshot.channels.at(0);
    }
};
using ControlUseDetails = Details;

TEST_F(ControlUseDetails, PathsHaveRatesAndServersAddUp) {
    for (std::uint64_t second = 1; second <= 10; ++second) beat(second * 1'000'000'000);
    ChannelView const channel = shown();
    EXPECT_NEAR(channel.flow.gbps, 4, 0.5);
    EXPECT_EQ(channel.flow.in_flight, 6u);
    EXPECT_EQ(channel.flow.longest_wait_ms, 70u);
    EXPECT_EQ(channel.more_paths, 2u);
    ASSERT_EQ(channel.paths.size(), 4u);
    EXPECT_EQ(channel.paths[0].destination, eb) << "the busiest first";
    EXPECT_NEAR(channel.paths[0].flow.gbps, 1, 0.2);
    EXPECT_NEAR(channel.paths[3].flow.gbps, 0.5, 0.1);
    EXPECT_NE(channel.paths[0].server, channel.paths[1].server);
    ASSERT_EQ(channel.waits.size(), 2u);
    EXPECT_EQ(channel.waits[0].use.who(), eb) << "who waits for room first";
}

TEST(ControlUseNics, WhatTheyCarryAndWhatOfItIsPayload) {
    auto graph = std::make_shared<ServerGraph>();
    for (auto const& [name, kind] :
         {std::pair("nic0", VertexKind::Nic), std::pair("network", VertexKind::Network)}) {
        Vertex& vertex = *graph->add_vertices();
        vertex.set_name(name);
        vertex.set_kind(static_cast<std::uint32_t>(kind));
    }
    for (bool const out : {true, false}) {
        Link& link = *graph->add_links();
        link.set_from(out ? 0 : 1);
        link.set_to(out ? 1 : 0);
        link.set_gbps(12.5);
    }
    LinkFigures links;
    links.Add()->set_to(1);
    links.at(0).set_gbps(6);
    auto const figures = [](std::uint64_t bytes) {
        NicFigures made;
        for (char const* const name : {"nic0", "bond0"}) {
            NicUse& use = *made.Add();
            use.set_nic(name);
            use.mutable_flow()->set_bytes(bytes);
            use.mutable_flow()->set_resends(3);
        }
        return std::make_shared<NicFigures const>(made);
    };
    Snapshot snapshot;
    ServerView& server = snapshot.servers.emplace_back();
    server.graph = graph;
    server.use.links = std::make_shared<LinkFigures const>(links);
    server.use.before.nics = figures(0);
    server.use.before.at = 1000;
    server.use.last.nics = figures(10'000'000'000);
    server.use.last.at = 3000;
    complete(snapshot);
    ASSERT_EQ(server.nics.size(), 2u);
    EXPECT_EQ(server.nics[1].name, "bond0");
    EXPECT_FALSE(server.nics[1].in_graph);
    EXPECT_EQ(server.nics[1].payload.gbps, 5);
    NicView const& nic = server.nics[0];
    EXPECT_EQ(nic.name, "nic0");
    EXPECT_TRUE(nic.in_graph);
    EXPECT_EQ(nic.out_gbps, 6);
    EXPECT_EQ(nic.in_gbps, 0);
    EXPECT_EQ(nic.out_capacity_gbps, 12.5);
    EXPECT_EQ(nic.in_capacity_gbps, 12.5);
    EXPECT_EQ(nic.payload.gbps, 5);
    EXPECT_EQ(nic.payload.resends, 3u);
}

}  // namespace
}  // namespace mgi::control::test
