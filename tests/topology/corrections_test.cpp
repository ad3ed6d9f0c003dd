#include <gtest/gtest.h>

#include <string>

#include "topology/cluster.hpp"
#include "topology/presets.hpp"
#include "topology/readers/corrections.hpp"
#include "topology/text_topology.hpp"

namespace mgi::topology {
namespace {

using test::count_of;
using test::find_vertex;
using test::gbps;

Infrastructure corrected(std::string const& text, char const* name = "pcie-nvlink") {
    return correct(preset(name), read_corrections(Source("file", text)));
}

std::string refused_correction(std::string const& text) {
    try {
        corrected(text);
    } catch (Error const& error) {
        EXPECT_EQ(error.code(), ErrorCode::InvalidArgument);
        return error.what();
    }
    return {};
}

TEST(Corrections, OfNothingChangeNothing) {
    auto const before = preset("pcie-nvlink");
    auto const after = corrected("{}");
    EXPECT_EQ(after.graph.vertices.size(), before.graph.vertices.size());
    EXPECT_EQ(after.graph.edges.size(), before.graph.edges.size());
    EXPECT_EQ(after.servers, 1u);
}

TEST(Corrections, RemoveAddAndLinkInThisOrder) {
    auto const made = corrected(R"({
        "remove": ["0000:04:00.0", "nic 0000:05:00.0"],
        "add": [{"name": "pci 0", "kind": "switch", "parent": "cpu0", "gbps": 48},
                {"name": "mlx5_0", "kind": "nic", "parent": "pci 0", "gbps": 24,
                 "network_gbps": 200, "nic_direct": true},
                {"name": "0000:04:00.0", "kind": "gpu", "parent": "pci 0", "gbps": 24}],
        "links": [{"from": "0000:04:00.0", "to": "0000:01:00.0", "gbps": 7, "one_way": true},
                  {"from": "0000:01:00.0", "to": "0000:02:00.0", "gbps": 1},
                  {"from": "0000:02:00.0", "to": "0000:03:00.0", "gbps": 0}]})");
    EXPECT_EQ(gbps(made, "0000:04:00.0", "pci 0"), 24);
    EXPECT_EQ(gbps(made, "pci 0", "cpu0"), 48);
    EXPECT_EQ(gbps(made, "mlx5_0", "network"), 25);
    EXPECT_EQ(gbps(made, "0000:04:00.0", "0000:01:00.0"), 7);
    EXPECT_EQ(gbps(made, "0000:01:00.0", "0000:04:00.0"), 0);
    EXPECT_EQ(gbps(made, "0000:02:00.0", "0000:01:00.0"), 1);
    EXPECT_EQ(gbps(made, "0000:02:00.0", "0000:03:00.0"), 0);
    EXPECT_EQ(gbps(made, "nic 0000:05:00.0", "network"), -1) << "removed";
    EXPECT_TRUE(made.sites[*find_vertex(made, "mlx5_0")].nic_direct);
    for (Vertex const& vertex : made.graph.vertices) {
        EXPECT_EQ(vertex.id, *find_vertex(made, vertex.name));
        EXPECT_TRUE(made.sites[vertex.id].parent == kNoVertex ||
                    made.sites[vertex.id].parent < made.sites.size());
    }
}

TEST(Corrections, OnlyDeclaredGpusTakePart) {
    auto const made = corrected(R"({"gpus": ["0000:03:00.0", "0000:01:00.0"]})");
    EXPECT_EQ(count_of(made, VertexKind::Gpu), 2u);
    EXPECT_EQ(gbps(made, "0000:01:00.0", "0000:03:00.0"), 80);
    EXPECT_EQ(count_of(corrected(R"({"gpus": []})"), VertexKind::Gpu), 0u);
}

TEST(Corrections, FactsAreThoseOfTopologyFiles) {
    auto const read = read_corrections(
        Source("file", R"({"facts": {"sm": 90, "cpu": "amd", "nic_gbps": {"mlx5_0": 400}}})"));
    EXPECT_EQ(read.facts.sm, 90);
    EXPECT_EQ(read.facts.cpu, "amd");
    EXPECT_EQ(read.facts.nic_gbps_of.at("mlx5_0"), 400);
    EXPECT_FALSE(read.facts.nic_gbps);
}

std::string refusal_of_parent(std::string const& name, std::string const& parent) {
    return refused_correction(R"({"add": [{"name": "a", "kind": "switch"},
                      {"name": ")" +
                              name + R"(", "kind": "gpu", "parent": ")" + parent +
                              R"(", "gbps": 1}, {"name": "z", "kind": "switch"}]})");
}

TEST(Corrections, ParentsAreThereAndNamesAreNew) {
    EXPECT_EQ(refusal_of_parent("b", "a"), "");
    EXPECT_EQ(refusal_of_parent("b", "x"),
              "file: add[1].parent is \"x\", and the graph has no such vertex (mgi topo --json - "
              "has all names)");
    EXPECT_EQ(refusal_of_parent("b", "b"), "file: add[1].parent is the new vertex itself");
    EXPECT_EQ(refusal_of_parent("b", "z"),
              "file: add[1].parent is \"z\", which comes later in add; parents come first");
    EXPECT_EQ(refusal_of_parent("b", "network"),
              "file: add[1].parent is \"network\", which all servers share; expected a vertex of "
              "one server (links join others)");
    EXPECT_EQ(refusal_of_parent("a", "cpu0"),
              "file: add[1].name is \"a\", which add[0] has already");
    EXPECT_EQ(refusal_of_parent("cpu0", "a"),
              "file: add[1].name is \"cpu0\", which the graph has itself");
    EXPECT_EQ(refusal_of_parent("nvswitch", "a"),
              "file: add[1].name is \"nvswitch\", which the graph has itself");
    // On another server "a" is "h1/a".
    auto const one = preset("pcie-nvlink");
    auto const two = join_servers({&one, &one});
    auto const correct_two = [&](char const* text) {
        return correct(two, read_corrections(Source("file", text)));
    };
    char const* const far = R"({"add": [{"name": "a", "kind": "switch", "parent": "h1/cpu0",
                                        "gbps": 1}]})";
    EXPECT_TRUE(find_vertex(correct_two(far), "h1/a"));
    char const* const taken = R"({"add": [{"name": "cpu0", "kind": "cpu", "parent": "h1/cpu0",
                                          "gbps": 1}]})";
    EXPECT_THROW(correct_two(taken), Error);
}

TEST(Corrections, AreRefusedByField) {
    EXPECT_NE(refused_correction("{\n\"gpus\": [}").find("file:2: is no JSON"), std::string::npos);
    EXPECT_NE(refused_correction("{} {}").find("file:1: is no JSON"), std::string::npos);
    EXPECT_NE(
        refused_correction("{\"facts\": {\"sm\": 6e4444}}").find("has a number that is too large"),
        std::string::npos);
    EXPECT_EQ(refused_correction("[]"), "file: the whole is no object ({...})");
    EXPECT_EQ(refused_correction(R"({"gpu": []})"),
              "file: the whole has no field \"gpu\"; there are: add, facts, gpus, links, remove");
    EXPECT_EQ(refused_correction(R"({"gpus": [7]})"), "file: gpus[0] is \"7\"; expected text");
    EXPECT_EQ(refused_correction(R"({"gpus": {}})"),
              "file: gpus is \"{}\"; expected a list ([...])");
    EXPECT_EQ(refused_correction(R"({"gpus": ["cpu0"]})"),
              "file: gpus[0] is \"cpu0\", which is no GPU");
    EXPECT_EQ(refused_correction(R"({"remove": ["cpu0", "x"]})"),
              "file: remove[1] is \"x\", and the graph has no such vertex (mgi topo --json - has "
              "all names)");
    EXPECT_EQ(
        refused_correction(R"({"links": [{"from": "cpu0", "to": "0000:01:00.0", "gbps": -1}]})"),
        "file: links[0].gbps is \"-1\"; expected a number from 0 to 1000000");
    EXPECT_EQ(refused_correction(R"({"links": [{"from": "cpu0", "to": "cpu0", "gbps": 1}]})"),
              "file: links[0] leads from a vertex to itself");
    EXPECT_EQ(refused_correction(R"({"links": [{"from": "cpu0", "gbps": 1}]})"),
              "file: links[0].to is missing; expected text");
    EXPECT_EQ(refused_correction(R"({"links": [{"from": "cpu0", "to": "0000:01:00.0"}]})"),
              "file: links[0].gbps is missing; expected gigabytes a second, 0 for no link");
    EXPECT_EQ(refused_correction(R"({"add": [{"name": "a", "kind": "tpu"}]})"),
              "file: add[0].kind is \"tpu\"; expected cpu, gpu, nic or switch");
    EXPECT_EQ(refused_correction(R"({"add": [{"name": "cpu0", "kind": "cpu"}]})"),
              "file: add[0].name is \"cpu0\", which the graph has itself");
    EXPECT_EQ(refused_correction(R"({"remove": ["cpu0", "cpu0"]})"),
              "file: remove[1] is \"cpu0\", which stands in that list already");
    EXPECT_EQ(refused_correction(R"({"gpus": ["0000:01:00.0", "0000:01:00.0"]})"),
              "file: gpus[1] is \"0000:01:00.0\", which stands in that list already");
    EXPECT_EQ(refused_correction(R"({"links": [{"from": "cpu0", "to": "0000:01:00.0", "gbps": 1},
                                    {"from": "cpu0", "to": "0000:01:00.0", "gbps": 2}]})"),
              "file: links[1] is from \"cpu0\" to \"0000:01:00.0\", as an earlier one of links");
    EXPECT_EQ(refused_correction(R"({"add": [], "gpus": [], "add": []})"),
              "file: has the field \"add\" twice in one object");
    EXPECT_EQ(refused_correction(R"({"add": [{"name": "a", "kind": "gpu", "gbps": 1}]})"),
              "file: add[0] has one of parent and gbps; expected both or none");
    EXPECT_EQ(refused_correction(R"({"add": [{"name": "a", "kind": "gpu", "nic_direct": true}]})"),
              "file: add[0] has network_gbps or nic_direct and is no nic");
    EXPECT_EQ(refused_correction(R"({"facts": {"sm": 1.5}})"),
              "file: facts.sm is \"1.5\"; expected a whole number");
    EXPECT_EQ(refused_correction(R"({"facts": {"pcie_gen": 9}})"),
              "file: facts: pcie_gen is 9; expected 1 to 6");
    EXPECT_NE(refused_correction(std::string(100'000, '[')).find("nested"), std::string::npos);
    EXPECT_NE(refused_correction("\xff").find("file:1: a byte that is no UTF-8"),
              std::string::npos);
}

}  // namespace
}  // namespace mgi::topology
