// GPUs of the driver and the NVML that are made up, as records, as devices, and in graphs.
#include <gtest/gtest.h>

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "support/fake_driver.hpp"
#include "topology/discovery.hpp"
#include "topology/gpus.hpp"
#include "topology/machine/machine.hpp"
#include "topology/presets.hpp"
#include "topology/text_topology.hpp"

namespace mgi::topology {
namespace {

using mgi::test::FakeDriver;
using test::count_of;

/// Two CPU devices, on nodes 0 and 1, and the GPUs.
Infrastructure joined(std::vector<Gpu> const& gpus) {
    auto devices = divide_cores(2, {0, 1}, {{0, {0}, 0}, {1, {1}, 0}}, 1 << 20);
    for (Gpu const& gpu : gpus) {
        devices.push_back(device_of(gpu, std::uint32_t(devices.size())));
    }
    Infrastructure made;
    made.graph = build_graph(devices, gpus);
    for (std::size_t i = 0; i < made.graph.vertices.size(); ++i) {
        EXPECT_EQ(made.graph.vertices[i].id, i);
    }
    made.sites.resize(made.graph.vertices.size());
    return made;
}

std::string kind_of(Infrastructure const& made, std::string const& from, std::string const& to) {
    for (Edge const& edge : made.graph.edges) {
        if (made.graph.vertices[edge.from].name == from &&
            made.graph.vertices[edge.to].name == to) {
            return edge.kind;
        }
    }
    return "none";
}

bool tells(GpuReport const& report, std::string const& words) {
    return std::any_of(report.problems.begin(), report.problems.end(), [&](std::string const& one) {
        return one.find(words) != std::string::npos;
    });
}

/// /sys/bus/pci/devices with these GPUs on node 1, removed at the end.
class SysFolder {
public:
    explicit SysFolder(std::vector<std::string> const& bus_ids) {
        for (std::string const& bus_id : bus_ids) {
            auto const at = path / "bus/pci/devices" / bus_id;
            std::filesystem::create_directories(at);
            std::ofstream(at / "numa_node") << "1\n";
            std::ofstream(at / "max_link_speed") << "16.0 GT/s PCIe\n";
            std::ofstream(at / "max_link_width") << "16\n";
        }
    }
    ~SysFolder() { std::filesystem::remove_all(path); }
    SysFolder(SysFolder const&) = delete;
    SysFolder& operator=(SysFolder const&) = delete;

    std::filesystem::path const path =
        std::filesystem::path(::testing::TempDir()) / ("mgi-gpu-sys-" + std::to_string(getpid()));
};

TEST(Gpus, WithoutADriverThereAreNone) {
    setenv("MGI_CUDA_LIBRARY", "libno-such-driver.so.1", 1);
    gpu::Driver::look_again();
    EXPECT_TRUE(discover_gpus().gpus.empty());
    EXPECT_TRUE(discover_gpus().problems.empty());
    unsetenv("MGI_CUDA_LIBRARY");
    gpu::Driver::look_again();
    {
        FakeDriver const old({{"VERSION", "12040"}});
        EXPECT_TRUE(discover_gpus().gpus.empty());
    }
    FakeDriver const none({{"DEVICES", "0"}});
    EXPECT_TRUE(discover_gpus().gpus.empty());
}

TEST(Gpus, OneIsWhatTheDriverSays) {
    FakeDriver const fake({{"BUS", "0000:0A:00.0"}, {"MEMORY", "85899345920"}});
    SysFolder const sys({"0000:0a:00.0"});
    auto const report = discover_gpus(gpu::Driver::get(), Nvml::load(), sys.path);
    ASSERT_EQ(report.gpus.size(), 1U);
    EXPECT_TRUE(report.problems.empty()) << report.problems.front();
    Gpu const& gpu = report.gpus.front();
    EXPECT_EQ(gpu.model, "NVIDIA H100 80GB HBM3");
    EXPECT_EQ(gpu.uuid, "GPU-a0a0a0a0-a0a0-a0a0-a0a0-a0a0a0a0a000");
    EXPECT_EQ(gpu.bus_id, "0000:0a:00.0");
    EXPECT_EQ(gpu.sm, 90);
    EXPECT_EQ(gpu.multiprocessors, 132);
    EXPECT_EQ(gpu.memory_bytes, std::uint64_t(80) << 30);
    EXPECT_NEAR(gpu.memory_gbps, 3352.32, 1e-6);
    EXPECT_EQ(gpu.numa_node, 1);
    EXPECT_NEAR(gpu.pcie_gbps, 16 * 16 * 128.0 / 130 / 8, 1e-9);
    EXPECT_EQ(gpu.reaches, std::vector<bool>{true});
    EXPECT_FALSE(gpu.nvml);
    Device const device = device_of(gpu, 7);
    EXPECT_EQ(device.name, "cuda:0");
    EXPECT_EQ(device.index, 7U);
    EXPECT_EQ(device.kind, VertexKind::Gpu);
    EXPECT_EQ(device.ordinal, 0);
    EXPECT_EQ(device.memory_bytes, gpu.memory_bytes);
    EXPECT_EQ(device.numa_node, 1);
    EXPECT_TRUE(device.cores.empty());

    auto const made = joined(report.gpus);
    EXPECT_EQ(count_of(made, VertexKind::Gpu), 1U);
    EXPECT_TRUE(made.graph.vertices[2].managed);
    EXPECT_NEAR(test::gbps(made, "cuda:0", "cuda:0"), 3352.32 / 2, 1e-6);
    EXPECT_EQ(kind_of(made, "cuda:0", "cuda:0"), "memory");
    EXPECT_EQ(test::gbps(made, "cuda:0", "cpu:1"), gpu.pcie_gbps);
    EXPECT_EQ(test::gbps(made, "cpu:1", "cuda:0"), gpu.pcie_gbps);
    EXPECT_EQ(test::gbps(made, "cuda:0", "cpu:0"), 0) << "its CPU is that of node 1";
    EXPECT_EQ(kind_of(made, "cpu:0", "cpu:1"), "memory");
}

TEST(Gpus, WhatNobodySaysIsAssumed) {
    FakeDriver const fake;
    auto const report = discover_gpus(gpu::Driver::get(), Nvml::load(), "/nowhere");
    EXPECT_TRUE(tells(report, "cuda:0: its PCIe link's rate is not known"));
    auto const made = joined(report.gpus);
    EXPECT_GT(test::gbps(made, "cuda:0", "cpu:0"), 0);
    EXPECT_GT(test::gbps(made, "cpu:1", "cuda:0"), 0);
}

TEST(Gpus, PeersAreJoinedByTheirLinks) {
    FakeDriver const fake({{"DEVICES", "3"}, {"LINKS", "0-1:4"}, {"SM", "80"}});
    auto const report = discover_gpus();
    ASSERT_EQ(report.gpus.size(), 3U);
    auto const made = joined(report.gpus);
    for (auto const& [from, to] : {std::pair{"cuda:0", "cuda:1"}, std::pair{"cuda:1", "cuda:0"}}) {
        EXPECT_NEAR(test::gbps(made, from, to), 4 * 20, 1e-9);
        EXPECT_EQ(kind_of(made, from, to), "nvlink");
    }
    EXPECT_EQ(kind_of(made, "cuda:0", "cuda:2"), "pcie");
    EXPECT_NEAR(test::gbps(made, "cuda:0", "cuda:2"), 63.015384, 1e-5);
    EXPECT_FALSE(test::find_vertex(made, "nvswitch"));
}

TEST(Gpus, WhatDoesNotReachIsNotJoined) {
    FakeDriver const fake({{"DEVICES", "3"}, {"PEERS", "1-2"}, {"LINKS", "0-1:4"}});
    auto const made = joined(discover_gpus().gpus);
    EXPECT_EQ(kind_of(made, "cuda:0", "cuda:1"), "none") << "the driver says no, links or not";
    EXPECT_EQ(kind_of(made, "cuda:0", "cuda:2"), "none");
    EXPECT_EQ(kind_of(made, "cuda:1", "cuda:2"), "pcie");
    EXPECT_EQ(kind_of(made, "cuda:0", "cpu:0"), "pcie");
}

TEST(Gpus, OfASwitchAreAsInTheServerThatIsKnown) {
    FakeDriver const fake({{"DEVICES", "8"}, {"LINKS", "switch:18"}});
    auto const made = joined(discover_gpus().gpus);
    auto const known = preset_server("hgx-h100");
    double rate = 0;
    for (Edge const& edge : known.graph.edges) {
        bool const from_gpu = known.graph.vertices[edge.from].kind == VertexKind::Gpu;
        if (from_gpu && edge.kind == "nvlink") rate = edge.gbps;
    }
    EXPECT_NEAR(rate, 370.8, 1e-9);
    for (int i = 0; i < 8; ++i) {
        std::string const gpu = "cuda:" + std::to_string(i);
        EXPECT_NEAR(test::gbps(made, gpu, "nvswitch"), rate, 1e-9);
        EXPECT_NEAR(test::gbps(made, "nvswitch", gpu), rate, 1e-9);
        EXPECT_EQ(kind_of(made, gpu, "cuda:" + std::to_string((i + 1) % 8)), "none")
            << "what the switch carries is there once";
    }
    EXPECT_EQ(count_of(made, VertexKind::Switch), 1U);
    EXPECT_FALSE(made.graph.vertices.back().managed);
}

TEST(Gpus, ThatReachNoneOnTheirSwitchAreNotOnIt) {
    FakeDriver const fake({{"DEVICES", "2"}, {"LINKS", "switch:18"}, {"PEERS", "none"}});
    auto const made = joined(discover_gpus().gpus);
    EXPECT_FALSE(test::find_vertex(made, "nvswitch"));
    EXPECT_EQ(kind_of(made, "cuda:0", "cuda:1"), "none");
}

TEST(Gpus, AreThoseThatTheProcessMaySee) {
    setenv("CUDA_VISIBLE_DEVICES", "2,0", 1);
    FakeDriver const fake({{"DEVICES", "3"}, {"LINKS", "0-2:4,0-1:2"}});
    auto const report = discover_gpus();
    ASSERT_EQ(report.gpus.size(), 2U);
    EXPECT_EQ(report.gpus[0].bus_id, "0000:03:00.0");
    EXPECT_EQ(report.gpus[1].bus_id, "0000:01:00.0");
    auto const made = joined(report.gpus);
    EXPECT_NEAR(test::gbps(made, "cuda:0", "cuda:1"), 4 * 20.6, 1e-9);
    unsetenv("CUDA_VISIBLE_DEVICES");
}

TEST(Gpus, OneThatDoesNotAnswerIsLeftOut) {
    FakeDriver const fake({{"DEVICES", "3"}, {"FAIL", "cuDeviceGetName:2:719"}});
    auto const report = discover_gpus();
    ASSERT_EQ(report.gpus.size(), 2U);
    EXPECT_EQ(report.gpus[1].ordinal, 2);
    EXPECT_TRUE(tells(report, "cuda:1: its name: CUDA_ERROR_LAUNCH_FAILED"));
    EXPECT_EQ(kind_of(joined(report.gpus), "cuda:0", "cuda:2"), "pcie");
}

TEST(Gpus, OfAMachineWithoutNvmlAreTheDrivers) {
    FakeDriver const fake({{"DEVICES", "2"}});
    MachineSources sources{{{}, "no hwloc"}, Nvml::load(), "/nowhere"};
    ASSERT_FALSE(sources.nvml);
    sources.gpus = discover_gpus().gpus;
    auto const made = discover_machine(sources, {});
    EXPECT_EQ(count_of(made, VertexKind::Gpu), 2U);
    EXPECT_EQ(made.sites[*test::find_vertex(made, "0000:01:00.0")].note,
              "NVIDIA H100 80GB HBM3, sm 90");
    EXPECT_TRUE(test::warns_of(made, "no NVML"));
}

TEST(Gpus, OfAMachineWithNvmlAreItsOwn) {
    FakeDriver const fake({{"DEVICES", "8"}, {"LINKS", "switch:18"}});
    auto const sources = MachineSources::of_this_machine();
    ASSERT_TRUE(sources.nvml);
    EXPECT_TRUE(sources.gpus.empty()) << "the driver is not asked";
    auto const made = discover_machine({{{}, "no hwloc"}, sources.nvml, "/nowhere"}, {});
    EXPECT_EQ(count_of(made, VertexKind::Gpu), 8U);
    EXPECT_NEAR(test::gbps(made, "0000:08:00.0", "nvswitch"), 370.8, 1e-9);
}

}  // namespace
}  // namespace mgi::topology
