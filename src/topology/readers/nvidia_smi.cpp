// The matrix that `nvidia-smi topo -m` prints: how each GPU and NIC reaches each other one. It has no
// rates; those are the facts' (GPU model, PCIe generation, NIC rates), or defaults with a warning.
#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "topology/nic_models.hpp"
#include "topology/rates.hpp"
#include "topology/readers/formats.hpp"
#include "topology/readers/smi_groups.hpp"
#include "topology/readers/smi_matrix.hpp"

namespace mgi::topology {
namespace {

/// One table, as a server of the graph.
class SmiReader {
public:
    SmiReader(SmiMatrix const& matrix, Facts const& facts, std::uint32_t server,
              GraphBuilder& graph)
        : facts_(facts), matrix_(matrix), server_(server), graph_(graph) {}

    void read() {
        warn_of_guesses();
        pcie_ =
            *pcie_gbps(facts_.pcie_gen ? *pcie_transfers(*facts_.pcie_gen) : kDefaultTransfers, 16);
        SmiGroups const groups = group_devices(matrix_);
        if (!groups.guessed.empty()) {
            graph_.warn("at which CPU they are is assumed, since the table does not tell: " +
                        labels_of(groups.guessed));
        }
        std::vector<std::pair<std::uint32_t, double>> cpus;
        for (std::size_t cpu = 0; cpu < groups.cpus; ++cpu) {
            cpus.emplace_back(graph_.add(VertexKind::Cpu, "cpu" + std::to_string(cpu), server_,
                                         facts_.cpu.value_or("")),
                              facts_.cpu ? *cpu_gbps_named(*facts_.cpu) : kDefaultCpuGbps);
        }
        if (cpus.size() > 1 && !facts_.cpu) {
            graph_.warn("no fact cpu: 10 GB/s between CPUs assumed");
        }
        graph_.mesh_cpus(cpus);
        for (std::size_t i = 0; i < matrix_.devices.size(); ++i) {
            std::uint32_t const cpu = cpus[groups.cpu_of[i]].first;
            add_device(i, parent_of(groups, i, cpu));
        }
        connect_gpus();
    }

private:
    void warn_of_guesses() {
        graph_.warn(facts_.pcie_gen ? "the matrix has no widths of links: x16 assumed everywhere"
                                    : "no fact pcie_gen: PCIe Gen3 x16 assumed everywhere");
        if (!facts_.sm && has_nvlinks()) {
            graph_.warn("no fact sm: 20 GB/s assumed for each NVLink");
        }
        std::vector<std::size_t> untold;
        for (std::size_t i = 0; i < matrix_.devices.size(); ++i) {
            if (!matrix_.devices[i].is_gpu && !told_mbps(i)) untold.push_back(i);
        }
        if (!untold.empty()) {
            graph_.warn("no fact nic_gbps: 10 Gb/s assumed for " + labels_of(untold));
        }
        if (has_nvlinks()) {
            graph_.warn(
                "of GPUs joined by NVLinks the matrix hides how PCIe joins them; taken from what "
                "they share with NICs and other GPUs, and from the affinity columns");
        }
    }

    [[nodiscard]] std::string labels_of(std::vector<std::size_t> const& devices) const {
        std::string text;
        for (std::size_t const i : devices) {
            text += (text.empty() ? "" : ", ") + matrix_.devices[i].label;
        }
        return text;
    }

    [[nodiscard]] std::optional<double> told_mbps(std::size_t nic) const {
        return nic_mbps_of(facts_, {matrix_.devices[nic].name, matrix_.devices[nic].label});
    }

    [[nodiscard]] bool has_nvlinks() const {
        return std::any_of(matrix_.cells.begin(), matrix_.cells.end(),
                           [](SmiCell const& cell) { return cell.nvlinks > 0; });
    }

    /// The switch that a device is behind, made with its first device.
    std::uint32_t parent_of(SmiGroups const& groups, std::size_t device, std::uint32_t cpu) {
        std::uint32_t parent = cpu;
        if (groups.outer_of[device] != kNoGroup) {
            parent = switch_of(outer_, groups.outer_of[device], "pxb ", device, parent);
        }
        if (groups.inner_of[device] != kNoGroup) {
            parent = switch_of(inner_, groups.inner_of[device], "pix ", device, parent);
        }
        return parent;
    }

    std::uint32_t switch_of(std::map<std::size_t, std::uint32_t>& made, std::size_t group,
                            char const* what, std::size_t device, std::uint32_t parent) {
        auto const [at, is_new] = made.try_emplace(group, kNoVertex);
        if (is_new) {
            at->second =
                graph_.add(VertexKind::Switch, what + matrix_.devices[device].name, server_);
            graph_.hang(at->second, parent, pcie_, "pcie");
        }
        return at->second;
    }

    void add_device(std::size_t i, std::uint32_t parent) {
        SmiDevice const& device = matrix_.devices[i];
        if (device.is_gpu) {
            std::string const note = facts_.sm ? "sm " + std::to_string(*facts_.sm) : "";
            vertices_.push_back(graph_.add(VertexKind::Gpu, device.name, server_, note));
        } else {
            vertices_.push_back(graph_.add(VertexKind::Nic, "nic " + device.name, server_));
            graph_.connect_network(vertices_.back(), told_mbps(i).value_or(kDefaultNicMbps));
            graph_.set_nic_direct(vertices_.back(), true);  // the table has none but RDMA devices
        }
        graph_.hang(vertices_.back(), parent, pcie_, "pcie");
    }

    void connect_gpus() {
        double const gbps = nvlink_gbps(facts_.sm);
        std::size_t const devices = matrix_.devices.size();
        for (std::size_t i = 0; i < devices; ++i) {
            std::int64_t all = 0;
            std::int64_t most = 0;
            for (std::size_t j = 0; j < devices; ++j) {
                all += matrix_.at(i, j).nvlinks;
                most = std::max(most, matrix_.at(i, j).nvlinks);
            }
            // A switch shows as all of a GPU's links to each other GPU, more than it can have.
            if (facts_.nvs_links && most > 0) {
                connect_switch(i, double(*facts_.nvs_links) * gbps);
            } else if (all > nvlinks_of(facts_.sm)) {
                connect_switch(i, double(most) * gbps);
            } else {
                connect_directly(i, gbps);
            }
        }
    }

    void connect_switch(std::size_t i, double gbps) {
        graph_.connect_both(vertices_[i], graph_.nvswitch(server_), gbps, "nvlink");
    }

    void connect_directly(std::size_t i, double gbps) {
        for (std::size_t j = 0; j < matrix_.devices.size(); ++j) {
            std::int64_t const links = matrix_.at(i, j).nvlinks;
            if (links > 0) {
                graph_.connect(vertices_[i], vertices_[j], double(links) * gbps, "nvlink");
            }
        }
    }

    Facts const& facts_;
    SmiMatrix const& matrix_;
    std::uint32_t server_;
    GraphBuilder& graph_;
    double pcie_ = 0;
    std::vector<std::uint32_t> vertices_;  ///< of the matrix's devices
    std::map<std::size_t, std::uint32_t> inner_;
    std::map<std::size_t, std::uint32_t> outer_;
};

}  // namespace

Infrastructure read_nvidia_smi(Source const& source, Facts const& facts) {
    auto const matrices = read_smi_matrices(source);
    GraphBuilder graph;
    if (matrices.size() > 1) {
        graph.warn(std::to_string(matrices.size()) + " tables (the second in line " +
                   std::to_string(matrices[1].line) + "), each taken for another server");
    }
    for (std::size_t i = 0; i < matrices.size(); ++i) {
        SmiReader(matrices[i], facts, std::uint32_t(i), graph).read();
    }
    return std::move(graph).finish(std::uint32_t(matrices.size()));
}

}  // namespace mgi::topology
