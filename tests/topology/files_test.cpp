// What all readers share: which format a file has, limits, facts, the tree.
#include <gtest/gtest.h>

#include <string>

#include "topology/text_topology.hpp"
#include "topology/tree.hpp"

namespace mgi::topology {
namespace {

using test::read_text;
using test::refusal;

TEST(TopologyFile, ContentSaysTheFormat) {
    auto const format = [](std::string const& text) {
        return read_topology(Source("file", text), {}).format;
    };
    EXPECT_EQ(format("\n<?xml version=\"1.0\"?><!-- x --><system version=\"2\"><cpu/></system>"),
              FileFormat::Nccl);
    EXPECT_EQ(format("\xEF\xBB\xBF<topology><object type=\"Machine\"/></topology>"),
              FileFormat::Hwloc);
    EXPECT_EQ(format("\n\n  GPU0\nGPU0 X\n"), FileFormat::NvidiaSmi);
}

TEST(TopologyFile, WhatIsNoneIsRefused) {
    EXPECT_NE(refusal("").find("is empty"), std::string::npos);
    EXPECT_NE(refusal(" \n\t").find("is empty"), std::string::npos);
    EXPECT_NE(refusal(std::string("a\0b", 3)).find("zero byte"), std::string::npos);
    EXPECT_NE(refusal("<graphs/>").find("NCCL_TOPO_DUMP_FILE"), std::string::npos);
    EXPECT_NE(refusal("<system version=\"1\">\n<cpu>\n</system>").find("file:3: is no well-formed"),
              std::string::npos);
    EXPECT_NE(
        refusal("<topology><object/></topology>\n<topology/>").find("file:2: a second element"),
        std::string::npos);
    EXPECT_NE(refusal("<!-- only -->").find("file"), std::string::npos);
    EXPECT_THROW(Source::of_file("/nowhere/at/all"), Error);
    EXPECT_THROW(Source::of_file("/"), Error);
}

TEST(TopologyFile, LimitsAreErrors) {
    EXPECT_NE(refusal(std::string(kMostFileBytes + 1, 'a')).find("longer than 16 MiB"),
              std::string::npos);
    std::string deep;
    for (int i = 0; i < 100'000; ++i) deep += "<pci busid=\"0000:00:00.0\">";
    EXPECT_NE(refusal("<system version=\"1\"><cpu>" + deep).find("file:1"), std::string::npos);
    for (int i = 0; i < 100'000; ++i) deep += "</pci>";
    EXPECT_NE(refusal("<system version=\"1\"><cpu>" + deep + "</cpu></system>").find("nested"),
              std::string::npos);
    std::string many;
    for (std::size_t i = 0; i <= kMostVertices; ++i) many += "<pci busid=\"0000:00:00.0\"/>";
    EXPECT_NE(refusal("<system version=\"1\"><cpu>" + many + "</cpu></system>").find("vertices"),
              std::string::npos);
    many.clear();
    for (int i = 0; i < 2000; ++i) many += "<cpu/>";
    EXPECT_NE(refusal("<system version=\"1\">" + many + "</system>").find("edges"),
              std::string::npos);
}

TEST(TopologyFile, WhatIsNoUtf8IsRefused) {
    EXPECT_EQ(refusal("GPU0\nGPU0 X\n\xe9\n"),
              "file:3: a byte that is no UTF-8; expected a topology file in UTF-8");
    EXPECT_NE(refusal(std::string("\xff\xfe<\0s\0", 6)).find("is in UTF-16"), std::string::npos);
    // A character in too many bytes, a surrogate, one behind the last, half of one.
    for (char const* text : {"\xc0\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xe2\x82"}) {
        EXPECT_NE(refusal(text).find("no UTF-8"), std::string::npos) << text;
    }
    for (char const* name : {"&#xd800;", "&#1;"}) {
        std::string const text = "<system version=\"1\"><cpu><nic>\n<net name=\"" +
                                 std::string(name) + "\"/></nic></cpu></system>";
        EXPECT_NE(refusal(text).find("file:2: <net>: name is"), std::string::npos) << name;
    }
    EXPECT_EQ(refusal("<system version=\"1\"><cpu vendor=\"\xc3\xa9&#xe9;\"/></system>"), "");
}

TEST(TopologyFile, MarksAndLineEndsOfOtherSystemsChangeNothing) {
    for (std::string const& end : {std::string("\r\n"), std::string("\r")}) {
        auto const smi =
            read_text("\xEF\xBB\xBF" + end + "GPU0 GPU1" + end + "GPU0 X NV2" + end + "GPU1 NV2 X");
        EXPECT_EQ(test::gbps(smi, "gpu0", "gpu1"), 40);
        EXPECT_EQ(refusal("<system version=\"1\">" + end + "<cpu/>" + end + "</system"),
                  refusal("<system version=\"1\">\n<cpu/>\n</system"));
        EXPECT_EQ(refusal("GPU0 GPU1" + end + "GPU0 X NV0"), refusal("GPU0 GPU1\nGPU0 X NV0"));
    }
}

TEST(TopologyFile, FactsThatCannotBeAreRefused) {
    auto const refused = [](Facts const& facts) { return refusal("GPU0\nGPU0 X\n", facts); };
    Facts facts;
    facts.sm = 0;
    EXPECT_EQ(refused(facts), "facts: sm is 0; expected 1 to 999");
    facts = {};
    facts.pcie_gen = 9;
    EXPECT_EQ(refused(facts), "facts: pcie_gen is 9; expected 1 to 6");
    facts = {};
    facts.nic_gbps = -1;
    EXPECT_NE(refused(facts).find("nic_gbps"), std::string::npos);
    facts = {};
    facts.cpu = "pentium";
    EXPECT_NE(refused(facts).find("there is no cpu 'pentium'; there are: amd"), std::string::npos);
}

TEST(TopologyFile, TheTreeShowsWhatHangsWhere) {
    auto const made = read_text(
        "<system version=\"1\"><cpu numaid=\"0\" vendor=\"AuthenticAMD\" arch=\"x86_64\">"
        "<pci busid=\"0000:01:00.0\" class=\"0x060400\">"
        "<pci busid=\"0000:02:00.0\"><gpu sm=\"80\"><nvlink target=\"0000:c0:00.0\" count=\"12\" "
        "tclass=\"0x068000\"/></gpu></pci>"
        "<pci busid=\"0000:03:00.0\"><nic><net "
        "speed=\"200000\"/></nic></pci></pci></cpu></system>");
    EXPECT_EQ(tree_text(made),
              "server 0\n"
              "  cpu0 (AuthenticAMD)\n"
              "    pci 0000:01:00.0  12\n"
              "      gpu 0000:02:00.0 (sm 80)  12  -> nvswitch 240\n"
              "      nic 0000:03:00.0  12  -> network 25\n"
              "  nvswitch\n"
              "network\n");
}

}  // namespace
}  // namespace mgi::topology
