#include "planner/cluster.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>

#include <mgi/error.hpp>

#include "perf/plan_cluster.hpp"

namespace mgi::planner {
namespace {

using topology::GraphBuilder;
using topology::Infrastructure;

Infrastructure two_gpus(double gbps = 10) {
    GraphBuilder graph;
    auto const a = graph.add(VertexKind::Gpu, "a", 0);
    auto const b = graph.add(VertexKind::Gpu, "b", 0);
    graph.connect_both(a, b, gbps, "nvlink");
    return std::move(graph).finish(1);
}

std::string refusal(std::function<void()> const& call) {
    try {
        call();
    } catch (Error const& error) {
        EXPECT_EQ(error.code(), ErrorCode::InvalidArgument);
        return error.what();
    }
    return "no error";
}

TEST(Cluster, ServersOfEqualShapeShareOne) {
    Cluster cluster;
    auto const a = cluster.add_server(two_gpus(), "a");
    auto const b = cluster.add_server(two_gpus(), "b");
    auto const c = cluster.add_server(two_gpus(11), "c");
    EXPECT_EQ(cluster.shape(a), cluster.shape(b));
    EXPECT_NE(cluster.shape(a), cluster.shape(c));
    EXPECT_EQ(cluster.shapes(), 2u);
    EXPECT_EQ(cluster.name({b, 1}), "b/b");
    EXPECT_EQ(cluster.find("c"), c);
    cluster.remove_server(b);
    EXPECT_FALSE(cluster.has(b));
    EXPECT_EQ(cluster.find("b"), std::nullopt);
    EXPECT_EQ(cluster.servers(), (std::vector<ServerId>{a, c}));
    EXPECT_NE(cluster.add_server(two_gpus(), "b"), b) << "numbers are not used again";
}

TEST(Cluster, AChangedServerHasAShapeOfItsOwnUntilItRecovers) {
    Cluster cluster;
    cluster.add_server(two_gpus(), "a");
    cluster.add_server(two_gpus(), "b");
    auto const whole = cluster.shape(0);
    cluster.set_link(0, 0, 1, 3);
    EXPECT_NE(cluster.shape(0), whole);
    EXPECT_EQ(cluster.shape(1), whole);
    cluster.set_link(1, 0, 1, 3);
    EXPECT_EQ(cluster.shape(0), cluster.shape(1)) << "changed alike";
    cluster.set_link(0, 0, 1, 0);
    EXPECT_EQ(cluster.shape(0)->arcs().size(), 1u);
    cluster.recover_link(0, 0, 1);
    EXPECT_EQ(cluster.shape(0), whole);
    EXPECT_EQ(refusal([&] { cluster.set_link(0, 1, 1, 3); }), "server 'a' has no link from b to b");
    EXPECT_EQ(refusal([&] { cluster.set_link(0, 1, 7, 3); }),
              "server 'a' has no link from b to vertex 7");
    EXPECT_NE(refusal([&] { cluster.set_link(0, 0, 1, -1); }).find("-1"), std::string::npos);
    EXPECT_NE(refusal([&] { cluster.set_link(0, 0, 1, std::nan("")); }).find("nan"),
              std::string::npos);
    EXPECT_EQ(refusal([&] { cluster.set_nic(0, 1, false); }), "server 'a': b is no NIC");
    EXPECT_EQ(cluster.shape(0), whole) << "what is refused changes nothing";
}

TEST(Cluster, RefusesWhatNoServerCanBe) {
    Cluster cluster;
    cluster.add_server(two_gpus(), "a");
    auto const add = [&](std::function<void(Infrastructure&)> const& spoil) {
        Infrastructure made = two_gpus();
        spoil(made);
        return refusal([&] { cluster.add_server(made, "b"); });
    };
    EXPECT_EQ(refusal([&] { cluster.add_server(two_gpus(), ""); }), "a server without a name");
    EXPECT_EQ(refusal([&] { cluster.add_server(two_gpus(), "a"); }),
              "there is a server 'a' already");
    for (double const gbps : {0.0, -5.0, std::nan(""), std::numeric_limits<double>::infinity()}) {
        std::string const why = add([&](Infrastructure& i) { i.graph.edges[1].gbps = gbps; });
        EXPECT_NE(why.find("server 'b': the link from b to a has a capacity of "),
                  std::string::npos)
            << why;
    }
    EXPECT_NE(add([](Infrastructure& i) { i.graph.edges[0].to = 9; }).find("vertex 9"),
              std::string::npos);
    EXPECT_NE(add([](Infrastructure& i) { i.graph.edges[0].to = 0; }).find("leads back"),
              std::string::npos);
    EXPECT_NE(add([](Infrastructure& i) {
                  i.graph.edges.push_back(i.graph.edges[0]);
              }).find("from a to b is given twice"),
              std::string::npos);
    EXPECT_NE(add([](Infrastructure& i) { i.graph.vertices[1].id = 0; }).find("has id 0"),
              std::string::npos);
    EXPECT_EQ(add([](Infrastructure& i) { i.graph.vertices[1].name = "a"; }),
              "server 'b': two vertices are called a");
    EXPECT_NE(add([](Infrastructure& i) { i.sites[1].server = 4; }).find("of server 4"),
              std::string::npos);
    EXPECT_NE(refusal([&] { cluster.add_server(two_gpus(), "b", "d"); }).find("domain 'd'"),
              std::string::npos);
    EXPECT_EQ(cluster.size(), 1u);
}

TEST(Cluster, ThousandsOfServersAreOneShape) {
    Cluster const cluster = perf::dgx_cluster(100'000, 8, 1);
    EXPECT_EQ(cluster.size(), 12'500u);
    EXPECT_EQ(cluster.shapes(), 1u);
}

std::string refusal(std::uint32_t gpus, std::uint32_t switches, std::uint32_t links) {
    topology::GraphBuilder graph;
    for (std::uint32_t v = 0; v < gpus + switches; ++v) {
        graph.add(v < gpus ? VertexKind::Gpu : VertexKind::Switch, "v" + std::to_string(v), 0);
    }
    std::uint32_t const vertices = gpus + switches;
    for (std::uint32_t l = 0; l < links; ++l) {
        graph.connect(l % vertices, (l % vertices + 1 + l / vertices) % vertices, 1, "pcie");
    }
    Cluster cluster;
    try {
        cluster.add_server(std::move(graph).finish(1), "node");
    } catch (Error const& error) {
        return error.what();
    }
    return {};
}

TEST(Cluster, RefusesServersThatTakeTooLongToPlan) {
    EXPECT_EQ(refusal(kMostManaged, 20, kMostLinks), "");
    EXPECT_EQ(refusal(64, 0, 64 * 63), "") << "small ones may have all links that there can be";
    EXPECT_EQ(refusal(73, 0, 0),
              "server 'node': 73 GPUs and CPUs, at most 72 of one server can be planned in time; "
              "leave out what takes no part (\"gpus\" and \"remove\" of a --config file), or "
              "describe it as several servers");
    EXPECT_NE(refusal(60, 5, 1025).find("1025 links between 65 vertices, at most 1024 of one"),
              std::string::npos);
}

}  // namespace
}  // namespace mgi::planner
