#include "topology/nic_models.hpp"

#include <gtest/gtest.h>

namespace mgi::topology {
namespace {

TEST(NicModels, AreKnownByTheirIds) {
    EXPECT_EQ(nic_mbps("15b3:1021"), 400'000);
    EXPECT_EQ(nic_mbps("1d0f:efa1"), 100'000);
    EXPECT_EQ(nic_mbps("1d0f:efa2"), 200'000);
    EXPECT_EQ(nic_mbps("1d0f:efa3"), 400'000);
    for (char const* const id : {"8086:1537", "8086:1539", "8086:10c9", "14e4:1639"}) {
        EXPECT_EQ(nic_mbps(id), 1'000) << id;
    }
    EXPECT_EQ(nic_mbps("15b3:6746"), 40'000);
    EXPECT_EQ(nic_mbps("ffff:ffff"), std::nullopt);
}

TEST(NicModels, ElseTheirNameInThePciIdListHasTheRate) {
    auto const rate = [](char const* name) { return nic_mbps("ffff:ffff", name); };
    EXPECT_EQ(rate("82576 Gigabit Network Connection"), 1'000);
    EXPECT_EQ(rate("NetXtreme II BCM5709 Gigabit Ethernet"), 1'000);
    EXPECT_EQ(rate("82598EB 10-Gigabit AF Network Connection"), 10'000);
    EXPECT_EQ(rate("BCM57414 NetXtreme-E 10Gb/25Gb RDMA Ethernet Controller"), 25'000);
    EXPECT_EQ(rate("Ethernet Controller I225-V 2.5GBASE-T"), 2'500);
    EXPECT_EQ(rate("MT26438 [ConnectX VPI PCIe 2.0 5GT/s - IB QDR / 10GigE]"), 40'000);
    EXPECT_EQ(rate("MT28908 Family [ConnectX-6]"), std::nullopt);
    EXPECT_EQ(rate("Virtio 1.0 network device"), std::nullopt);
    EXPECT_EQ(rate(""), std::nullopt);
}

TEST(NicModels, VirtualFunctionsAreToldByIdOrName) {
    EXPECT_TRUE(is_virtual_function("15b3:101e"));
    EXPECT_TRUE(is_virtual_function("ffff:ffff", "Ethernet Virtual Function"));
    EXPECT_FALSE(is_virtual_function("15b3:1021", "MT2910 Family [ConnectX-7]"));
}

}  // namespace
}  // namespace mgi::topology
