#include <gtest/gtest.h>

#include "topology/rates.hpp"

#include <cstdint>

namespace mgi::topology {
namespace {

TEST(Rates, OfPcieFollowGenerationAndWidth) {
    EXPECT_EQ(pcie_gbps(8, 16), 12);
    EXPECT_EQ(pcie_gbps(2.5, 1), 0.1875);
    EXPECT_EQ(pcie_gbps(64, 16), 96);
    EXPECT_EQ(pcie_gbps(7, 16), std::nullopt);
    EXPECT_NEAR(*pcie_encoded_gbps(8, 16), 15.753846, 1e-6);
    EXPECT_EQ(pcie_encoded_gbps(5, 16), 8);
    EXPECT_EQ(pcie_encoded_gbps(7, 16), std::nullopt);
    EXPECT_EQ(pcie_transfers(4), 16);
    EXPECT_EQ(pcie_transfers(0), std::nullopt);
    EXPECT_EQ(pcie_transfers(7), std::nullopt);
}

TEST(Rates, OfLinksBetweenGpusFollowTheModel) {
    EXPECT_EQ(nvlink_gbps(60), 18);
    EXPECT_EQ(nvlink_gbps(70), 20);
    EXPECT_EQ(nvlink_gbps(80), 20);
    EXPECT_EQ(nvlink_gbps(86), 12);
    EXPECT_EQ(nvlink_gbps(89), 20);
    EXPECT_EQ(nvlink_gbps(90), 20.6);
    EXPECT_EQ(nvlink_gbps(103), 40.1);
    EXPECT_EQ(nvlink_gbps(37), 20);
    EXPECT_EQ(nvlink_gbps(std::nullopt), 20);
    EXPECT_EQ(xgmi_gbps("gfx90a"), 36);
    EXPECT_EQ(xgmi_gbps("gfx90a:sramecc+"), 36);
    EXPECT_EQ(xgmi_gbps("910"), 36);
    EXPECT_EQ(xgmi_gbps("gfx942"), 48);
    EXPECT_EQ(xgmi_gbps("942"), 48);
    EXPECT_EQ(xgmi_gbps("gfx950"), 48);
    EXPECT_EQ(xgmi_gbps("908"), 24);
    EXPECT_EQ(xgmi_gbps(""), 24);
}

TEST(Rates, OfCpusFollowTheirModel) {
    EXPECT_EQ(cpu_gbps({"x86_64", "GenuineIntel", 6, 207}), 40);
    EXPECT_EQ(cpu_gbps({"x86_64", "GenuineIntel", 6, 143}), 22);
    EXPECT_EQ(cpu_gbps({"x86_64", "GenuineIntel", 6, 85}), 10);
    EXPECT_EQ(cpu_gbps({"x86_64", "GenuineIntel", 6, 79}), 6);
    EXPECT_EQ(cpu_gbps({"x86_64", "GenuineIntel", 6, std::nullopt}), std::nullopt);
    EXPECT_EQ(cpu_gbps({"x86_64", "AuthenticAMD", 175, 1}), 16);
    EXPECT_EQ(cpu_gbps({"x86_64", "CentaurHauls", 7, 91}), 9);
    EXPECT_EQ(cpu_gbps({"x86_64", "  Shanghai  ", 7, 59}), 6);
    EXPECT_EQ(cpu_gbps({"arm64", "", {}, {}}), 6);
    EXPECT_EQ(cpu_gbps({"ppc64le", "", {}, {}}), 32);
    EXPECT_EQ(cpu_gbps({"", "", {}, {}}), std::nullopt);
    EXPECT_EQ(cpu_gbps_named("intel_spr"), 22);
    EXPECT_EQ(cpu_gbps_named("pentium"), std::nullopt);
}

TEST(Rates, UnknownIsWrittenInManyWays) {
    for (std::int64_t const lanes : {-1, 0, 255}) EXPECT_FALSE(known_lanes(lanes)) << lanes;
    EXPECT_EQ(known_lanes(16), 16);
    for (double const mbps : {-1.0, 0.0, 65535.0, 4294967295.0}) {
        EXPECT_FALSE(known_mbps(mbps)) << mbps;
    }
    EXPECT_EQ(known_mbps(100'000), 100'000);
}

}  // namespace
}  // namespace mgi::topology
