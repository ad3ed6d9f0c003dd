// Metrics: Prometheus' text, and what the controller says in it.
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include <mgi/cluster.hpp>
#include <mgi/graph.hpp>

#include "control/http/controller_metrics.hpp"
#include "control/http/metric_text.hpp"

namespace mgi::control {
namespace {

TEST(MetricText, LabelsAreQuotedAndNamesStandTogether) {
    MetricText text;
    text.gauge("mgi_a", "A", 1, {{"server", "x\"\\\ny"}});
    text.counter("mgi_b_total", "B", 2);
    text.gauge("mgi_a", "A", 3, {{"server", "z"}});
    EXPECT_EQ(text.text(),
              "# HELP mgi_a A\n# TYPE mgi_a gauge\n"
              "mgi_a{server=\"x\\\"\\\\\\ny\"} 1\nmgi_a{server=\"z\"} 3\n"
              "# HELP mgi_b_total B\n# TYPE mgi_b_total counter\nmgi_b_total 2\n");
}

TEST(ControllerMetrics, StatesThatNobodyIsInAreZero) {
    Snapshot snapshot;
    snapshot.epoch = 7;
    snapshot.servers.push_back({});
    snapshot.servers[0].name = "node1";
    snapshot.servers[0].state = "away";
    std::string const text = controller_metrics(snapshot, true);
    for (char const* const line :
         {"mgi_controller_leads 1\n", "mgi_controller_epoch 7\n", "mgi_servers{state=\"away\"} 1\n",
          "mgi_servers{state=\"present\"} 0\n", "mgi_server_present{server=\"node1\"} 0\n",
          "mgi_channels{state=\"failed\"} 0\n", "mgi_controller_heartbeats_total 0\n"}) {
        EXPECT_NE(text.find(line), std::string::npos) << line << text;
    }
    EXPECT_EQ(controller_metrics({}, false).find("mgi_servers"), std::string::npos);
}

TEST(ControllerMetrics, WhatNicsCanCarryAndDo) {
    auto graph = std::make_shared<ServerGraph>();
    graph->add_vertices()->set_name("cpu0");
    Vertex& nic = *graph->add_vertices();
    nic.set_name("nic0");
    nic.set_kind(static_cast<std::uint32_t>(VertexKind::Nic));
    Vertex& network = *graph->add_vertices();
    network.set_name("network");
    network.set_kind(static_cast<std::uint32_t>(VertexKind::Network));
    for (std::uint32_t const to : {0u, 2u}) {
        Link& link = *graph->add_links();
        link.set_from(1);
        link.set_to(to);
        link.set_gbps(12.5);
    }
    LinkFigures figures;
    LinkUse& use = *figures.Add();
    use.set_from(1);
    use.set_to(2);
    use.set_gbps(0.5);
    Snapshot snapshot;
    snapshot.servers.push_back({});
    snapshot.servers[0].name = "node1";
    snapshot.servers[0].graph = std::move(graph);
    snapshot.servers[0].use.links = std::make_shared<LinkFigures const>(figures);
    std::string const text = controller_metrics(snapshot, true);
    std::string const labels = R"({from="nic0",server="node1",to="network"} )";
    EXPECT_NE(text.find("mgi_network_link_capacity_bytes_per_second" + labels + "12500000000\n"),
              std::string::npos)
        << text;
    EXPECT_NE(text.find("mgi_network_link_used_bytes_per_second" + labels + "500000000\n"),
              std::string::npos)
        << text;
    EXPECT_EQ(text.find("to=\"cpu0\""), std::string::npos) << text;
}

TEST(ControllerMetrics, WhatChannelsAndPathsMove) {
    Snapshot snapshot;
    snapshot.servers.emplace_back();
    snapshot.servers[0].id = 3;
    snapshot.servers[0].name = "node1";
    snapshot.servers[0].nics.push_back({"nic0", true, 1, 2, 0, 2, {}});
    snapshot.servers[0].nics[0].payload.resends = 5;
    ChannelView& channel = snapshot.channels.emplace_back();
    channel.id = 7;
    channel.name = "shuffle";
    channel.state = "running";
    channel.flow.bytes = 1000;
    channel.flow.waited_ms = 1500;
    channel.queued = 4;
    PathView& path = channel.paths.emplace_back();
    path.server = 3;
    path.source = 1;
    path.destination = ClusterPathUse::kAll;
    path.by = "copy";
    path.flow.gbps = 0.5;
    ChannelView over = channel;
    over.id = 8;
    over.state = "failed";
    snapshot.channels.push_back(over);
    std::string const text = controller_metrics(snapshot, true);
    std::string const of = R"({channel="7",name="shuffle"} )";
    std::string const on =
        R"({by="copy",channel="7",from="1",nic="",peer="",server="node1",to="all"} )";
    for (std::string const& line :
         {"mgi_channel_bytes_total" + of + "1000\n",
          "mgi_channel_credit_wait_seconds_total" + of + "1.5\n",
          "mgi_channel_segments_queued" + of + "4\n",
          "mgi_path_bytes_per_second" + on + "500000000\n",
          std::string("mgi_nic_resends_total{nic=\"nic0\",server=\"node1\"} 5\n")}) {
        EXPECT_NE(text.find(line), std::string::npos) << line << text;
    }
    EXPECT_EQ(text.find("channel=\"8\""), std::string::npos) << "it is over";
}

}  // namespace
}  // namespace mgi::control
