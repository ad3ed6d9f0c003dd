#include <gtest/gtest.h>

#include <string>
#include <vector>

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

std::string cpu(std::string const& inside, std::string const& number = "0",
                std::string const& host = "") {
    return "<cpu numaid=\"" + number +
           "\" arch=\"x86_64\" vendor=\"AuthenticAMD\" familyid=\"25\" " + "modelid=\"1\"" +
           (host.empty() ? "" : " host_hash=\"" + host + "\"") + ">" + inside + "</cpu>";
}

std::string system_of(std::string const& inside) {
    return "<system version=\"1\">\n" + inside + "\n</system>";
}

std::string gpu(std::string const& bus_id, std::string const& links = "",
                std::string const& link = "link_speed=\"16.0 GT/s PCIe\" link_width=\"16\"") {
    return "<pci busid=\"" + bus_id + "\" class=\"0x030200\" " + link +
           "><gpu dev=\"0\" sm=\"80\">" + links + "</gpu></pci>";
}

std::string nvlink(std::string const& target, std::string const& count,
                   std::string const& target_class) {
    return "<nvlink target=\"" + target + "\" count=\"" + count + "\" tclass=\"" + target_class +
           "\"/>";
}

std::string nic(std::string const& bus_id, std::string const& ports) {
    return "<pci busid=\"" + bus_id +
           "\" class=\"0x020000\" link_speed=\"8 GT/s\" link_width=\"8\"><nic>" + ports +
           "</nic></pci>";
}

TEST(NcclFile, PcieLinksAreWidthTimesRate) {
    auto const made = read_text(system_of(cpu(
        gpu(kA) + gpu(kB, "", "link_speed=\"8 GT/s\" link_width=\"0\"") + gpu("0000:0C:00.0", "") +
        gpu("0000:0d:00.0", "", "link_width=\"1\" link_speed=\"2.5 GT/s\"") +
        gpu("0000:0e:00.0", "", "link_speed=\"Unknown\"") +
        gpu("0000:0f:00.0", "", "link_speed=\"9 GT/s\" link_width=\"\""))));
    EXPECT_EQ(gbps(made, kA, "cpu0"), 24);
    EXPECT_EQ(gbps(made, "cpu0", kA), 24);
    EXPECT_EQ(gbps(made, kB, "cpu0"), 12);
    EXPECT_EQ(gbps(made, "0000:0c:00.0", "cpu0"), 24) << "bus ids are in lower case";
    EXPECT_EQ(gbps(made, "0000:0d:00.0", "cpu0"), 0.1875);
    EXPECT_EQ(gbps(made, "0000:0e:00.0", "cpu0"), 12);
    EXPECT_EQ(gbps(made, "0000:0f:00.0", "cpu0"), 12);
    EXPECT_TRUE(warns_of(made, "\"9 GT/s\" is no PCIe rate"));
}

TEST(NcclFile, NvlinksToGpusAreOneWayAndAddUp) {
    auto const made = read_text(
        system_of(cpu(gpu(kA, nvlink(kB, "2", "0x030200") + nvlink(kB, "1", "0x030200")) + gpu(kB) +
                      gpu("0000:0c:00.0", nvlink("0000:77:00.0", "4", "0x030200")))));
    EXPECT_EQ(gbps(made, kA, kB), 60);
    EXPECT_EQ(gbps(made, kB, kA), 0);
    EXPECT_TRUE(warns_of(made, "no such GPU"));
}

TEST(NcclFile, SwitchesOfAServerAreOneVertex) {
    auto const made = read_text(system_of(cpu(
        gpu(kA, nvlink("0000:c0:00.0", "2", "0x068000") + nvlink("0000:c1:00.0", "3", "0x068000")) +
        gpu(kB, nvlink("0000:c0:00.0", "4", "0x068000")))));
    EXPECT_EQ(gbps(made, kA, "nvswitch"), 100);
    EXPECT_EQ(gbps(made, "nvswitch", kA), 100);
    EXPECT_EQ(gbps(made, kB, "nvswitch"), 80);
}

TEST(NcclFile, NvlinksToACpuGoToTheGpusOwn) {
    auto const made = read_text(
        system_of(cpu(gpu(kA, nvlink("0004:00:00.0", "3", "0x068001"))) + cpu(gpu(kB), "8")));
    EXPECT_EQ(gbps(made, kA, "cpu0"), 84);
    EXPECT_EQ(gbps(made, "cpu0", kA), 84);
    EXPECT_EQ(gbps(made, kB, "cpu8"), 24);
    EXPECT_EQ(gbps(made, "cpu0", "cpu8"), 16);
}

TEST(NcclFile, C2cIsBandwidthTimesCount) {
    auto const made = read_text(system_of(cpu(gpu(kA, "<c2c bw=\"44712\" count=\"5\"/>"))));
    EXPECT_DOUBLE_EQ(gbps(made, kA, "cpu0"), 24 + 223.56);
}

TEST(NcclFile, AHiddenSwitchJoinsServersOnlyInAFusedFile) {
    std::string const links = nvlink("fffffff:ff:ff.0", "18", "0x068000");
    auto const one = read_text(system_of(cpu(gpu(kA, links))));
    EXPECT_EQ(gbps(one, kA, "nvswitch"), 360);
    auto const two =
        read_text(system_of(cpu(gpu(kA, links), "0", "0x1") + cpu(gpu(kA, links), "0", "0x2")));
    EXPECT_EQ(two.servers, 2u);
    EXPECT_EQ(gbps(two, kA, "nvlink domain"), 360);
    EXPECT_EQ(gbps(two, "nvlink domain", "h1/" + std::string(kA)), 360);
    EXPECT_EQ(gbps(two, "cpu0", "h1/cpu0"), 0) << "CPUs of two servers are not joined";
}

TEST(NcclFile, OlderNcclCutsTheHiddenSwitchsAddressShort) {
    auto const made =
        read_text(system_of(cpu(gpu(kA, nvlink("fffffff:ffff:ff", "18", "0x068000"))) +
                            cpu(gpu(kB, nvlink("FFFFFFFF:FF:FF.0", "12", "0x068000")), "1")));
    EXPECT_EQ(gbps(made, kA, "nvswitch"), 360);
    EXPECT_EQ(gbps(made, "nvswitch", kB), 240);
}

TEST(NcclFile, ALinkOfAGpuToItselfIsLeftOut) {
    auto const made = read_text(system_of(cpu(gpu(kA, nvlink(kA, "12", "0x030200")))));
    EXPECT_EQ(gbps(made, kA, kA), 0);
    EXPECT_TRUE(warns_of(made, "to itself"));
}

TEST(NcclFile, DomainsOfEightDigitsAreTheSameAsOfFour) {
    auto const made = read_text(system_of(cpu(gpu("00000000:0A:00.0", nvlink(kB, "4", "0x030200")) +
                                              gpu(kB, nvlink("00000000:0a:00.0", "4", "0x030200")) +
                                              gpu("00010000:0C:00.0"))));
    EXPECT_EQ(gbps(made, kA, kB), 80);
    EXPECT_EQ(gbps(made, kB, kA), 80);
    EXPECT_EQ(gbps(made, "10000:0c:00.0", "cpu0"), 24);
    EXPECT_NE(refusal(system_of(cpu(gpu(kA) + gpu("00000000:0a:00.0")))).find("a second GPU"),
              std::string::npos);
}

TEST(NcclFile, GpusOfOneDeviceShareItsLinks) {
    std::string const links = nvlink(kB, "4", "0x030200") + "<c2c bw=\"40000\" count=\"5\"/>";
    auto const made =
        read_text(system_of(cpu("<pci busid=\"0000:0a:00.0\" link_speed=\"16.0 GT/s PCIe\">"
                                "<gpu dev=\"0\" sm=\"80\" mlopart=\"0\">" +
                                links +
                                "</gpu>"
                                "<gpu dev=\"0\" sm=\"80\" mlopart=\"1\">" +
                                links + "</gpu></pci>" + gpu(kB, nvlink(kA, "2", "0x030200")))));
    std::string const second = std::string(kA) + "#2";
    EXPECT_EQ(count_of(made, VertexKind::Gpu), 3u);
    EXPECT_EQ(gbps(made, kA, "cpu0"), 12 + 100) << "half the PCIe link, half of C2C";
    EXPECT_EQ(gbps(made, "cpu0", second), 12 + 100);
    EXPECT_EQ(gbps(made, second, kB), 40);
    EXPECT_EQ(gbps(made, kB, second), 20);
    EXPECT_EQ(gbps(made, kA, second), 5000);
    EXPECT_TRUE(warns_of(made, "2 GPUs share this device"));
}

TEST(NcclFile, XgmiFollowsTheArchitecture) {
    std::string const text = system_of(cpu(
        "<pci busid=\"0000:0a:00.0\"><gpu gcn=\"gfx942\"><xgmi target=\"0000:0b:00.0\" count=\"2\" "
        "tclass=\"0x120000\"/></gpu></pci><pci busid=\"0000:0b:00.0\"><gpu gcn=\"908\"/></pci>"));
    EXPECT_EQ(gbps(read_text(text), kA, kB), 96);
}

TEST(NcclFile, FunctionsOfOneNicAreOneVertexBehindOneLink) {
    std::string const port = "<net name=\"a\" speed=\"100000\"/>";
    auto const made = read_text(
        system_of(cpu(gpu(kA) + nic("0000:01:00.0", port) + nic("0000:01:00.1", port + port))));
    EXPECT_EQ(count_of(made, VertexKind::Nic), 1u);
    EXPECT_EQ(gbps(made, "nic 0000:01:00.0", "cpu0"), 6);
    EXPECT_EQ(gbps(made, "nic 0000:01:00.0", "network"), 37.5);
    EXPECT_EQ(gbps(made, "network", "nic 0000:01:00.0"), 37.5);
}

TEST(NcclFile, ANicWithoutASpeedHasTenGigabits) {
    auto const made =
        read_text(system_of(cpu(gpu(kA) + nic("0000:01:00.0", "<net name=\"a\"/>") +
                                nic("0000:02:00.0", "<net name=\"b\" speed=\"-1\"/>"))));
    EXPECT_EQ(gbps(made, "nic 0000:01:00.0", "network"), 1.25);
    EXPECT_EQ(gbps(made, "nic 0000:02:00.0", "network"), 1.25);
}

TEST(NcclFile, APortsSpeedIsTakenAsItIsButWarnedOf) {
    auto const made =
        read_text(system_of(cpu(gpu(kA) + nic("0000:01:00.0", "<net name=\"a\" speed=\"1000\"/>") +
                                nic("0000:02:00.0", "<net name=\"b\" speed=\"40\"/>") +
                                nic("0000:03:00.0", "<net name=\"c\" speed=\"400000000\"/>"))));
    EXPECT_EQ(gbps(made, "nic 0000:02:00.0", "network"), 0.005);
    EXPECT_EQ(gbps(made, "nic 0000:03:00.0", "network"), 50'000);
    EXPECT_FALSE(warns_of(made, "<net name=\"a\">"));
    EXPECT_TRUE(warns_of(made, "<net name=\"b\">, line 2: a speed of 40 Mb/s"));
    EXPECT_TRUE(warns_of(made, "<net name=\"c\">, line 2: a speed of 400000000 Mb/s"));
}

TEST(NcclFile, ANicWithoutADeviceUnderTwoCpusIsOne) {
    std::string const eth = "<nic><net name=\"eth0\" speed=\"10000\" guid=\"0x0\"/></nic>";
    auto const made = read_text(system_of(cpu(gpu(kA) + eth) + cpu(gpu(kB) + eth, "1")));
    EXPECT_EQ(count_of(made, VertexKind::Nic), 1u);
    EXPECT_EQ(gbps(made, "nic eth0", "cpu0"), 5000);
    EXPECT_EQ(gbps(made, "nic eth0", "cpu1"), 5000);
    EXPECT_EQ(gbps(made, "nic eth0", "network"), 1.25);
    EXPECT_TRUE(warns_of(made, "taken as one NIC"));
}

TEST(NcclFile, ASwitchThatIsThereTwiceIsTwoVertices) {
    std::string const bridge = "<pci busid=\"0000:01:00.0\" class=\"0x060400\">";
    auto const made =
        read_text(system_of(cpu(bridge + gpu(kA) + "</pci>" + bridge + gpu(kB) + "</pci>")));
    EXPECT_EQ(gbps(made, kA, "pci 0000:01:00.0"), 24);
    EXPECT_EQ(gbps(made, kB, "pci 0000:01:00.0#2"), 24);
    EXPECT_TRUE(warns_of(made, "more than once"));
}

TEST(NcclFile, PciLinksHaveNoLimit) {
    auto const made = read_text(system_of(cpu(
        "<pci busid=\"0000:01:00.0\" class=\"0x060400\"><pcilink target=\"0000:02:00.0\"/>" +
        gpu(kA) + "</pci><pci busid=\"0000:02:00.0\" class=\"0x060400\">" + gpu(kB) + "</pci>")));
    EXPECT_EQ(gbps(made, "pci 0000:01:00.0", "pci 0000:02:00.0"), 5000);
}

TEST(NcclFile, ATemplateGetsItsLinksFromFacts) {
    std::string const text =
        system_of(cpu("<pci busid=\"0000:0a:00.0\" class=\"0x030200\"/>"
                      "<pci busid=\"0000:0b:00.0\" class=\"0x120000\"/>"
                      "<pci busid=\"0000:01:00.0\" class=\"0x020700\"/>"));
    Facts facts;
    facts.sm = 90;
    facts.nvs_links = 18;
    facts.nic_gbps = 400;
    auto const made = read_text(text, facts);
    EXPECT_DOUBLE_EQ(gbps(made, kA, "nvswitch"), 370.8);
    EXPECT_DOUBLE_EQ(gbps(made, "nvswitch", kB), 370.8);
    EXPECT_EQ(gbps(made, "nic 0000:01:00.0", "network"), 50);
    auto const bare = read_text(text);
    EXPECT_EQ(gbps(bare, "nic 0000:01:00.0", "network"), 1.25);
    EXPECT_TRUE(warns_of(bare, "10 Gb/s assumed"));
}

TEST(NcclFile, APortWithoutASpeedGetsItsRateFromFactsOrAWarning) {
    std::string const text =
        system_of(cpu(nic("0000:01:00.0", "<net name=\"mlx5_0\" speed=\"200000\"/>") +
                      nic("0000:02:00.0", "<net name=\"mlx5_1\"/>") +
                      nic("0000:03:00.0", "<net name=\"mlx5_2\" speed=\"-1\"/>") +
                      "<nic><net name=\"eth0\" speed=\"0\"/></nic>"));
    auto const rates = [](Infrastructure const& made) {
        std::vector<double> found;
        for (char const* const name :
             {"nic 0000:01:00.0", "nic 0000:02:00.0", "nic 0000:03:00.0", "nic eth0"}) {
            found.push_back(gbps(made, name, "network"));
        }
        return found;
    };
    auto const bare = read_text(text);
    EXPECT_EQ(rates(bare), (std::vector<double>{25, 1.25, 1.25, 1.25}));
    EXPECT_TRUE(warns_of(bare, "<net name=\"mlx5_1\">, line 2: a NIC without a rate; 10 Gb/s"));
    EXPECT_TRUE(warns_of(bare, "<net name=\"mlx5_2\">"));
    EXPECT_TRUE(warns_of(bare, "<net name=\"eth0\">"));
    EXPECT_FALSE(warns_of(bare, "mlx5_0"));
    Facts facts;
    facts.nic_gbps = 400;
    facts.nic_gbps_of = {{"mlx5_2", 100}, {"eth0", 8}};
    auto const told = read_text(text, facts);
    EXPECT_EQ(rates(told), (std::vector<double>{25, 50, 12.5, 1}));
    EXPECT_FALSE(warns_of(told, "10 Gb/s assumed"));
    facts.nic_gbps_of = {{"0000:02:00.0", 40}};
    EXPECT_EQ(gbps(read_text(text, facts), "nic 0000:02:00.0", "network"), 5);
}

TEST(NcclFile, AFilesOwnLinksGoBeforeFacts) {
    Facts facts;
    facts.nvs_links = 18;
    auto const made =
        read_text(system_of(cpu(gpu(kA, nvlink(kB, "1", "0x030200")) + gpu(kB))), facts);
    EXPECT_EQ(gbps(made, kA, "nvswitch"), -1);
    EXPECT_TRUE(warns_of(made, "nvs_links is not used"));
}

TEST(NcclFile, WhatMeansUnknownIsAssumedWithAWarning) {
    auto const rate = [](std::string const& link, Facts const& facts = {}) {
        return gbps(read_text(system_of(cpu(gpu(kA, "", link))), facts), kA, "cpu0");
    };
    for (char const* const width : {"0", "-1", "255", ""}) {
        std::string const link = "link_speed=\"16 GT/s\" link_width=\"" + std::string(width) + "\"";
        EXPECT_EQ(rate(link), 24) << width;
        EXPECT_TRUE(warns_of(read_text(system_of(cpu(gpu(kA, "", link)))), "16 lanes assumed"));
    }
    Facts facts;
    facts.pcie_gen = 5;
    for (char const* const speed : {"-1", "255", "Unknown", "0"}) {
        std::string const link = "link_speed=\"" + std::string(speed) + "\" link_width=\"16\"";
        EXPECT_EQ(rate(link), 12) << speed;
        EXPECT_EQ(rate(link, facts), 48) << speed;
        EXPECT_TRUE(warns_of(read_text(system_of(cpu(gpu(kA, "", link) + gpu(kB, "", link)))),
                             "<pci busid=\"0000:0a:00.0\"> and 1 other: no link_speed"));
    }
    auto const bare = read_text(system_of(cpu(gpu(kA), "-1")));
    EXPECT_EQ(gbps(bare, kA, "cpu0"), 24) << "NCCL writes -1 for a node that is not known";
    EXPECT_TRUE(bare.warnings.empty());
    for (char const* const speed : {"4294967295", "65535"}) {
        auto const made = read_text(system_of(
            cpu(nic("0000:01:00.0", "<net name=\"a\" speed=\"" + std::string(speed) + "\"/>"))));
        EXPECT_EQ(gbps(made, "nic 0000:01:00.0", "network"), 1.25) << speed;
    }
}

TEST(NcclFile, LinksOfGpusOfUnknownModelsAreAssumedWithAWarning) {
    auto const of = [](std::string const& attributes, std::string const& link) {
        return read_text(
            system_of(cpu("<pci busid=\"0000:0a:00.0\" link_speed=\"16 GT/s\" "
                          "link_width=\"16\"><gpu " +
                          attributes + "><" + link +
                          " target=\"0000:0b:00.0\" count=\"2\"/></gpu></pci>" + gpu(kB))));
    };
    for (char const* const sm : {"", "sm=\"0\"", "sm=\"-1\""}) {
        EXPECT_TRUE(warns_of(of(sm, "nvlink"), "20 GB/s assumed for each NVLink")) << sm;
    }
    EXPECT_TRUE(warns_of(of("", "xgmi"), "24 GB/s assumed for each xGMI link"));
    EXPECT_TRUE(of("sm=\"80\"", "nvlink").warnings.empty());
    EXPECT_TRUE(of("gcn=\"gfx942\"", "xgmi").warnings.empty());
}

TEST(NcclFile, ANicInSeveralFormsCountsOnce) {
    auto const net = [](std::string const& name, int mbps, std::string const& guid = "") {
        return "<net name=\"" + name + "\" speed=\"" + std::to_string(mbps) + "\" port=\"1\"" +
               (guid.empty() ? "" : " guid=\"" + guid + "\"") + "/>";
    };
    std::string const one = gpu(kA) + nic("0000:01:00.0", net("a", 100'000, "0x7"));
    auto const alone =
        read_text(system_of(cpu(gpu(kA) + nic("0000:09:00.0", net("a+b", 200'000)))));
    EXPECT_EQ(gbps(alone, "nic 0000:09:00.0", "network"), 25);
    EXPECT_TRUE(alone.warnings.empty());
    // Merged with one that the file has, and one that it has not.
    auto const half = read_text(system_of(cpu(nic("0000:09:00.0", net("a+b", 200'000)) + one)));
    EXPECT_EQ(gbps(half, "nic 0000:09:00.0", "network"), 12.5);
    EXPECT_TRUE(warns_of(half, "only its others count"));
    for (std::string const& again :
         {net("a+a", 200'000), net("a_dma", 100'000), net("a", 100'000, "0x7")}) {
        auto const made = read_text(system_of(cpu(one + nic("0000:09:00.0", again))));
        EXPECT_EQ(count_of(made, VertexKind::Nic), 1u) << again;
        EXPECT_TRUE(warns_of(made, "left out")) << again;
    }
    auto const servers = read_text(system_of(cpu(one, "0", "0x1") + cpu(one, "0", "0x2")));
    EXPECT_EQ(count_of(servers, VertexKind::Nic), 2u) << "another server's is another one";
    EXPECT_TRUE(servers.warnings.empty());
}

TEST(NcclFile, RefusesWithLineElementAndWhatWasExpected) {
    EXPECT_EQ(refusal("<system version=\"9\"><cpu/></system>"),
              "file:1: <system>: version is \"9\"; expected 1 or 2");
    EXPECT_EQ(refusal("<system version=\"1\"/>"), "file:1: <system>: has no <cpu>");
    EXPECT_EQ(refusal(system_of(cpu(gpu("03:00")))),
              "file:2: <pci busid=\"03:00\">: busid is \"03:00\"; expected "
              "domain:bus:device.function such as 0000:01:00.0");
    EXPECT_EQ(refusal(system_of(cpu(gpu(kA) + "\n" + gpu(kA)))),
              "file:3: <pci busid=\"0000:0a:00.0\">: a second GPU of this bus id (the first is in "
              "line 2); expected each GPU once");
    EXPECT_NE(refusal(system_of(cpu(gpu(kA, "", "link_width=\"x16\"")))).find("link_width"),
              std::string::npos);
    EXPECT_NE(refusal(system_of(cpu(gpu(kA, "", "link_width=\"-2\"")))).find("lanes"),
              std::string::npos);
    EXPECT_NE(refusal(system_of(cpu(gpu(kA, nvlink(kB, "-4", "0x030200"))))).find("count is -4"),
              std::string::npos);
    EXPECT_NE(refusal(system_of(cpu(gpu(kA, nvlink("x", "4", "0x030200"))))).find("target is"),
              std::string::npos);
    EXPECT_NE(refusal(system_of(cpu(gpu(kA, "<c2c count=\"8\"/>")))).find("has no bw"),
              std::string::npos);
    EXPECT_NE(refusal(system_of(cpu(nic(kA, "<net name=\"a\" speed=\"fast\"/>")))).find("speed"),
              std::string::npos);
}

}  // namespace
}  // namespace mgi::topology
