#include <gtest/gtest.h>

#include <string>

#include "topology/text_topology.hpp"

namespace mgi::topology {
namespace {

using test::count_of;
using test::gbps;
using test::read_text;
using test::refusal;
using test::warns_of;

Facts a100() {
    Facts facts;
    facts.sm = 80;
    facts.pcie_gen = 4;
    facts.nic_gbps = 200;
    facts.cpu = "amd";
    return facts;
}

TEST(NvidiaSmi, DevicesThatArePixShareASwitch) {
    auto const made = read_text(
        "$ nvidia-smi topo -m\n"
        "\t\x1b[4mGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\x1b[0m\n"
        "GPU0\t X \tNV4\tPIX\t0-15\t0\n"
        "GPU1\tNV4\t X \tSYS\t16-31\t1\n"
        "NIC0\tPIX\tSYS\t X \t\t\n"
        "\nLegend:\n\n  X    = Self\n\nNIC Legend:\n\n  NIC0: mlx5_0\n",
        a100());
    EXPECT_EQ(gbps(made, "gpu0", "pix gpu0"), 24);
    EXPECT_EQ(gbps(made, "nic mlx5_0", "pix gpu0"), 24);
    EXPECT_EQ(gbps(made, "pix gpu0", "cpu0"), 24);
    EXPECT_EQ(gbps(made, "gpu1", "cpu1"), 24);
    EXPECT_EQ(gbps(made, "cpu0", "cpu1"), 16);
    EXPECT_EQ(gbps(made, "gpu0", "gpu1"), 80);
    EXPECT_EQ(gbps(made, "nic mlx5_0", "network"), 25);
}

TEST(NvidiaSmi, SwitchesThatArePxbHangBelowAnother) {
    auto const made = read_text(
        "      GPU0 GPU1 GPU2 GPU3 CPU Affinity\n"
        "GPU0   X    PIX  PXB  PHB  0-7\n"
        "GPU1   PIX  X    PXB  PHB  0-7\n"
        "GPU2   PXB  PXB  X    PHB  0-7\n"
        "GPU3   PHB  PHB  PHB  X    0-7\n",
        a100());
    EXPECT_EQ(gbps(made, "gpu0", "pix gpu0"), 24);
    EXPECT_EQ(gbps(made, "pix gpu0", "pxb gpu0"), 24);
    EXPECT_EQ(gbps(made, "gpu2", "pxb gpu0"), 24);
    EXPECT_EQ(gbps(made, "pxb gpu0", "cpu0"), 24);
    EXPECT_EQ(gbps(made, "gpu3", "cpu0"), 24);
    EXPECT_EQ(count_of(made, VertexKind::Switch), 2u);
}

TEST(NvidiaSmi, MoreNvlinksThanAGpuHasAreASwitchs) {
    auto const made = read_text(
        "     GPU0 GPU1 GPU2 CPU Affinity\n"
        "GPU0 X    NV12 NV12 0-7\n"
        "GPU1 NV12 X    NV12 0-7\n"
        "GPU2 NV12 NV12 X    8-15\n",
        a100());
    EXPECT_EQ(gbps(made, "gpu0", "nvswitch"), 240);
    EXPECT_EQ(gbps(made, "nvswitch", "gpu2"), 240);
    EXPECT_EQ(gbps(made, "gpu0", "gpu1"), 0);
}

TEST(NvidiaSmi, ANicBehindACpuWithoutGpusGetsOne) {
    auto const made = read_text(
        "     GPU0 nic0 nic1 CPU Affinity\n"
        "GPU0 X    NODE SYS  0-7\n"
        "nic0 NODE X    SYS\n"
        "nic1 SYS  SYS  X\n",
        a100());
    EXPECT_EQ(gbps(made, "nic nic0", "cpu0"), 24);
    EXPECT_EQ(gbps(made, "nic nic1", "cpu1"), 24);
    EXPECT_TRUE(warns_of(made, "assumed, since the table does not tell: nic1"));
}

TEST(NvidiaSmi, WhereSysIsBetweenGpusOfOneCpuTooItMakesNoCpus) {
    auto const made = read_text(
        "     GPU0 GPU1 GPU2 NIC0 CPU Affinity\n"
        "GPU0 X    SYS  SYS  SYS  0-7\n"
        "GPU1 SYS  X    SYS  SYS  0-7\n"
        "GPU2 SYS  SYS  X    SYS  8-15\n"
        "NIC0 SYS  SYS  SYS  X\n",
        a100());
    EXPECT_EQ(count_of(made, VertexKind::Cpu), 2u);
    EXPECT_EQ(gbps(made, "nic NIC0", "cpu0"), 24);
}

TEST(NvidiaSmi, NicsFarFromAllAreSharedOutToTheCpusOfTheColumns) {
    auto const made = read_text(
        "     GPU0 GPU1 NIC0 NIC1 NIC2 NIC3 CPU Affinity\n"
        "GPU0 X    NV18 SYS  SYS  SYS  SYS  0-71\n"
        "GPU1 NV18 X    SYS  SYS  SYS  SYS  72-143\n"
        "NIC0 SYS  SYS  X    PIX  SYS  SYS\n"
        "NIC1 SYS  SYS  PIX  X    SYS  SYS\n"
        "NIC2 SYS  SYS  SYS  SYS  X    PIX\n"
        "NIC3 SYS  SYS  SYS  SYS  PIX  X\n",
        a100());
    EXPECT_EQ(count_of(made, VertexKind::Cpu), 2u);
    EXPECT_EQ(gbps(made, "pix NIC0", "cpu0"), 24);
    EXPECT_EQ(gbps(made, "pix NIC2", "cpu1"), 24);
    EXPECT_TRUE(warns_of(made, "the table does not tell: NIC0, NIC1, NIC2, NIC3"));
}

TEST(NvidiaSmi, TablesOfSeveralMachinesAreServers) {
    std::string const table =
        "\tGPU0\tGPU1\tNIC0\tCPU Affinity\n"
        "GPU0\tX\tNV18\tPIX\t0-7\nGPU1\tNV18\tX\tSYS\t8-15\nNIC0\tPIX\tSYS\tX\t\n\n"
        "Legend:\n\n  X = Self\n\nNIC Legend:\n\n  NIC0: ";
    auto const made = read_text("one:\n" + table + "mlx5_0\ntwo:\n" + table + "mlx5_9\n", a100());
    EXPECT_EQ(made.servers, 2u);
    EXPECT_EQ(gbps(made, "nic mlx5_0", "network"), 25);
    EXPECT_EQ(gbps(made, "h1/nic mlx5_9", "network"), 25);
    EXPECT_EQ(gbps(made, "h1/gpu0", "h1/nvswitch"), 360);
    EXPECT_EQ(gbps(made, "cpu0", "h1/cpu0"), 0);
    EXPECT_TRUE(warns_of(made, "2 tables (the second in line 15)"));
    EXPECT_NE(refusal(table + "a\n" + "GPU0 GPU1\nGPU0 X\nGPU1 NV1 X\n").find("file:14: the row"),
              std::string::npos);
    // What nvidia-smi topo -p2p prints says nothing of rates.
    auto const one = read_text(table + "mlx5_0\nGPU0 GPU1\nGPU0 X OK\nGPU1 CNS X\n", a100());
    EXPECT_EQ(one.servers, 1u);
}

TEST(NvidiaSmi, EachNicWithoutAFactIsNamed) {
    Facts facts = a100();
    facts.nic_gbps.reset();
    facts.nic_gbps_of["NIC1"] = 100;
    auto const made =
        read_text("     GPU0 NIC0 NIC1\nGPU0 X PIX PIX\nNIC0 PIX X PIX\nNIC1 PIX PIX X\n", facts);
    EXPECT_EQ(gbps(made, "nic NIC0", "network"), 1.25);
    EXPECT_EQ(gbps(made, "nic NIC1", "network"), 12.5);
    EXPECT_TRUE(warns_of(made, "10 Gb/s assumed for NIC0"));
    EXPECT_FALSE(warns_of(made, "assumed for NIC0, NIC1"));
}

TEST(NvidiaSmi, ACpuThatNothingIsAtIsNone) {
    // What is behind one switch is at one CPU, whatever the columns say.
    auto const made = read_text(
        "     GPU0 GPU1 GPU2 CPU Affinity\n"
        "GPU0 X    PIX  SYS  0-7\n"
        "GPU1 PIX  X    SYS  8-15\n"
        "GPU2 SYS  SYS  X    16-23\n",
        a100());
    EXPECT_EQ(count_of(made, VertexKind::Cpu), 2u);
    EXPECT_EQ(gbps(made, "gpu2", "cpu1"), 24);
}

TEST(NvidiaSmi, WithoutFactsItWarns) {
    auto const made = read_text("     GPU0 GPU1\nGPU0 X NV2\nGPU1 NV2 X\n");
    EXPECT_EQ(gbps(made, "gpu0", "gpu1"), 40);
    EXPECT_EQ(gbps(made, "gpu0", "cpu0"), 12);
    EXPECT_TRUE(warns_of(made, "no fact sm"));
    EXPECT_TRUE(warns_of(made, "no fact pcie_gen"));
    EXPECT_TRUE(warns_of(read_text("GPU0\nGPU0 X\n", a100()), "x16 assumed everywhere"));
}

TEST(NvidiaSmi, RefusesWithLineAndWhatWasExpected) {
    EXPECT_EQ(refusal("GPU0 GPU1\nGPU0 X OK\nGPU1 OK X\n"),
              "file:2: GPU0 to GPU1 is \"OK\"; expected X, PIX, PXB, PHB, NODE, SYS or NV and a "
              "number");
    EXPECT_EQ(refusal("GPU0 X NV1\nGPU1 NV1 X\n"),
              "file:1: a row without a header above it; expected a line with the devices' names");
    EXPECT_EQ(refusal("GPU0 GPU1\nGPU0 X NV1\n"), "file:2: the table ends before the row of GPU1");
    EXPECT_EQ(refusal("GPU0 GPU1\nGPU0 X\nGPU1 NV1 X\n"),
              "file:2: the row has no cell for GPU0 to GPU1");
    EXPECT_EQ(refusal("GPU0 GPU1\nGPU1 NV1 X\nGPU0 X NV1\n"),
              "file:2: a row of \"GPU1\"; expected that of GPU0");
    EXPECT_EQ(
        refusal("GPU0 GPU1\nGPU0 NV1 X\nGPU1 X NV1\n"),
        "file:2: GPU0 to GPU0 is \"NV1\"; expected X there and only there where a device meets "
        "itself");
    EXPECT_EQ(refusal("GPU0 GPU1\nGPU0 X NV1\nGPU1 NV2 X\n"),
              "file: GPU1 to GPU0 and back differ; expected the same both ways");
    EXPECT_EQ(refusal("GPU0 GPU0\nGPU0 X NV1\nGPU0 NV1 X\n"), "file:1: \"GPU0\" is there twice");
    EXPECT_NE(refusal("hello\n").find("no line starts with GPU0"), std::string::npos);
    EXPECT_NE(refusal("GPU0 GPU1\nGPU0 X NV0\nGPU1 NV0 X\n").find("\"NV0\""), std::string::npos);
}

}  // namespace
}  // namespace mgi::topology
