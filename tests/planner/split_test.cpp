#include "planner/split.hpp"

#include <gtest/gtest.h>

#include <string>

#include <mgi/error.hpp>

#include "planner/channel_planner.hpp"

namespace mgi::planner {
namespace {

using topology::GraphBuilder;
using topology::Infrastructure;

/// Four servers of one GPU and one NIC; the first two share an NVLink domain, the others another.
struct TwoDomains {
    TwoDomains() {
        GraphBuilder graph;
        for (std::uint32_t s = 0; s < 4; ++s) {
            auto const gpu = graph.add(VertexKind::Gpu, "gpu", s);
            auto const nic = graph.add(VertexKind::Nic, "nic", s);
            graph.connect_both(gpu, nic, 20, "pcie");
            graph.connect_network(nic, 80'000);
            std::string const domain = s < 2 ? "nvlink domain a" : "nvlink domain b";
            graph.connect_both(gpu, graph.shared(VertexKind::Switch, domain), 100, "nvlink");
            gpus.push_back(gpu);
        }
        made = std::move(graph).finish(4);
    }

    [[nodiscard]] std::string way(std::uint32_t from, std::uint32_t to) const {
        SplitCluster const cluster = split(made);
        ChannelPlanner planner(cluster.cluster);
        std::string text;
        auto const paths = planner.paths(cluster.places[gpus[from]], cluster.places[gpus[to]]);
        for (ClusterPath const& path : paths) {
            for (Place const place : path.vertices) {
                text += made.graph.vertices[cluster.whole_of(place)].name + " ";
            }
            text += std::to_string(path.capacity) + ";";
        }
        return text;
    }

    Infrastructure made;
    std::vector<std::uint32_t> gpus;
};

TEST(Split, DomainsAreThoseOfTheGraph) {
    SplitCluster const found = split(TwoDomains().made);
    EXPECT_EQ(found.cluster.size(), 4u);
    EXPECT_EQ(found.cluster.shapes(), 1u);
    EXPECT_TRUE(found.cluster.share_domain(0, 1));
    EXPECT_TRUE(found.cluster.share_domain(2, 3));
    EXPECT_FALSE(found.cluster.share_domain(0, 2));
    EXPECT_FALSE(found.cluster.share_domain(1, 3));
}

TEST(Split, PathsGoByTheDomainThatTwoShareAndElseByTheNetwork) {
    TwoDomains const system;
    std::string const wide = " " + std::to_string(capacity_of(100)) + ";";
    std::string const narrow = " " + std::to_string(capacity_of(10)) + ";";
    EXPECT_EQ(system.way(1, 0),
              "h1/gpu nvlink domain a gpu" + wide + "h1/gpu h1/nic network nic gpu" + narrow);
    EXPECT_EQ(system.way(2, 3), "h2/gpu nvlink domain b h3/gpu" + wide +
                                    "h2/gpu h2/nic network h3/nic h3/gpu" + narrow);
    EXPECT_EQ(system.way(0, 2), "gpu nic network h2/nic h2/gpu" + narrow);
}

TEST(Split, EveryVertexIsFoundAgain) {
    Infrastructure const made = TwoDomains().made;
    SplitCluster const found = split(made);
    for (Vertex const& vertex : made.graph.vertices) {
        Place const place = found.places[vertex.id];
        bool const shared = made.sites[vertex.id].server == topology::kEveryServer;
        EXPECT_EQ(place.server == kNowhere, shared) << vertex.name;
        if (!shared) {
            EXPECT_EQ(found.whole_of(place), vertex.id);
        }
    }
    for (ServerId const server : found.cluster.servers()) {
        EXPECT_EQ(found.whole[server].size(), found.cluster.shape(server)->vertices().size());
    }
}

TEST(Split, RefusesALinkBetweenTwoServers) {
    GraphBuilder graph;
    auto const a = graph.add(VertexKind::Gpu, "gpu", 0);
    auto const b = graph.add(VertexKind::Gpu, "gpu", 1);
    graph.connect_both(a, b, 10, "nvlink");
    Infrastructure const made = std::move(graph).finish(2);
    try {
        static_cast<void>(split(made));
        FAIL();
    } catch (Error const& error) {
        EXPECT_STREQ(error.what(),
                     "the link from gpu to h1/gpu joins two servers; only the network and NVLink "
                     "domains can");
    }
}

}  // namespace
}  // namespace mgi::planner
