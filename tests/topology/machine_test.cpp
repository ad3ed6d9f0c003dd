// This machine's graph from machines that are made up: an hwloc export, a table of NVML's functions,
// a tree of files like sysfs.
#include <gtest/gtest.h>

#include <unistd.h>

#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "topology/machine/machine.hpp"
#include "topology/machine/nics.hpp"
#include "topology/text_topology.hpp"

namespace mgi::topology {
namespace {

using test::count_of;
using test::find_vertex;
using test::gbps;
using test::warns_of;

/// Like sysfs: devices in a PCI tree, and links to them by class.
class Machine : public ::testing::Test {
protected:
    void SetUp() override {
        sys_ =
            std::filesystem::path(::testing::TempDir()) / ("mgi-sys-" + std::to_string(getpid()));
        std::filesystem::create_directories(sys_ / "class/net");
    }
    void TearDown() override { std::filesystem::remove_all(sys_); }

    std::filesystem::path device(std::string const& id, int numa_node) const {
        auto const made = sys_ / "devices/pci0000:00/0000:00:01.0" / id;
        std::filesystem::create_directories(made);
        std::filesystem::create_directories(sys_ / "bus/pci/devices");
        std::filesystem::create_directory_symlink(made, sys_ / "bus/pci/devices" / id);
        write(made / "numa_node", std::to_string(numa_node));
        return made;
    }
    void interface(std::string const& name, std::filesystem::path const& on,
                   std::string const& speed) const {
        auto const made = on / "net" / name;
        std::filesystem::create_directories(made);
        std::filesystem::create_directory_symlink(made, sys_ / "class/net" / name);
        if (on.string().find("virtual") == std::string::npos) {
            std::filesystem::create_directory_symlink(on, made / "device");
        }
        write(made / "speed", speed);
    }
    void rdma(std::string const& name, std::filesystem::path const& on, std::string const& state,
              std::string const& rate) const {
        auto const made = on / "infiniband" / name;
        std::filesystem::create_directories(made / "ports/1");
        std::filesystem::create_directories(sys_ / "class/infiniband");
        std::filesystem::create_directory_symlink(made, sys_ / "class/infiniband" / name);
        std::filesystem::create_directory_symlink(on, made / "device");
        write(made / "ports/1/state", state);
        write(made / "ports/1/rate", rate);
    }
    static void write(std::filesystem::path const& file, std::string const& line) {
        std::ofstream(file) << line << "\n";
    }

    std::filesystem::path sys_;
};

TEST_F(Machine, NicsAreThoseOfPciDevices) {
    interface("eth0", device("0000:01:00.0", 0) / "virtio2", "25000");
    interface("ib0", device("0000:02:00.0", 1), "100000");
    rdma("mlx5_0", sys_ / "bus/pci/devices/0000:02:00.0", "4: ACTIVE", "200 Gb/sec (4X HDR)");
    interface("down0", device("0000:03:00.0", 1), "-1");
    rdma("mlx5_1", sys_ / "bus/pci/devices/0000:03:00.0", "1: DOWN", "10 Gb/sec (4X SDR)");
    interface("docker0", sys_ / "devices/virtual", "10000");
    auto const nics = read_nics(sys_);
    ASSERT_EQ(nics.size(), 3u);
    EXPECT_EQ(nics.at("0000:01:00.0").mbps, 25'000);
    EXPECT_FALSE(nics.at("0000:01:00.0").rdma);
    EXPECT_EQ(nics.at("0000:02:00.0").mbps, 200'000) << "one port, not an interface beside it";
    EXPECT_EQ(nics.at("0000:02:00.0").names, "mlx5_0 ib0");
    EXPECT_EQ(nics.at("0000:02:00.0").numa_node, 1);
    EXPECT_TRUE(nics.at("0000:02:00.0").rdma);
    EXPECT_EQ(nics.at("0000:03:00.0").mbps, 0);
    EXPECT_TRUE(read_nics("/nowhere").empty());
}

TEST_F(Machine, WhatSharesANicsPortsCountsWithIt) {
    auto const nic = device("0000:01:00.0", 0);
    interface("eth0", nic, "100000");
    // Representors of its virtual functions, and a subfunction.
    interface("eth0_1", nic, "100000");
    write(sys_ / "class/net/eth0_1/phys_port_name", "pf0vf1");
    interface("p0sf2", nic / "mlx5_core.sf.2", "100000");
    // A virtual function of it, and two of a NIC that is not seen.
    for (char const* const id : {"0000:01:00.2", "0000:05:00.1", "0000:05:00.2"}) {
        auto const function = device(id, 0);
        interface("v" + std::string(id).substr(5), function, "100000");
        auto const physical =
            sys_ / "devices/pci0000:00/0000:00:01.0" / (std::string(id).substr(0, 8) + "00.0");
        std::filesystem::create_directories(physical);
        std::filesystem::create_directory_symlink(physical, function / "physfn");
    }
    // A bond's RDMA device has the rate of both functions.
    interface("eth1", device("0000:07:00.0", 0), "100000");
    rdma("mlx5_bond_0", sys_ / "bus/pci/devices/0000:07:00.0", "4: ACTIVE", "200 Gb/sec");
    interface("eth2", device("0000:07:00.1", 0), "100000");
    // Not known, as older kernels write it.
    interface("eth3", device("0000:09:00.0", 0), "4294967295");
    auto const nics = read_nics(sys_);
    std::map<std::string, double> rates;
    for (auto const& [id, found] : nics) rates[id] = found.mbps;
    EXPECT_EQ(rates, (std::map<std::string, double>{{"0000:01:00.0", 100'000},
                                                    {"0000:05:00.1", 100'000},
                                                    {"0000:07:00.0", 100'000},
                                                    {"0000:07:00.1", 100'000},
                                                    {"0000:09:00.0", 0}}));
    EXPECT_TRUE(nics.at("0000:07:00.0").rdma);
}

/// What the functions below answer.
struct FakeGpu {
    char const* bus_id;
    std::vector<std::pair<char const*, int>> links;  ///< the peer's bus id and type; empty: down
    unsigned char cluster = 0;
};
std::vector<FakeGpu> fake_gpus;

FakeGpu& fake(Nvml::Device device) {
    return *static_cast<FakeGpu*>(device);
}

void set_bus_id(Nvml::PciInfo* info, char const* id) {
    std::strncpy(info->bus_id, id, sizeof(info->bus_id) - 1);
}

Nvml fake_nvml() {
    Nvml nvml;
    nvml.init = [] { return 0; };
    nvml.shutdown = [] { return 0; };
    nvml.count = [](unsigned* count) {
        *count = unsigned(fake_gpus.size());
        return 0;
    };
    nvml.device = [](unsigned index, Nvml::Device* device) {
        *device = &fake_gpus[index];
        return 0;
    };
    nvml.pci = [](Nvml::Device device, Nvml::PciInfo* info) {
        set_bus_id(info, fake(device).bus_id);
        return *fake(device).bus_id == '\0' ? 15 : 0;
    };
    nvml.name = [](Nvml::Device, char* name, unsigned size) {
        std::strncpy(name, "NVIDIA H200", size);
        return 0;
    };
    nvml.compute_capability = [](Nvml::Device, int* major, int* minor) {
        *major = 9;
        *minor = 0;
        return 0;
    };
    nvml.pcie_generation = [](Nvml::Device, unsigned* generation) {
        *generation = 5;
        return 0;
    };
    nvml.pcie_width = [](Nvml::Device, unsigned* width) {
        *width = 16;
        return 0;
    };
    nvml.link_state = [](Nvml::Device device, unsigned link, unsigned* state) {
        if (link >= fake(device).links.size()) return 2;
        *state = *fake(device).links[link].first == '\0' ? 0 : 1;
        return 0;
    };
    nvml.link_peer = [](Nvml::Device device, unsigned link, Nvml::PciInfo* peer) {
        set_bus_id(peer, fake(device).links[link].first);
        return 0;
    };
    nvml.link_peer_type = [](Nvml::Device device, unsigned link, int* type) {
        *type = fake(device).links[link].second;
        return 0;
    };
    nvml.fabric = [](Nvml::Device device, Nvml::FabricInfo* info) {
        info->cluster[15] = fake(device).cluster;
        info->clique = 7;
        info->state = Nvml::kFabricComplete;
        return 0;
    };
    return nvml;
}

/// Two GPUs below ports of their own, which are idle, and a NIC.
constexpr char const* kHwloc = R"(<topology version="2.0"><object type="Machine">
<info name="Architecture" value="x86_64"/>
<object type="Package" os_index="0"><info name="CPUVendor" value="AuthenticAMD"/>
<object type="Bridge" bridge_type="0-1">
<object type="Bridge" bridge_type="1-1" pci_busid="0000:00:01.0" pci_type="0604 [1022:1483]"
 pci_link_speed="4.0"><object type="PCIDev" pci_busid="0000:0a:00.0" pci_type="0302 [10de:2335]"
 pci_link_speed="4.0"/></object>
<object type="Bridge" bridge_type="1-1" pci_busid="0000:00:02.0" pci_type="0604 [1022:1483]"
 pci_link_speed="4.0"><object type="PCIDev" pci_busid="0000:0b:00.0" pci_type="0302 [10de:2335]"
 pci_link_speed="4.0"/></object>
<object type="PCIDev" pci_busid="0000:0c:00.0" pci_type="0200 [15b3:1021]" pci_link_speed="63">
<object type="OSDev" name="eth0" osdev_type="2"/></object>
</object></object></object></topology>)";

constexpr char const* kOne = "00000000:0A:00.0";
constexpr char const* kOther = "00000000:0B:00.0";
constexpr char const* kHidden = "FFFFFFFF:FF:FF.0";

TEST_F(Machine, IsWhatAllSourcesKnowTogether) {
    fake_gpus = {{kOne, {{kOther, 0}, {kOther, 0}, {kHidden, 2}, {"", 0}}},
                 {kOther, {{kOne, 0}, {kHidden, 2}}}};
    rdma("mlx5_0", device("0000:0c:00.0", 0), "4: ACTIVE", "400 Gb/sec (4X NDR)");
    auto const made = discover_machine({{kHwloc, {}}, fake_nvml(), sys_}, {});
    EXPECT_NEAR(gbps(made, "0000:0a:00.0", "0000:0b:00.0"), 2 * 20.6, 1e-9);
    EXPECT_NEAR(gbps(made, "0000:0b:00.0", "0000:0a:00.0"), 20.6, 1e-9);
    EXPECT_NEAR(gbps(made, "0000:0b:00.0", "nvswitch"), 20.6, 1e-9);
    EXPECT_NEAR(gbps(made, "0000:0a:00.0", "pci 0000:00:01.0"), 63.015384, 1e-5);
    EXPECT_NEAR(gbps(made, "cpu0", "pci 0000:00:01.0"), 63.015384, 1e-5);
    EXPECT_EQ(gbps(made, "nic 0000:0c:00.0", "network"), 50);
    EXPECT_TRUE(made.sites[*find_vertex(made, "nic 0000:0c:00.0")].nic_direct);
    EXPECT_EQ(made.sites[*find_vertex(made, "0000:0a:00.0")].note, "NVIDIA H200, sm 90");
    EXPECT_TRUE(warns_of(made, "GPU 0000:0a:00.0: 1 of its NVLinks"));
}

TEST_F(Machine, FactsGoBeforeWhatItSays) {
    rdma("mlx5_0", device("0000:0c:00.0", 0), "4: ACTIVE", "400 Gb/sec (4X NDR)");
    Facts facts;
    facts.nic_gbps_of["0000:0c:00.0"] = 80;
    EXPECT_EQ(
        gbps(discover_machine({{kHwloc, {}}, {}, sys_}, facts), "nic 0000:0c:00.0", "network"), 10);
    facts.cpu = "pentium";
    EXPECT_THROW(discover_machine({{kHwloc, {}}, {}, sys_}, facts), Error);
}

TEST_F(Machine, WithoutHwlocDevicesHangFromTheirNumaNodes) {
    for (char const* const node : {"node0", "node1"}) {
        std::filesystem::create_directories(sys_ / "devices/system/node" / node);
        write(sys_ / "devices/system/node" / node / "cpulist", "0-3");
    }
    device("0000:0a:00.0", 1);
    interface("eth0", device("0000:0c:00.0", 1), "25000");
    fake_gpus = {{kOne, {}}};
    auto const made = discover_machine({{{}, "no hwloc"}, fake_nvml(), sys_}, {});
    EXPECT_EQ(count_of(made, VertexKind::Cpu), 2u);
    EXPECT_NEAR(gbps(made, "0000:0a:00.0", "cpu1"), 63.015384, 1e-5);
    EXPECT_NEAR(gbps(made, "nic 0000:0c:00.0", "cpu1"), 15.753846, 1e-5);
    EXPECT_EQ(gbps(made, "nic 0000:0c:00.0", "network"), 3.125);
    EXPECT_TRUE(warns_of(made, "no hwloc: CPUs are NUMA nodes"));
    EXPECT_TRUE(warns_of(made, "nic 0000:0c:00.0: the rate of its PCIe link is not known"));
    EXPECT_FALSE(warns_of(made, "0000:0a:00.0")) << "NVML knows";
}

TEST_F(Machine, WhatItDoesNotSayIsAssumedWithAWarning) {
    for (char const* const node : {"node0", "node8", "node250"}) {
        std::filesystem::create_directories(sys_ / "devices/system/node" / node);
        write(sys_ / "devices/system/node" / node / "cpulist",
              node == std::string("node250") ? "" : "0-3");
    }
    interface("eth0", device("0000:0c:00.0", -1), "-1");
    interface("eth1", device("0000:0d:00.0", 8), "1000");
    auto nvml = fake_nvml();
    nvml.pcie_width = [](Nvml::Device, unsigned* width) {
        *width = 255;
        return 0;
    };
    nvml.compute_capability = [](Nvml::Device, int*, int*) { return 3; };
    fake_gpus = {{kOne, {{kHidden, 2}}}};
    auto const made = discover_machine({{{}, "no hwloc"}, nvml, sys_}, {});
    EXPECT_EQ(count_of(made, VertexKind::Cpu), 2u) << "memory without cores is none";
    EXPECT_NEAR(gbps(made, "nic 0000:0d:00.0", "cpu8"), 15.753846, 1e-5);
    EXPECT_NEAR(gbps(made, "0000:0a:00.0", "cpu0"), 15.753846, 1e-5);
    EXPECT_TRUE(warns_of(made, "nic 0000:0c:00.0: the machine does not say at which CPU"));
    EXPECT_TRUE(warns_of(made, "NIC 0000:0c:00.0 (eth0): nobody knows its rate; 10 Gb/s"));
    EXPECT_TRUE(warns_of(made, "20 GB/s assumed for each NVLink"));
}

TEST_F(Machine, OfAnNvlinkDomainNamesIt) {
    fake_gpus = {{kOne, {{kHidden, 2}}, 0xab}};
    auto const made = discover_machine({{kHwloc, {}}, fake_nvml(), sys_}, {});
    auto const domain = find_vertex(made, "nvlink domain 000000000000000000000000000000ab.7");
    ASSERT_TRUE(domain);
    EXPECT_EQ(made.sites[*domain].server, kEveryServer);
}

TEST_F(Machine, LinksToGpusThatAreNotVisibleAreLeftOut) {
    constexpr char const* kElsewhere = "00000000:0D:00.0";
    fake_gpus = {{kOne, {{kOther, 0}, {kElsewhere, 0}, {kElsewhere, 0}}}, {kOther, {{kOne, 0}}}};
    auto const made = discover_machine({{kHwloc, {}}, fake_nvml(), sys_}, {});
    EXPECT_NEAR(gbps(made, "0000:0a:00.0", "0000:0b:00.0"), 20.6, 1e-9);
    EXPECT_FALSE(find_vertex(made, "nvswitch")) << "NVML says that the peer is a GPU";
    EXPECT_TRUE(warns_of(made, "GPU 0000:0a:00.0: 2 of its NVLinks lead to GPUs that NVML"));
    EXPECT_FALSE(warns_of(made, "GPU 0000:0b:00.0"));
}

TEST_F(Machine, PeersOfWhichNvmlSaysNothingAreGpusItKnowsOrSwitches) {
    constexpr int kUnknown = 255;
    fake_gpus = {{kOne, {{kOther, kUnknown}, {kHidden, kUnknown}}},
                 {kOther, {{kOne, 0}, {kHidden, 2}}}};
    auto old_driver = fake_nvml();
    old_driver.link_peer_type = nullptr;
    auto silent = fake_nvml();
    silent.link_peer_type = [](Nvml::Device, unsigned, int* type) {
        *type = Nvml::Gpu;  // what a call that fails leaves means nothing
        return 3;
    };
    for (Nvml const& nvml : {fake_nvml(), old_driver, silent}) {
        auto const made = discover_machine({{kHwloc, {}}, nvml, sys_}, {});
        for (char const* const gpu : {"0000:0a:00.0", "0000:0b:00.0"}) {
            EXPECT_NEAR(gbps(made, gpu, "nvswitch"), 20.6, 1e-9);
        }
        EXPECT_NEAR(gbps(made, "0000:0a:00.0", "0000:0b:00.0"), 20.6, 1e-9);
        EXPECT_NEAR(gbps(made, "0000:0b:00.0", "0000:0a:00.0"), 20.6, 1e-9);
        EXPECT_FALSE(warns_of(made, "NVLinks"));
    }
}

TEST_F(Machine, WithoutNvmlItSaysWhatIsNotKnown) {
    auto const made = discover_machine({{kHwloc, {}}, {}, sys_}, {});
    EXPECT_EQ(gbps(made, "0000:0a:00.0", "pci 0000:00:01.0"), 4);
    EXPECT_TRUE(warns_of(made, "no NVML"));
}

TEST_F(Machine, AGpuThatDoesNotAnswerIsLeftOut) {
    fake_gpus = {{"", {}}, {kOther, {}}};
    auto const made = discover_machine({{kHwloc, {}}, fake_nvml(), sys_}, {});
    EXPECT_TRUE(warns_of(made, "NVML: GPU 0 does not answer"));
    EXPECT_EQ(made.sites[*find_vertex(made, "0000:0b:00.0")].note, "NVIDIA H200, sm 90");
}

TEST(ThisMachine, HasAGraph) {
    auto const made = discover_machine(MachineSources::of_this_machine(), {});
    EXPECT_GE(count_of(made, VertexKind::Cpu), 1u);
    EXPECT_EQ(made.servers, 1u);
}

TEST(ThisMachine, LibrariesThatAreNotThereAreNoError) {
    EXPECT_FALSE(Nvml::load("libnowhere.so.1"));
    EXPECT_FALSE(Nvml::load("libc.so.6")) << "has none of NVML's functions";
    EXPECT_NE(export_hwloc("libnowhere.so.1").problem.find("no libnowhere"), std::string::npos);
    EXPECT_NE(export_hwloc("libc.so.6").problem.find("lacks functions"), std::string::npos);
}

}  // namespace
}  // namespace mgi::topology
