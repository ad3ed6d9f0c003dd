#include <gtest/gtest.h>

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include <mgi/error.hpp>

#include "core/process_limits.hpp"
#include "support/expect_error.hpp"
#include "topology/discovery.hpp"

namespace mgi::topology {
namespace {

constexpr std::uint64_t kGiB = std::uint64_t(1) << 30;

TEST(Topology, ReadsCoreLists) {
    EXPECT_EQ(parse_core_list("0-3,8,10-11\n"), (std::vector<int>{0, 1, 2, 3, 8, 10, 11}));
    EXPECT_EQ(parse_core_list("5"), std::vector<int>{5});
    EXPECT_EQ(parse_core_list("3,1,1-2"), (std::vector<int>{1, 2, 3}));
    EXPECT_TRUE(parse_core_list("").empty());
    EXPECT_TRUE(parse_core_list("\n").empty());
    EXPECT_EQ(parse_core_list("x,2,9-y,1-999999999999"), std::vector<int>{2});
}

TEST(Topology, CoresThatAreNamedOftenAreThereOnce) {
    std::string text;
    for (int i = 0; i < 100; ++i) text += "0-65535,";
    EXPECT_EQ(parse_core_list(text).size(), 65536u);
}

/// A directory like Linux's, removed at the end.
class Nodes : public ::testing::Test {
protected:
    void SetUp() override {
        root_ =
            std::filesystem::path(::testing::TempDir()) / ("mgi-nodes-" + std::to_string(getpid()));
        add("node1", "2-3\n", "Node 1 MemTotal:       2097152 kB\nNode 1 MemFree: 7 kB\n");
        add("node0", "0-1\n", "Node 0 MemTotal:       1048576 kB\n");
        add("node2", "\n", "Node 2 MemTotal:       4194304 kB\n");
        std::ofstream(root_ / "online") << "0-2\n";
    }
    void TearDown() override { std::filesystem::remove_all(root_); }

    void add(char const* name, char const* cores, char const* memory) const {
        std::filesystem::create_directories(root_ / name);
        std::ofstream(root_ / name / "cpulist") << cores;
        std::ofstream(root_ / name / "meminfo") << memory;
    }

    std::filesystem::path root_;
};

TEST_F(Nodes, AreReadByNumber) {
    auto const nodes = read_numa_nodes(root_);
    ASSERT_EQ(nodes.size(), 3u);
    EXPECT_EQ(nodes[0].number, 0);
    EXPECT_EQ(nodes[0].cores, (std::vector<int>{0, 1}));
    EXPECT_EQ(nodes[0].memory_bytes, kGiB);
    EXPECT_EQ(nodes[1].cores, (std::vector<int>{2, 3}));
    EXPECT_EQ(nodes[1].memory_bytes, 2 * kGiB);
    EXPECT_TRUE(nodes[2].cores.empty());
    EXPECT_TRUE(read_numa_nodes(root_ / "absent").empty());
}

TEST_F(Nodes, WithNamesThatAreNotLinuxsAreLeftOut) {
    for (char const* name : {"node4294967296", "node00", "node1x", "node", "nodes", "node-1"}) {
        add(name, "0\n", "");
    }
    EXPECT_EQ(read_numa_nodes(root_).size(), 3u);
}

TEST_F(Nodes, WithMoreMemoryThanBytesCanCountHaveAnUnknownAmount) {
    add("node3", "4\n", "Node 3 MemTotal: 18446744073709551615 kB\n");
    EXPECT_EQ(read_numa_nodes(root_).at(3).memory_bytes, 0u);
}

TEST_F(Nodes, GiveOneDeviceEachWhereThisProcessMayRun) {
    auto const nodes = read_numa_nodes(root_);
    auto const all = divide_cores(0, {0, 1, 2, 3}, nodes, 8 * kGiB);
    ASSERT_EQ(all.size(), 2u);
    EXPECT_EQ(all[0].name, "cpu:0");
    EXPECT_EQ(all[0].numa_node, 0);
    EXPECT_EQ(all[1].cores, (std::vector<int>{2, 3}));
    EXPECT_EQ(all[1].memory_bytes, 2 * kGiB);
    auto const second = divide_cores(0, {3}, nodes, 8 * kGiB);
    ASSERT_EQ(second.size(), 1u);
    EXPECT_EQ(second[0].name, "cpu:0");
    EXPECT_EQ(second[0].numa_node, 1);
    EXPECT_EQ(second[0].cores, std::vector<int>{3});
}

TEST_F(Nodes, DealtCoresKnowTheirNodeWhereItIsOne) {
    auto const nodes = read_numa_nodes(root_);
    auto const devices = divide_cores(4, {0, 1, 2, 3}, nodes, 8 * kGiB);
    EXPECT_EQ(devices[0].numa_node, 0);
    EXPECT_EQ(devices[3].numa_node, 1);
    EXPECT_EQ(divide_cores(2, {0, 1, 2, 3}, nodes, kGiB)[0].numa_node, -1);
}

TEST(Topology, DealsCoresRoundRobin) {
    auto const devices = divide_cores(2, {1, 4, 6, 7, 9}, {}, 8 * kGiB);
    ASSERT_EQ(devices.size(), 2u);
    EXPECT_EQ(devices[0].cores, (std::vector<int>{1, 6, 9}));
    EXPECT_EQ(devices[1].cores, (std::vector<int>{4, 7}));
    EXPECT_EQ(devices[1].name, "cpu:1");
    EXPECT_EQ(devices[1].index, 1u);
    EXPECT_EQ(devices[1].memory_bytes, 4 * kGiB);
    EXPECT_EQ(devices[1].numa_node, -1);
}

TEST(Topology, MoreDevicesThanCoresShareThem) {
    auto const devices = divide_cores(5, {2, 3}, {}, kGiB);
    ASSERT_EQ(devices.size(), 5u);
    for (std::size_t i = 0; i < 5; ++i) {
        EXPECT_EQ(devices[i].cores, std::vector<int>{2 + int(i % 2)});
    }
}

TEST(Topology, WithoutNodesThereIsOneDevice) {
    auto const devices = divide_cores(0, {0, 1, 5}, {}, kGiB);
    ASSERT_EQ(devices.size(), 1u);
    EXPECT_EQ(devices[0].cores, (std::vector<int>{0, 1, 5}));
}

TEST(Topology, RefusesAbsurdNumbersOfDevices) {
    mgi::test::expect_error(ErrorCode::InvalidArgument, {"cpu_devices", "1025"},
                            [] { discover_cpu_devices(1025); });
}

TEST(Topology, FindsThisMachine) {
    auto const cores = allowed_cores();
    std::set<int> used;
    for (Device const& device : discover_cpu_devices(0)) {
        EXPECT_GT(device.memory_bytes, 0u);
        used.insert(device.cores.begin(), device.cores.end());
    }
    EXPECT_TRUE(std::includes(cores.begin(), cores.end(), used.begin(), used.end()));
    EXPECT_EQ(discover_cpu_devices(3).size(), 3u);
}

TEST(Topology, TheGraphJoinsEveryPairByMemory) {
    Graph const graph = build_graph(discover_cpu_devices(3));
    ASSERT_EQ(graph.vertices.size(), 3u);
    EXPECT_EQ(graph.vertices[2].name, "cpu:2");
    EXPECT_EQ(graph.vertices[2].id, 2u);
    EXPECT_TRUE(graph.vertices[2].managed);
    ASSERT_EQ(graph.edges.size(), 9u);
    std::set<std::pair<std::uint32_t, std::uint32_t>> pairs;
    for (Edge const& edge : graph.edges) {
        EXPECT_EQ(edge.kind, "memory");
        EXPECT_GT(edge.gbps, 0);
        EXPECT_EQ(edge.gbps, copy_gbps()) << "measured once";
        pairs.insert({edge.from, edge.to});
    }
    EXPECT_EQ(pairs.size(), 9u);
}

}  // namespace
}  // namespace mgi::topology
