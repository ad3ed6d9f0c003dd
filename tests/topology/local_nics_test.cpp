#include "topology/machine/local_nics.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "topology/machine/nic_reader.hpp"

namespace mgi::topology {
namespace {

namespace fs = std::filesystem;

/// A tree as sysfs's, and a graph with a NIC of two functions and one that Linux has by name.
class LocalNics : public ::testing::Test {
protected:
    void SetUp() override {
        sys_ = fs::path(::testing::TempDir()) / ("mgi-nics-" + std::to_string(getpid()));
        auto const cpu = graph_.add(VertexKind::Cpu, "cpu0", 0);
        for (char const* const name : {"nic 0000:01:00.0", "nic 0000:09:00.0", "nic0"}) {
            auto const nic = graph_.add(VertexKind::Nic, name, 0);
            graph_.hang(nic, cpu, 32, "pcie");
            graph_.connect_network(nic, 100'000);
        }
        interface("eth0", "0000:01:00.0", "up", "100000");
        interface("ib0", "0000:01:00.1", "up", "100000");
        write("class/net/ib0/type", "32");
        interface("nic0", "", "up", "10000");
        port("mlx5_1", "0000:01:00.1", "4: ACTIVE");
    }
    void TearDown() override { fs::remove_all(sys_); }

    void write(std::string const& file, std::string_view line) const {
        fs::create_directories((sys_ / file).parent_path());
        std::ofstream(sys_ / file) << line << "\n";
    }
    void on_device(fs::path const& entry, std::string const& bus_id) const {
        fs::create_directories(entry);
        if (bus_id.empty()) return;
        fs::path const device = sys_ / "devices" / bus_id;
        fs::create_directories(device);
        fs::create_directory_symlink(device, entry / "device");
    }
    void interface(std::string const& name, std::string const& bus_id, std::string_view state,
                   std::string_view speed) const {
        std::string const at = "class/net/" + name;
        on_device(sys_ / at, bus_id);
        write(at + "/operstate", state);
        write(at + "/speed", speed);
        write(at + "/type", "1");
        write(at + "/statistics/tx_bytes", "1000");
        write(at + "/statistics/rx_bytes", "500");
        write(at + "/carrier_down_count", "2");
    }
    void port(std::string const& name, std::string const& bus_id, std::string_view state) const {
        std::string const at = "class/infiniband/" + name;
        on_device(sys_ / at, bus_id);
        write(at + "/ports/1/state", state);
        write(at + "/ports/1/rate", "200 Gb/sec (4X HDR)");
        write(at + "/ports/1/counters/port_xmit_data", "100");
        write(at + "/ports/1/counters/port_rcv_data", "10");
        write(at + "/ports/1/counters/link_downed", "5");
    }
    std::vector<LocalNic> found(Corrections const& corrections = {}, bool discovered = true) const {
        return local_nics(graph_.made(), corrections, discovered, sys_);
    }
    static Corrections adding(std::string name) {
        Corrections corrections;
        corrections.add.push_back({std::move(name), VertexKind::Nic, "", 0, "", 0, false});
        return corrections;
    }

    fs::path sys_;
    GraphBuilder graph_;
};

TEST_F(LocalNics, ThoseOfADiscoveredGraphAndThoseThatAUserNames) {
    auto const discovered = found();
    ASSERT_EQ(discovered.size(), 1u) << "0000:09:00.0 has no interface, nic0 no bus id";
    EXPECT_EQ(discovered[0].name, "nic 0000:01:00.0");
    EXPECT_EQ(discovered[0].vertex, 1u);
    EXPECT_EQ(discovered[0].ports.size(), 2u) << "both functions";
    EXPECT_FALSE(discovered[0].told_rate);

    auto const named = found(adding("nic0"), false);
    ASSERT_EQ(named.size(), 1u) << "a file's own NICs may be another machine's";
    EXPECT_EQ(named[0].name, "nic0");
    EXPECT_TRUE(named[0].told_rate);
    EXPECT_EQ(found(adding("nic0"), true).size(), 2u);
    EXPECT_TRUE(found({}, false).empty());
    EXPECT_TRUE(local_nics(graph_.made(), adding("nic0"), true, "/nowhere").empty());
}

TEST_F(LocalNics, ARateThatAUserSaysIsKept) {
    Corrections link;
    link.links.push_back({"nic 0000:01:00.0", "network", 3, false});
    EXPECT_TRUE(found(link)[0].told_rate);
    link.links[0].to = "cpu0";
    EXPECT_FALSE(found(link)[0].told_rate);
    Corrections fact;
    fact.facts.nic_gbps_of["ib0"] = 40;
    EXPECT_TRUE(found(fact)[0].told_rate);
    fact.facts.nic_gbps_of = {{"eth9", 40}};
    EXPECT_FALSE(found(fact)[0].told_rate);
    fact.facts.nic_gbps = 40;
    EXPECT_TRUE(found(fact)[0].told_rate);
}

TEST_F(LocalNics, WhatAllPortsDoIsTheNics) {
    NicReader reader(found(adding("nic0")), sys_);
    auto const& states = reader.read(true);
    ASSERT_EQ(states.size(), 2u);
    EXPECT_TRUE(states[0].up);
    EXPECT_EQ(states[0].mbps, 300'000) << "of eth0, and of mlx5_1, whose interface is ib0";
    EXPECT_EQ(states[0].sent, 1400u) << "the port counts what ib0 sends";
    EXPECT_EQ(states[0].received, 540u);
    EXPECT_EQ(states[0].falls, 4u);
    EXPECT_EQ(states[1].mbps, 10'000);

    write("class/net/eth0/operstate", "down");
    write("class/infiniband/mlx5_1/ports/1/rate", "100 Gb/sec (4X EDR)");
    reader.read(false);
    EXPECT_TRUE(states[0].up) << "the other port";
    EXPECT_EQ(states[0].mbps, 300'000) << "rates were not asked for";
    reader.read(true);
    EXPECT_EQ(states[0].mbps, 100'000);
    write("class/infiniband/mlx5_1/ports/1/state", "1: DOWN");
    write("class/net/ib0/operstate", "down");
    reader.read(false);
    EXPECT_FALSE(states[0].up);
    EXPECT_EQ(states[0].mbps, 0) << "a change asks for the rate";
}

TEST_F(LocalNics, WhatIsUnknownOrGone) {
    NicReader reader(found(adding("nic0")), sys_);
    write("class/net/nic0/operstate", "unknown");
    auto const& states = reader.read(true);
    EXPECT_FALSE(states[1].up);
    write("class/net/nic0/carrier", "1");
    write("class/net/nic0/speed", "-1");
    reader.read(true);
    EXPECT_TRUE(states[1].up);
    EXPECT_EQ(states[1].mbps, 0);
    // Half a sum would be wrong.
    write("class/net/eth0/speed", "-1");
    reader.read(true);
    EXPECT_EQ(states[0].mbps, 0);
    fs::remove_all(sys_ / "class/net/nic0");
    reader.read(true);
    EXPECT_FALSE(states[1].up);
    EXPECT_EQ(states[1].sent, 0u);
    EXPECT_FALSE(states[1].falls);
}

}  // namespace
}  // namespace mgi::topology
