#include <gtest/gtest.h>

#include <set>
#include <string>

#include "topology/cluster.hpp"
#include "topology/presets.hpp"
#include "topology/rates.hpp"
#include "topology/text_topology.hpp"

namespace mgi::topology {
namespace {

using test::count_of;
using test::find_vertex;
using test::gbps;

TEST(Presets, OfEveryNameIsAServerAndACluster) {
    std::set<std::string> names;
    for (PresetInfo const& info : presets()) {
        SCOPED_TRACE(info.name);
        EXPECT_TRUE(names.emplace(info.name).second);
        auto const server = preset_server(info.name);
        EXPECT_EQ(server.servers, 1u);
        EXPECT_GE(count_of(server, VertexKind::Gpu), 2u);
        EXPECT_TRUE(server.warnings.empty());
        auto const all = preset(info.name);
        EXPECT_EQ(all.servers, info.servers);
        EXPECT_EQ(count_of(all, VertexKind::Gpu), info.servers * count_of(server, VertexKind::Gpu));
        EXPECT_LE(count_of(all, VertexKind::Network), 1u);
    }
    EXPECT_GE(names.size(), 24u);
}

TEST(Presets, FollowTheCapacityModel) {
    auto const dgx = preset("dgx-a100");
    EXPECT_EQ(gbps(dgx, "0000:02:00.0", "nvswitch"), 240);
    EXPECT_EQ(gbps(dgx, "0000:02:00.0", "pci 0000:01:00.0"), 24);
    EXPECT_EQ(gbps(dgx, "nic 0000:03:00.0", "network"), 25);
    EXPECT_EQ(gbps(dgx, "cpu0", "cpu1"), 16);
    auto const tray = preset_server("gb200-nvl72");
    EXPECT_EQ(gbps(tray, "0000:01:00.0", "nvlink domain"), 18 * nvlink_gbps(100));
    EXPECT_EQ(tray.sites[*find_vertex(tray, "nvlink domain")].server, kEveryServer);
    EXPECT_NEAR(gbps(tray, "0000:01:00.0", "cpu0"), 48 + 223.56, 1e-9);
    auto const third = preset("testbed3");
    EXPECT_NEAR(gbps(third, "h2/0000:02:00.0", "h2/0000:05:00.0"), 123.6, 1e-9);
}

TEST(Presets, SayWhatThereIs) {
    EXPECT_THROW(preset_server("dgx"), Error);
    EXPECT_THROW(preset("dgx"), Error);
    EXPECT_THROW(preset("dgx-1", 0), Error);
    EXPECT_THROW(preset("dgx-1", 1u << 20), Error);
    EXPECT_EQ(preset("dgx-1", 7).servers, 7u);
}

TEST(Clusters, ShareWhatBelongsToEveryServer) {
    auto const ethernet = preset_server("multi-ethernet");
    auto const rdma = preset_server("multi-rdma");
    auto const made = join_servers({&ethernet, &rdma, &ethernet});
    EXPECT_EQ(made.servers, 3u);
    EXPECT_EQ(count_of(made, VertexKind::Network), 1u);
    EXPECT_EQ(gbps(made, "nic 0000:04:00.0", "network"), 3.125);
    EXPECT_EQ(gbps(made, "h1/nic 0000:04:00.0", "network"), 25);
    EXPECT_EQ(gbps(made, "network", "h2/nic 0000:04:00.0"), 3.125);
    EXPECT_TRUE(made.sites[*find_vertex(made, "h1/nic 0000:04:00.0")].nic_direct);
    EXPECT_FALSE(made.sites[*find_vertex(made, "h2/nic 0000:04:00.0")].nic_direct);
    EXPECT_EQ(made.sites[*find_vertex(made, "h1/0000:02:00.0")].parent,
              *find_vertex(made, "h1/pci 0000:01:00.0"));
}

TEST(Clusters, AreOfServersAndOfAtLeastOne) {
    EXPECT_THROW(join_servers({}), Error);
    auto const two = preset("multi-rdma");
    EXPECT_THROW(join_servers({&two}), Error);
}

}  // namespace
}  // namespace mgi::topology
