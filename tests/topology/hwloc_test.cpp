#include <gtest/gtest.h>

#include <string>

#include "topology/text_topology.hpp"

namespace mgi::topology {
namespace {

using test::count_of;
using test::gbps;
using test::kA;
using test::kB;
using test::read_text;
using test::refusal;
using test::warns_of;

std::string object(std::string const& attributes, std::string const& inside = "") {
    return "<object " + attributes + ">" + inside + "</object>\n";
}

std::string info(std::string const& name, std::string const& value) {
    return "<info name=\"" + name + "\" value=\"" + value + "\"/>";
}

std::string pci(std::string const& bus_id, std::string const& type, std::string const& speed,
                std::string const& inside = "", std::string const& index = "7") {
    return object("type=\"PCIDev\" gp_index=\"" + index + "\" pci_busid=\"" + bus_id +
                      "\" pci_type=\"" + type + " [0000:0000] a1\" pci_link_speed=\"" + speed +
                      "\"",
                  inside);
}

std::string bridge(std::string const& bus_id, std::string const& speed, std::string const& inside) {
    return object("type=\"Bridge\" bridge_type=\"1-1\" pci_busid=\"" + bus_id +
                      "\" pci_type=\"0604 [1014:04c1]\" pci_link_speed=\"" + speed + "\"",
                  inside);
}

std::string host_bridge(std::string const& inside) {
    return object("type=\"Bridge\" bridge_type=\"0-1\" depth=\"0\"", inside);
}

std::string package(std::string const& number, std::string const& inside,
                    std::string const& type = "Package") {
    return object("type=\"" + type + "\" os_index=\"" + number + "\" gp_index=\"1" + number + "\"",
                  info("CPUVendor", "GenuineIntel") + info("CPUModelNumber", "143") + inside);
}

std::string topology_of(std::string const& inside, std::string const& after = "",
                        std::string const& version = " version=\"2.0\"") {
    return "<topology" + version + ">" + object("type=\"Machine\" os_index=\"0\"", inside) + after +
           "</topology>";
}

constexpr char const* kNvidia = "0302 [10de:2330]";

TEST(HwlocFile, EveryObjectsSpeedIsItsEdgeUpward) {
    auto const made = read_text(topology_of(package(
        "0", host_bridge(bridge("0000:01:00.0", "15.753846", pci(kA, kNvidia, "31.507692"))))));
    EXPECT_EQ(gbps(made, kA, "pci 0000:01:00.0"), 31.507692);
    EXPECT_EQ(gbps(made, "pci 0000:01:00.0", "cpu0"), 15.753846);
    EXPECT_EQ(gbps(made, "cpu0", "pci 0000:01:00.0"), 15.753846);
}

TEST(HwlocFile, UnknownSpeedsAreNoLimitForBridgesAndGen3ForDevices) {
    auto const made = read_text(topology_of(
        package("0", host_bridge(bridge("0000:01:00.0", "0.000000", pci(kA, kNvidia, "0"))))));
    EXPECT_EQ(gbps(made, kA, "pci 0000:01:00.0"), 15.753846);
    EXPECT_EQ(gbps(made, "pci 0000:01:00.0", "cpu0"), 5000);
}

TEST(HwlocFile, CpusAreThePackagesOfAnyVersion) {
    for (char const* const type : {"Package", "Socket"}) {
        auto const made = read_text(topology_of(
            package("0", host_bridge(pci(kA, kNvidia, "15.75")), type) + package("8", "", type), "",
            type[0] == 'S' ? "" : " version=\"3.0\""));
        EXPECT_EQ(gbps(made, "cpu0", "cpu8"), 22);
        EXPECT_EQ(gbps(made, kA, "cpu0"), 15.75);
    }
}

TEST(HwlocFile, DevicesBesideAPackageInItsNumaNodeAreAtIt) {
    std::string const first =
        object("type=\"NUMANode\" os_index=\"0\"",
               package("0", "", "Socket") + host_bridge(pci(kA, kNvidia, "15.75")));
    std::string const second =
        object("type=\"NUMANode\" os_index=\"1\"",
               package("1", "", "Socket") + host_bridge(pci(kB, kNvidia, "15.75")));
    auto const made = read_text(topology_of(first + second, "", ""));
    EXPECT_EQ(gbps(made, kA, "cpu0"), 15.75);
    EXPECT_EQ(gbps(made, kB, "cpu1"), 15.75);
}

TEST(HwlocFile, DevicesOfNoPackageGoToTheFirstWithAWarning) {
    auto const made = read_text(
        topology_of(package("0", "") + package("1", "") + host_bridge(pci(kA, kNvidia, "15.75"))));
    EXPECT_EQ(gbps(made, kA, "cpu0"), 15.75);
    EXPECT_TRUE(warns_of(made, "which CPU"));
}

TEST(HwlocFile, DisplayAdaptersAreNoGpus) {
    auto const made = read_text(
        topology_of(package("0", host_bridge(pci("0000:01:00.0", "0300 [1a03:2000]", "0") +
                                             pci("0000:02:00.0", "0300 [1d0f:1111]", "0") +
                                             pci("0000:03:00.0", "0300 [1002:515e]", "0") +
                                             pci("0000:04:00.0", "0380 [1002:740c]", "31.5") +
                                             pci("0000:05:00.0", "1200 [1002:74a1]", "63") +
                                             pci("0000:06:00.0", "0302 [1ed5:0222]", "63") +
                                             object("type=\"PCIDev\" subtype=\"NVSwitch\" "
                                                    "pci_busid=\"0000:07:00.0\" "
                                                    "pci_type=\"0302 [10de:1ac2]\"")))));
    EXPECT_EQ(count_of(made, VertexKind::Gpu), 3u);
}

TEST(HwlocFile, NicsHaveTheirDevicesRateOrFactsOrTenGigabits) {
    std::string const text =
        topology_of(package("0", host_bridge(pci("0000:01:00.0", "0207 [15b3:1019]", "15.75") +
                                             pci("0000:01:00.1", "0207 [15b3:1019]", "15.75") +
                                             pci("0000:02:00.0", "0200 [abcd:0001]", "1",
                                                 object("type=\"OSDev\" name=\"eth7\"")))));
    auto const made = read_text(text);
    EXPECT_EQ(count_of(made, VertexKind::Nic), 2u);
    EXPECT_EQ(gbps(made, "nic 0000:01:00.0", "network"), 25);
    EXPECT_EQ(gbps(made, "nic 0000:01:00.0", "cpu0"), 15.75) << "one link for both functions";
    EXPECT_EQ(gbps(made, "nic 0000:02:00.0", "network"), 1.25);
    EXPECT_TRUE(warns_of(made, "unknown rate"));
    Facts facts;
    facts.nic_gbps_of["eth7"] = 40;
    EXPECT_EQ(gbps(read_text(text, facts), "nic 0000:02:00.0", "network"), 5);
}

std::string matrix(std::string const& indexes, std::string const& values,
                   std::string const& name = "NVLinkBandwidth") {
    return "<distances2hetero nbobjs=\"4\" kind=\"25\" name=\"" + name +
           "\"><indexes length=\"1\">" + indexes + "</indexes>" + values + "</distances2hetero>";
}

std::string machine_with_links() {
    return package("0",
                   host_bridge(pci(kA, kNvidia, "15.75",
                                   object("type=\"OSDev\" name=\"nvml0\" gp_index=\"20\""), "30") +
                               pci(kB, kNvidia, "15.75", "", "31") +
                               pci("0000:c0:00.0", "0000 [0000:0000]", "1", "", "40")));
}

TEST(HwlocFile, MatricesJoinGpusSwitchesAndCpus) {
    // GPU a (by its OS device), GPU b, an NVSwitch that does not answer, the package.
    auto const made = read_text(topology_of(
        machine_with_links(),
        matrix("OSDev:20 PCIDev:31 PCIDev:40 Package:10",
               "<u64values length=\"1\">1000000 25000 50000 40000 0 1000000 0 0 </u64values>"
               "<u64values length=\"1\">50000 0 <!-- a b --> 0 0 <![CDATA[20000 0]]> 0 0"
               "</u64values>")));
    EXPECT_EQ(gbps(made, kA, kB), 25);
    EXPECT_EQ(gbps(made, kB, kA), 0) << "each direction is as its own entry says";
    EXPECT_EQ(gbps(made, kA, "nvswitch"), 50);
    EXPECT_EQ(gbps(made, "nvswitch", kA), 50);
    EXPECT_EQ(gbps(made, kA, "cpu0"), 15.75 + 40);
    EXPECT_EQ(gbps(made, "cpu0", kA), 15.75 + 20);
}

std::string node(std::string const& number, std::string const& inside = "") {
    return object("type=\"NUMANode\" os_index=\"" + number + "\"", inside);
}

std::string group(std::string const& inside) {
    return object("type=\"Group\"", inside);
}

TEST(HwlocFile, CpusAreNumaNodes) {
    // Two in a package, with a cache of one's memory, and a node of memory alone around them.
    auto const parts = read_text(topology_of(
        package("0", node("9") + group(node("0") + host_bridge(pci(kA, kNvidia, "15.75"))) +
                         group(object("type=\"MemCache\"", node("1")) +
                               host_bridge(pci(kB, kNvidia, "15.75"))))));
    EXPECT_EQ(count_of(parts, VertexKind::Cpu), 2u);
    EXPECT_EQ(gbps(parts, kA, "cpu0"), 15.75);
    EXPECT_EQ(gbps(parts, kB, "cpu1"), 15.75);
    EXPECT_EQ(gbps(parts, "cpu0", "cpu1"), 22);
    EXPECT_TRUE(parts.warnings.empty());
    // One for two packages, as virtual machines have it.
    auto const shared = read_text(topology_of(node("0") + package("0", "") + package("1", "") +
                                              host_bridge(pci(kA, kNvidia, "15.75"))));
    EXPECT_EQ(count_of(shared, VertexKind::Cpu), 1u);
    EXPECT_TRUE(shared.warnings.empty());
    // hwloc 1.x: packages are in nodes, of which one may have no cores.
    auto const old = read_text(
        topology_of(node("0", package("3", host_bridge(pci(kA, kNvidia, "15.75")), "Socket")) +
                        node("8", package("4", "", "Socket")) + node("250"),
                    "", ""));
    EXPECT_EQ(count_of(old, VertexKind::Cpu), 2u);
    EXPECT_EQ(gbps(old, kA, "cpu0"), 15.75);
    EXPECT_EQ(gbps(old, "cpu8", "cpu0"), 22);
}

TEST(HwlocFile, ADeviceBesideTheNodesOfItsPackageIsAtTheFirstWithAWarning) {
    auto const made =
        read_text(topology_of(package("0", group(node("0")) + group(node("1"))) +
                              package("1", group(node("2")) + group(node("3")) +
                                               host_bridge(pci(kA, kNvidia, "15.75")))));
    EXPECT_EQ(gbps(made, kA, "cpu2"), 15.75);
    EXPECT_TRUE(warns_of(made, "which CPU"));
}

TEST(HwlocFile, TwoCpusOfOneNumberAreNamed) {
    auto const made = read_text(topology_of(package("0", "") + package("0", "")));
    EXPECT_EQ(gbps(made, "cpu0", "cpu0#2"), 22);
    EXPECT_TRUE(warns_of(made, "a second CPU of this number"));
}

TEST(HwlocFile, MachinesOfASystemAreServers) {
    std::string const machine =
        object("type=\"Machine\"", package("0", host_bridge(pci(kA, kNvidia, "15.75"))));
    auto const made = read_text("<topology>" + object("type=\"System\"", group(machine + machine)) +
                                "</topology>");
    EXPECT_EQ(made.servers, 2u);
    EXPECT_EQ(gbps(made, kA, "cpu0"), 15.75);
    EXPECT_EQ(gbps(made, "h1/" + std::string(kA), "h1/cpu0"), 15.75);
    EXPECT_EQ(gbps(made, "cpu0", "h1/cpu0"), 0);
    EXPECT_TRUE(made.warnings.empty());
}

TEST(HwlocFile, VirtualFunctionsCountWithTheirNic) {
    std::string const functions =
        pci("0000:01:00.2", "0200 [15b3:101e]", "1") + pci("0000:01:01.1", "0200 [15b3:101e]", "1");
    auto const made = read_text(topology_of(package(
        "0", host_bridge(bridge("0000:00:01.0", "31.5",
                                pci("0000:01:00.0", "0200 [15b3:101d]", "31.5") + functions)))));
    EXPECT_EQ(count_of(made, VertexKind::Nic), 1u);
    EXPECT_EQ(gbps(made, "nic 0000:01:00.0", "network"), 12.5);
    EXPECT_TRUE(warns_of(made, "and 1 other: a virtual function of a NIC beside it; left out"));
    auto const alone = read_text(topology_of(package("0", host_bridge(functions))));
    EXPECT_EQ(count_of(alone, VertexKind::Nic), 2u);
    EXPECT_TRUE(warns_of(alone, "whose NIC the file has not"));
}

TEST(HwlocFile, SpeedsThatAreAssumedHaveAWarning) {
    // All ones, which a device that does not answer is read as, are 63 lanes of a rate to come.
    for (char const* const speed : {"0", "254046.0"}) {
        auto const made = read_text(topology_of(
            package("0", host_bridge(bridge("0000:01:00.0", "0", pci(kA, kNvidia, speed))))));
        EXPECT_EQ(gbps(made, kA, "pci 0000:01:00.0"), 15.753846) << speed;
        EXPECT_TRUE(warns_of(made, "15.75 GB/s (Gen3 x16) assumed")) << speed;
        EXPECT_TRUE(warns_of(made, "no limit assumed")) << speed;
        EXPECT_FALSE(warns_of(made, "idle")) << speed;
    }
}

TEST(HwlocFile, NicsOfOtherModelsHaveTheRateInTheirName) {
    auto const made = read_text(topology_of(
        package("0", host_bridge(pci("0000:01:00.0", "0200 [14e4:16a5]", "1",
                                     info("PCIDevice", "NetXtreme II BCM57810S 10Gb Ethernet"))))));
    EXPECT_EQ(gbps(made, "nic 0000:01:00.0", "network"), 1.25);
    EXPECT_TRUE(made.warnings.empty());
}

TEST(HwlocFile, OfTheEntriesOfTwoDevicesTheLargestCounts) {
    std::string const logical = object("type=\"OSDev\" name=\"rsmi0\" gp_index=\"20\"") +
                                object("type=\"OSDev\" name=\"rsmi1\" gp_index=\"21\"");
    auto const made = read_text(topology_of(
        package("0", host_bridge(pci(kA, kNvidia, "15.75", logical, "30") +
                                 pci(kB, kNvidia, "15.75", "", "31") +
                                 pci("0000:c0:00.0", "0000 [0000:0000]", "1", "", "40"))),
        matrix("20 21 31 40", "<u64values>0 7 50 40 7 0 60 40 30 20 0 40 40 40 40 0</u64values>",
               "XGMIBandwidth") +
            matrix("20 21 31 40", "<u64values>0 7 70 0 7 0 0 0 0 0 0 0 0 0 0 0</u64values>",
                   "XGMIBandwidth")));
    EXPECT_EQ(gbps(made, kA, kB), 0.07);
    EXPECT_EQ(gbps(made, kB, kA), 0.03);
    EXPECT_EQ(gbps(made, kA, "nvswitch"), 0.04);
}

TEST(HwlocFile, RefusesWithLineElementAndWhatWasExpected) {
    EXPECT_EQ(refusal("<topology version=\"2.0\"/>"),
              "file:1: <topology>: has no <object>; expected the machine");
    EXPECT_NE(refusal(topology_of("", "", " version=\"4.0\"")).find("hwloc 1, 2 or 3"),
              std::string::npos);
    EXPECT_NE(refusal(topology_of(pci("0a", kNvidia, "1"))).find("pci_busid is \"0a\""),
              std::string::npos);
    EXPECT_NE(refusal(topology_of(pci(kA, "gpu", "1"))).find("pci_type is"), std::string::npos);
    EXPECT_NE(refusal(topology_of(pci(kA, kNvidia, "fast"))).find("pci_link_speed is \"fast\""),
              std::string::npos);
    EXPECT_NE(
        refusal(topology_of(pci(kA, kNvidia, "1") + pci(kA, kNvidia, "1"))).find("second GPU"),
        std::string::npos);
    std::string const values = "<u64values>1 2 3</u64values>";
    EXPECT_NE(refusal(topology_of(machine_with_links(), matrix("20 31 40 10", values)))
                  .find("has 3 values; expected 4 times 4"),
              std::string::npos);
    EXPECT_NE(refusal(topology_of("", matrix("20", values))).find("has 1 indexes"),
              std::string::npos);
    EXPECT_NE(
        refusal(topology_of(machine_with_links(), matrix("20 31 40 10",
                                                         "<u64values>1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 "
                                                         "-3</u64values>")))
            .find("a value is \"-3\""),
        std::string::npos);
}

}  // namespace
}  // namespace mgi::topology
