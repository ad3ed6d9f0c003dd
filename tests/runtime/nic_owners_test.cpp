// Whose a NIC is: as the user says, or as the machine does; and what processes of a server share of it.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <vector>

#include <mgi/endpoint.hpp>
#include <mgi/runtime.hpp>

#include "mover/link/nic_board.hpp"
#include "runtime/network.hpp"
#include "runtime/nic_owners.hpp"
#include "runtime/server_board.hpp"
#include "support/expect_error.hpp"
#include "support/temporary_folder.hpp"

namespace mgi::test {
namespace {

std::vector<Device> two_devices() {
    std::vector<Device> devices(2);
    devices[0].name = "cpu:0";
    devices[0].cores = {0, 1};
    devices[0].numa_node = 0;
    devices[1].index = 1;
    devices[1].name = "cpu:1";
    devices[1].cores = {2, 3};
    devices[1].numa_node = 1;
    return devices;
}

std::vector<topology::NumaNode> two_nodes() {
    return {{0, {0, 1}, 0}, {1, {2, 3}, 0}};
}

TEST(NicOwners, AreThoseThatTheUserNames) {
    auto const devices = two_devices();
    auto const wishes =
        nic_wishes({"eth0@cpu:0", "10.0.0.1@cpu:1", "eth2@cpu:0+cpu:1", "eth3@", "eth4"}, devices);
    EXPECT_EQ(wishes[1].nic, "10.0.0.1");
    EXPECT_EQ(wishes[4].nic, "eth4");
    EXPECT_FALSE(wishes[4].owners);
    TemporaryFolder const nothing;
    std::vector<std::string> const names{"eth0", "eth1", "eth2", "eth3", "eth4"};
    auto const own = own_nics(wishes, names, devices, two_nodes(), nothing.file(""));
    EXPECT_EQ(own, (std::vector<std::uint64_t>{0b10101, 0b10110}));
    expect_error(ErrorCode::InvalidArgument,
                 {"eth0@cpu:7", "no device 'cpu:7'", "cpu:0, cpu:1", "'NIC@'"},
                 [&] { (void)nic_wishes({"eth0@cpu:7"}, devices); });
}

TEST(Nics, AreRdmaDevicesOrNot) {
    TemporaryFolder const folder;
    std::filesystem::create_directories(folder.file("ib0/device/infiniband"));
    std::filesystem::create_directories(folder.file("eth0/device"));
    EXPECT_TRUE(topology::nic_has_rdma("ib0", folder.file("")));
    EXPECT_FALSE(topology::nic_has_rdma("eth0", folder.file("")));
    EXPECT_FALSE(topology::nic_has_rdma("lo", folder.file("")));
}

TEST(NicOwners, AreElseTheDevicesOnTheNicsNode) {
    TemporaryFolder const folder;
    auto const say = [&](char const* nic, char const* node) {
        std::filesystem::path const device = folder.file(nic) + "/device";
        std::filesystem::create_directories(device);
        std::ofstream(device / "numa_node") << node << '\n';
    };
    say("eth0", "0");
    say("eth1", "1");
    say("eth2", "-1");
    std::vector<std::string> const names{"eth0", "eth1", "eth2", "veth0"};
    auto const wishes = nic_wishes(names, two_devices());
    EXPECT_EQ(own_nics(wishes, names, two_devices(), two_nodes(), folder.file("")),
              (std::vector<std::uint64_t>{0b1101, 0b1110}));
    // On a machine of one node, and where nobody knows its nodes, they are everybody's.
    EXPECT_EQ(own_nics(wishes, names, two_devices(), {}, folder.file("")),
              (std::vector<std::uint64_t>{0b1111, 0b1111}));
    EXPECT_EQ(topology::nic_numa_node("eth1", folder.file("")), 1);
    EXPECT_EQ(topology::nic_numa_node("eth2", folder.file("")), -1);
    EXPECT_EQ(topology::nic_numa_node("none", folder.file("")), -1);
}

TEST(NicOwners, ARuntimeKnowsThemOnceItHasAddresses) {
    ChannelNetwork network({"lo@cpu:1", "127.0.0.1@cpu:0"}, two_devices());
    EXPECT_EQ(network.addresses().size(), 2U);
    EXPECT_EQ(network.nics_of(0), 0b10U);
    EXPECT_EQ(network.nics_of(1), 0b01U);
    EXPECT_EQ(network.nics_of(Endpoint::kElsewhere), 0U);
}

/// What the agent does: the first one's is everybody's.
class Server {
public:
    ~Server() {
        if (kept_ >= 0) close(kept_);
    }
    int share(int offered) {
        if (kept_ < 0) kept_ = dup(offered);
        return dup(kept_);
    }

private:
    int kept_ = -1;
};

TEST(ServerBoard, IsOneForAllProcesses) {
    Server server;
    auto const share = [&](int offered) { return server.share(offered); };
    ChannelNetwork one({"lo"}, two_devices());
    ChannelNetwork two({"lo"}, two_devices());
    ChannelNetwork alone({"lo"}, two_devices());
    one.share_board_by(share);
    two.share_board_by(share);
    for (ChannelNetwork* const network : {&one, &two, &alone}) (void)network->addresses();
    one.board().lend(0, 100, 5);
    EXPECT_EQ(two.board().lent(0, 6), 100U);
    EXPECT_EQ(alone.board().lent(0, 6), 0U);
    EXPECT_EQ(name_on_server("lo"), name_on_server("lo"));
    EXPECT_NE(name_on_server("lo"), 0U);
}

TEST(ServerBoard, WithoutOneAProcessGoesOnAlone) {
    ChannelNetwork network({"lo"}, two_devices());
    network.share_board_by([](int) -> int { throw Error(ErrorCode::Timeout, "no agent"); });
    set_log_level("error");
    EXPECT_EQ(network.addresses().size(), 1U);
    // Nor does it take what is no such words.
    ChannelNetwork other({"lo"}, two_devices());
    other.share_board_by([](int) { return dup(0); });
    EXPECT_EQ(other.addresses().size(), 1U);
    set_log_level("warn");
    other.board().lend(0, 100, 5);
    EXPECT_EQ(other.board().lent(0, 6), 100U);
    expect_error(ErrorCode::NotFound, {"eth99"}, [] { (void)name_on_server("eth99"); });
}

}  // namespace
}  // namespace mgi::test
