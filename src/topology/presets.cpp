#include "topology/presets.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <utility>

#include <mgi/error.hpp>

#include "topology/cluster.hpp"
#include "topology/rates.hpp"

namespace mgi::topology {
namespace {

/// How a server's GPUs are joined beside PCIe, with `nvlinks` links each time.
enum class Fabric : std::uint8_t {
    None,
    Pairs,   ///< GPUs 0 and 1, 2 and 3, ...
    Mesh,    ///< each to each
    Cube,    ///< kCube
    Switch,  ///< each to the server's NVSwitches
    Domain,  ///< each to the NVSwitches of a domain of `domain_servers` servers
};

struct Link {
    std::uint32_t a, b, count;
};

/// The DGX-1's hybrid cube mesh: two quads, a cube's edges between them, six links a GPU.
constexpr std::array<Link, 16> kCube{{{0, 1, 1},
                                      {0, 2, 1},
                                      {0, 3, 2},
                                      {0, 4, 2},
                                      {1, 2, 2},
                                      {1, 3, 1},
                                      {1, 5, 2},
                                      {2, 3, 2},
                                      {2, 6, 1},
                                      {3, 7, 1},
                                      {4, 5, 1},
                                      {4, 6, 1},
                                      {4, 7, 2},
                                      {5, 6, 2},
                                      {5, 7, 1},
                                      {6, 7, 2}}};

struct Nic {
    double gbps = 100;          ///< gigabits a second
    std::int64_t pcie_gen = 0;  ///< 0: as everything else
    std::int64_t width = 16;
    bool direct = true;  ///< reaches GPU memory
};

struct Design {
    std::string_view name;
    std::string_view about;
    std::uint32_t servers;
    std::string_view cpu;  ///< of cpu_names()
    /// What is below each CPU, a "|" between two of them: g is a GPU, n a NIC, (...) what is below a
    /// PCIe switch.
    std::string_view tree;
    std::int64_t sm;
    std::int64_t pcie_gen;
    Nic nic{};
    Fabric fabric = Fabric::None;
    std::uint32_t nvlinks = 0;
    std::uint32_t cpu_nvlinks = 0;  ///< of each GPU to its CPU
    double c2c_gbps = 0;            ///< the same, NVLink-C2C
    std::uint32_t domain_servers = 1;
};

constexpr std::string_view kDgx1 = "(ggn)(ggn)|(ggn)(ggn)";
constexpr std::string_view kGpuAndNicEach = "(gn)(gn)(gn)(gn)|(gn)(gn)(gn)(gn)";
constexpr std::string_view kPairsPerCpu = "(gg)(gg)n|(gg)(gg)n";

// clang-format off
constexpr std::array kDesigns{
    // Figure 2 of the paper, a to j.
    Design{"pcie-only", "Figure 2a: 4 GPUs, PCIe Gen4 and nothing else", 1,
           "amd", "(gg)(gg)n", 89, 4},
    Design{"pcie-nvlink", "Figure 2b: 4 GPUs on PCIe Gen4, NVLinks from each to each", 1,
           "amd", "ggggn", 80, 4, {.gbps = 200}, Fabric::Mesh, 4},
    Design{"pcie-numa", "Figure 2c: 8 GPUs on PCIe Gen3 at two CPUs", 1,
           "intel_skl", kPairsPerCpu, 86, 3},
    Design{"pcie-nvlink-numa", "Figure 2d: the same, with NVLinks in pairs", 1,
           "intel_skl", kPairsPerCpu, 86, 3, {}, Fabric::Pairs, 4},
    Design{"nvlink-numa", "Figure 2e: 4 GPUs with NVLinks to each other and to their POWER CPU", 1,
           "ppc64", "ggn|ggn", 70, 3, {.pcie_gen = 4, .width = 8}, Fabric::Pairs, 3, 3},
    Design{"hybrid-cube-mesh", "Figure 2f: 8 GPUs, NVLinks as in a DGX-1", 1,
           "intel_bdw", kDgx1, 70, 3, {}, Fabric::Cube},
    Design{"nvswitch", "Figure 2g: 8 GPUs behind NVSwitches", 1,
           "amd", "(gngn)|(gngn)|(gngn)|(gngn)", 80, 4, {.gbps = 200}, Fabric::Switch, 12},
    Design{"multi-ethernet", "Figure 2h: servers of 4 GPUs, joined by 25 Gb/s Ethernet", 2,
           "intel_skl", "(gg)n|(gg)", 89, 4, {.gbps = 25, .pcie_gen = 3, .width = 8, .direct = false}},
    Design{"multi-rdma", "Figure 2i: servers of 4 GPUs, joined by 2 RDMA NICs each", 2,
           "intel_skl", "(ggn)|(ggn)", 89, 4, {.gbps = 200}},
    Design{"multi-nvswitch-rdma", "Figure 2j: servers of 8 GPUs behind NVSwitches, 8 RDMA NICs each", 2,
           "amd", "(gngn)|(gngn)|(gngn)|(gngn)", 80, 4, {.gbps = 200}, Fabric::Switch, 12},
    // Machines that many have.
    Design{"dgx-1", "8 V100, hybrid cube mesh, 4 NICs of 100 Gb/s", 1,
           "intel_bdw", kDgx1, 70, 3, {}, Fabric::Cube},
    Design{"dgx-2", "16 V100 behind NVSwitches, 8 NICs of 100 Gb/s", 1,
           "intel_skl", "((ggn)(ggn))((ggn)(ggn))|((ggn)(ggn))((ggn)(ggn))", 70, 3, {}, Fabric::Switch, 6},
    Design{"dgx-a100", "8 A100 behind NVSwitches, 8 NICs of 200 Gb/s", 1,
           "amd", "(gngn)(gngn)|(gngn)(gngn)", 80, 4, {.gbps = 200}, Fabric::Switch, 12},
    Design{"hgx-h100", "8 H100 behind NVSwitches, 8 NICs of 400 Gb/s", 1,
           "intel_spr", kGpuAndNicEach, 90, 5, {.gbps = 400}, Fabric::Switch, 18},
    Design{"hgx-h200", "8 H200 behind NVSwitches, 8 NICs of 400 Gb/s", 1,
           "intel_emr", kGpuAndNicEach, 90, 5, {.gbps = 400}, Fabric::Switch, 18},
    Design{"gb200-nvl72", "18 trays of 4 GPUs in one NVLink domain, a NIC of 400 Gb/s each", 18,
           "arm64", "gngn|gngn", 100, 5, {.gbps = 400}, Fabric::Domain, 18, 0, 5 * 44.712, 18},
    // Table 5 of the paper.
    Design{"testbed1", "Table 5: 8 A100 behind NVSwitches, no network", 1,
           "amd", "(gg)(gg)|(gg)(gg)", 80, 4, {}, Fabric::Switch, 12},
    Design{"testbed2", "Table 5: 4 H100 with 6 NVLinks from each to each, no network", 1,
           "amd", "gggg", 90, 5, {}, Fabric::Mesh, 6},
    Design{"testbed3", "Table 5: 3 servers of 4 H100 with 6 NVLinks from each to each, 4 NICs", 3,
           "amd", "(gn)(gn)(gn)(gn)", 90, 5, {.gbps = 200}, Fabric::Mesh, 6},
    // Section 6.4 of the paper.
    Design{"topo1", "Section 6.4: 4 H100 with NVLinks from each to each", 1,
           "amd", "gggg", 90, 5, {}, Fabric::Mesh, 6},
    Design{"topo2", "Section 6.4: 3 H100 with NVLinks from each to each", 1,
           "amd", "ggg", 90, 5, {}, Fabric::Mesh, 6},
    Design{"topo3", "Section 6.4: 2 H100 with NVLinks", 1,
           "amd", "gg", 90, 5, {}, Fabric::Mesh, 6},
    Design{"topo4", "Section 6.4: 2 servers of 3 H100 with NVLinks, 4 NICs each", 2,
           "amd", "(gn)(gn)(gn)(n)", 90, 5, {.gbps = 200}, Fabric::Mesh, 6},
    Design{"topo5", "Section 6.4: 2 servers of 2 H100 with NVLinks, 1 NIC each", 2,
           "amd", "(gn)(g)", 90, 5, {.gbps = 200}, Fabric::Mesh, 6},
};
// clang-format on

Design const& design_named(std::string_view name) {
    std::string names;
    for (Design const& design : kDesigns) {
        if (design.name == name) return design;
        names += (names.empty() ? "" : ", ") + std::string(design.name);
    }
    throw Error(ErrorCode::NotFound,
                "there is no preset '" + std::string(name) + "'; there are: " + names);
}

class ServerMaker {
public:
    explicit ServerMaker(Design const& design) : design_(design) {}

    /// `domain` counts NVLink domains from 0.
    Infrastructure make(std::uint32_t domain) {
        add_trees();
        join_gpus(domain);
        return std::move(graph_).finish(1);
    }

private:
    /// Bus ids count up as devices come, as in a machine whose firmware found them in this order.
    std::string next_bus_id() {
        char text[16];
        std::snprintf(text, sizeof(text), "0000:%02x:00.0", ++buses_);
        return text;
    }

    static double pcie(std::int64_t generation, std::int64_t width) {
        return *pcie_gbps(*pcie_transfers(generation), width);
    }

    void add_trees() {
        double const gbps = *cpu_gbps_named(design_.cpu);
        std::vector<std::pair<std::uint32_t, double>> cpus;
        std::vector<std::uint32_t> above;  // the CPU, and the switches around what comes next
        auto const add_cpu = [&] {
            std::string const name = "cpu" + std::to_string(cpus.size());
            above = {graph_.add(VertexKind::Cpu, name, 0, std::string(design_.cpu))};
            cpus.emplace_back(above.front(), gbps);
        };
        add_cpu();
        for (char const c : design_.tree) {
            switch (c) {
                case '|': add_cpu(); break;
                case '(': above.push_back(add_switch(above.back())); break;
                case ')': above.pop_back(); break;
                case 'n': add_nic(above.back()); break;
                default: add_gpu(above.back(), above.front());
            }
        }
        graph_.mesh_cpus(cpus);
    }

    std::uint32_t add_switch(std::uint32_t parent) {
        auto const made = graph_.add(VertexKind::Switch, "pci " + next_bus_id(), 0);
        graph_.hang(made, parent, pcie(design_.pcie_gen, 16), "pcie");
        return made;
    }

    void add_nic(std::uint32_t parent) {
        Nic const& nic = design_.nic;
        char note[32];
        std::snprintf(note, sizeof(note), "%g Gb/s", nic.gbps);
        auto const made = graph_.add(VertexKind::Nic, "nic " + next_bus_id(), 0, note);
        std::int64_t const generation = nic.pcie_gen == 0 ? design_.pcie_gen : nic.pcie_gen;
        graph_.hang(made, parent, pcie(generation, nic.width), "pcie");
        graph_.connect_network(made, nic.gbps * 1000);
        graph_.set_nic_direct(made, nic.direct);
    }

    void add_gpu(std::uint32_t parent, std::uint32_t cpu) {
        std::string const note = "sm " + std::to_string(design_.sm);
        auto const made = graph_.add(VertexKind::Gpu, next_bus_id(), 0, note);
        graph_.hang(made, parent, pcie(design_.pcie_gen, 16), "pcie");
        if (design_.cpu_nvlinks > 0) {
            graph_.connect_both(made, cpu, nvlinks(design_.cpu_nvlinks), "nvlink");
        }
        if (design_.c2c_gbps > 0) graph_.connect_both(made, cpu, design_.c2c_gbps, "c2c");
        gpus_.push_back(made);
    }

    [[nodiscard]] double nvlinks(std::uint32_t count) const {
        return count * nvlink_gbps(design_.sm);
    }

    void join_gpus(std::uint32_t domain) {
        std::uint32_t const links = design_.nvlinks;
        switch (design_.fabric) {
            case Fabric::None: break;
            case Fabric::Pairs:
                for (std::uint32_t i = 0; i + 1 < gpus_.size(); i += 2) join(i, i + 1, links);
                break;
            case Fabric::Mesh:
                for (std::uint32_t i = 0; i < gpus_.size(); ++i) {
                    for (std::uint32_t j = 0; j < i; ++j) join(j, i, links);
                }
                break;
            case Fabric::Cube:
                for (Link const& link : kCube) join(link.a, link.b, link.count);
                break;
            case Fabric::Switch: join_all(graph_.nvswitch(0)); break;
            case Fabric::Domain: join_all(graph_.shared(VertexKind::Switch, domain_name(domain)));
        }
    }

    static std::string domain_name(std::uint32_t domain) {
        return domain == 0 ? "nvlink domain" : "nvlink domain " + std::to_string(domain);
    }

    void join(std::uint32_t a, std::uint32_t b, std::uint32_t links) {
        graph_.connect_both(gpus_[a], gpus_[b], nvlinks(links), "nvlink");
    }

    void join_all(std::uint32_t nvswitch) {
        for (std::uint32_t const gpu : gpus_) {
            graph_.connect_both(gpu, nvswitch, nvlinks(design_.nvlinks), "nvlink");
        }
    }

    Design const& design_;
    GraphBuilder graph_;
    std::vector<std::uint32_t> gpus_;
    unsigned buses_ = 0;
};

}  // namespace

std::vector<PresetInfo> presets() {
    std::vector<PresetInfo> found;
    for (Design const& design : kDesigns) {
        found.push_back({design.name, design.about, design.servers});
    }
    return found;
}

Infrastructure preset_server(std::string_view name) {
    return ServerMaker(design_named(name)).make(0);
}

Infrastructure preset(std::string_view name, std::optional<std::uint32_t> servers) {
    Design const& design = design_named(name);
    std::uint32_t const count = servers.value_or(design.servers);
    std::vector<Infrastructure> domains{ServerMaker(design).make(0)};
    std::size_t const most = kMostVertices / domains.front().sites.size();
    if (count < 1 || count > most) {
        throw Error(ErrorCode::InvalidArgument, std::to_string(count) + " servers of " +
                                                    std::string(name) + "; expected 1 to " +
                                                    std::to_string(most));
    }
    // Servers without a domain that spans them are all alike.
    std::uint32_t const each = design.fabric == Fabric::Domain ? design.domain_servers : count;
    for (std::uint32_t domain = 1; domain * each < count; ++domain) {
        domains.push_back(ServerMaker(design).make(domain));
    }
    std::vector<Infrastructure const*> all;
    for (std::uint32_t i = 0; i < count; ++i) all.push_back(&domains[i / each]);
    return join_servers(all);
}

}  // namespace mgi::topology
