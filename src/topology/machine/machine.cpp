#include "topology/machine/machine.hpp"

#include <algorithm>
#include <cstdio>
#include <map>
#include <utility>
#include <vector>

#include "topology/bus_id.hpp"
#include "topology/machine/nics.hpp"
#include "topology/nic_models.hpp"
#include "topology/rates.hpp"
#include "topology/readers/guesses.hpp"
#include "topology/readers/read.hpp"
#include "topology/sysfs.hpp"

namespace mgi::topology {
namespace {

class Machine {
public:
    Machine(MachineSources const& sources, Facts const& facts)
        : sources_(sources), facts_(facts), nics_(read_nics(sources.sys)), graph_(base()) {
        for (Vertex const& vertex : graph_.made().graph.vertices) {
            if (vertex.kind == VertexKind::Cpu) cpus_.push_back(vertex.id);
        }
    }

    Infrastructure discover() {
        add_nics();
        add_gpus();
        guesses_.warn(graph_);
        return std::move(graph_).finish(1);
    }

private:
    /// What hwloc has, with the rates of NICs that Linux knows; or just the NUMA nodes.
    Infrastructure base() {
        if (sources_.hwloc.problem.empty()) {
            Facts known = facts_;
            for (auto const& [id, nic] : nics_) {
                if (nic.mbps > 0 && !nic_mbps_of(facts_, {id})) {
                    known.nic_gbps_of.emplace(id, nic.mbps / 1000);
                }
            }
            return read_topology(Source("hwloc", sources_.hwloc.xml), known).infrastructure;
        }
        GraphBuilder graph;
        graph.warn(sources_.hwloc.problem +
                   ": CPUs are NUMA nodes, and PCI switches are not known");
        auto nodes = read_numa_nodes(sources_.sys / "devices/system/node");
        std::erase_if(nodes, [](NumaNode const& node) { return node.cores.empty(); });
        if (nodes.empty()) nodes.resize(1);
        std::vector<std::pair<std::uint32_t, double>> cpus;
        for (NumaNode const& node : nodes) {
            std::string const name = "cpu" + std::to_string(node.number);
            std::uint32_t const cpu = graph.add(VertexKind::Cpu, name, 0);
            double const gbps = facts_.cpu ? *cpu_gbps_named(*facts_.cpu) : kDefaultCpuGbps;
            cpus.emplace_back(cpu, gbps);
        }
        if (cpus.size() > 1 && !facts_.cpu) graph.warn("no fact cpu: 10 GB/s between CPUs assumed");
        graph.mesh_cpus(cpus);
        return std::move(graph).finish(1);
    }

    /// A device that hwloc does not have, straight below its NUMA node's CPU; `gbps` is its link's, 0
    /// where that is not known.
    std::uint32_t add_missing(VertexKind kind, std::string const& name, std::string const& id,
                              std::string note, double gbps = 0) {
        int const node = numa_node_of(sources_.sys, id);
        auto const at = graph_.find("cpu" + std::to_string(node));
        if (!at && cpus_.size() > 1) {
            graph_.warn(name + ": the machine does not say at which CPU it is; the first assumed");
        }
        std::uint32_t const cpu = at.value_or(cpus_.front());
        std::uint32_t const made = graph_.add(kind, name, 0, std::move(note));
        graph_.hang(made, cpu, gbps > 0 ? gbps : kDefaultDeviceGbps, "pcie");
        if (gbps <= 0) {
            guesses_.add(name, "the rate of its PCIe link is not known; 15.75 GB/s assumed");
        }
        return made;
    }

    void add_nics() {
        for (auto const& [id, nic] : nics_) {
            auto vertex = find_nic(id);
            if (!vertex && sources_.hwloc.problem.empty()) continue;  // hwloc has its reasons
            if (!vertex) {
                vertex = add_missing(VertexKind::Nic, "nic " + id, id, nic.names);
                double mbps = nic_mbps_of(facts_, {id}).value_or(nic.mbps);
                if (mbps <= 0) {
                    mbps = kDefaultNicMbps;
                    graph_.warn("NIC " + id + " (" + nic.names +
                                "): nobody knows its rate; 10 Gb/s assumed (fact: nic_gbps)");
                }
                graph_.connect_network(*vertex, mbps);
            }
            if (nic.rdma) graph_.set_nic_direct(*vertex, true);
            std::string const& known = graph_.made().sites[*vertex].note;
            if (known != nic.names) {
                graph_.set_note(*vertex, nic.names + (known.empty() ? "" : ", " + known));
            }
        }
    }

    /// A NIC's vertex has the bus id of its first function.
    std::optional<std::uint32_t> find_nic(std::string const& id) {
        for (Vertex const& vertex : graph_.made().graph.vertices) {
            if (vertex.kind != VertexKind::Nic || !vertex.name.starts_with("nic ")) continue;
            if (device_of(std::string_view(vertex.name).substr(4)) == device_of(id)) {
                return vertex.id;
            }
        }
        return std::nullopt;
    }

    void add_gpus() {
        bool const has_links = has_gpu_links();
        if (!sources_.nvml) {
            for (Gpu const& gpu : sources_.gpus) {
                NvmlGpu known;
                known.bus_id = gpu.bus_id;
                known.name = gpu.model;
                known.sm = gpu.sm;
                known.pcie_gbps = gpu.pcie_gbps;
                add_gpu(known);
            }
            if (!has_links && has_gpus()) {
                graph_.warn("no NVML on this machine: whether links join its GPUs is not known");
            }
            return;
        }
        NvmlReport const report = ask_nvml(*sources_.nvml);
        for (std::string const& problem : report.problems) graph_.warn(problem);
        std::map<std::string, std::uint32_t> vertices;
        for (NvmlGpu const& gpu : report.gpus) vertices[gpu.bus_id] = add_gpu(gpu);
        // hwloc with its NVML plugin has them already.
        if (has_links) return;
        for (NvmlGpu const& gpu : report.gpus) connect(gpu, vertices);
        warn_of_lost_links(report.gpus);
    }

    [[nodiscard]] bool has_gpus() const {
        auto const& vertices = graph_.made().graph.vertices;
        return std::any_of(vertices.begin(), vertices.end(),
                           [](Vertex const& vertex) { return vertex.kind == VertexKind::Gpu; });
    }

    [[nodiscard]] bool has_gpu_links() const {
        auto const& edges = graph_.made().graph.edges;
        return std::any_of(edges.begin(), edges.end(), [](Edge const& edge) {
            return edge.kind == "nvlink" || edge.kind == "xgmi";
        });
    }

    std::uint32_t add_gpu(NvmlGpu const& gpu) {
        std::string note = gpu.name;
        if (gpu.sm) note += ", sm " + std::to_string(*gpu.sm);
        auto found = graph_.find(gpu.bus_id);
        if (!found) {
            found = add_missing(VertexKind::Gpu, gpu.bus_id, gpu.bus_id, note, gpu.pcie_gbps);
        }
        graph_.set_note(*found, note);
        widen(*found, gpu.pcie_gbps);
        return *found;
    }

    /// An idle GPU slows its link down, and NVML knows what the link can do. A port that has the GPU
    /// alone below it is the link's other end, and says the same.
    void widen(std::uint32_t gpu, double gbps) {
        std::uint32_t child = gpu;
        for (int ends = 0; ends < 2; ++ends) {
            std::uint32_t const parent = graph_.made().sites[child].parent;
            if (parent == kNoVertex) return;
            if (graph_.gbps(child, parent) < gbps) {
                graph_.set_gbps(child, parent, gbps, "pcie");
                graph_.set_gbps(parent, child, gbps, "pcie");
            }
            if (children_of(parent) > 1) return;
            child = parent;
        }
    }

    [[nodiscard]] std::size_t children_of(std::uint32_t vertex) const {
        auto const& sites = graph_.made().sites;
        return std::size_t(std::count_if(sites.begin(), sites.end(),
                                         [&](Site const& site) { return site.parent == vertex; }));
    }

    void connect(NvmlGpu const& gpu, std::map<std::string, std::uint32_t> const& vertices) {
        std::uint32_t const from = vertices.at(gpu.bus_id);
        auto const sm = gpu.sm ? gpu.sm : facts_.sm;
        if (!sm && (!gpu.to_gpus.empty() || gpu.to_switch + gpu.to_cpu > 0)) {
            guesses_.add("GPU " + gpu.bus_id,
                         "its compute capability is not known; 20 GB/s assumed for each NVLink "
                         "(fact: sm)");
        }
        double const one = nvlink_gbps(sm);
        for (auto const& [peer, links] : gpu.to_gpus) {
            if (vertices.at(peer) != from)
                graph_.connect(from, vertices.at(peer), links * one, "nvlink");
        }
        if (gpu.to_switch > 0) {
            std::uint32_t const nvswitch =
                gpu.domain.empty()
                    ? graph_.nvswitch(0)
                    : graph_.shared(VertexKind::Switch, "nvlink domain " + gpu.domain);
            graph_.connect_both(from, nvswitch, gpu.to_switch * one, "nvlink");
        }
        std::uint32_t cpu = from;
        while (cpu != kNoVertex && !is_cpu(cpu)) cpu = graph_.made().sites[cpu].parent;
        if (gpu.to_cpu > 0 && cpu != kNoVertex) {
            graph_.connect_both(from, cpu, gpu.to_cpu * one, "nvlink");
        }
    }

    [[nodiscard]] bool is_cpu(std::uint32_t vertex) const {
        return graph_.made().graph.vertices[vertex].kind == VertexKind::Cpu;
    }

    void warn_of_lost_links(std::vector<NvmlGpu> const& gpus) {
        for (NvmlGpu const& gpu : gpus) {
            auto const warn = [&](std::uint32_t links, std::string const& what) {
                if (links == 0) return;
                graph_.warn("GPU " + gpu.bus_id + ": " + std::to_string(links) +
                            " of its NVLinks " + what + "; left out");
            };
            warn(gpu.down, "are not up");
            warn(gpu.to_hidden, "lead to GPUs that NVML does not show here");
        }
    }

    MachineSources const& sources_;
    Facts const& facts_;
    std::map<std::string, LinuxNic> const nics_;
    GraphBuilder graph_;
    Guesses guesses_;
    std::vector<std::uint32_t> cpus_;
};

}  // namespace

MachineSources MachineSources::of_this_machine() {
    MachineSources sources{export_hwloc(), Nvml::load(), "/sys"};
    if (!sources.nvml) sources.gpus = discover_gpus().gpus;
    return sources;
}

Infrastructure discover_machine(MachineSources const& sources, Facts const& facts) {
    check_facts(facts);
    return Machine(sources, facts).discover();
}

}  // namespace mgi::topology
