#include "topology/facts.hpp"

#include <cmath>

#include <mgi/error.hpp>

#include "topology/rates.hpp"

namespace mgi::topology {
namespace {

[[noreturn]] void fail(std::string const& what) {
    throw Error(ErrorCode::InvalidArgument, "facts: " + what);
}

void check_range(char const* name, std::optional<std::int64_t> value, std::int64_t most) {
    if (value && (*value < 1 || *value > most)) {
        fail(std::string(name) + " is " + std::to_string(*value) + "; expected 1 to " +
             std::to_string(most));
    }
}

void check_rate(std::string const& name, double gbps) {
    constexpr double kMost = 100'000;
    if (!(gbps > 0 && gbps <= kMost)) {
        fail(name + " is " + std::to_string(gbps) + "; expected gigabits a second, more than 0");
    }
}

}  // namespace

void check_facts(Facts const& facts) {
    check_range("sm", facts.sm, 999);
    check_range("nvs_links", facts.nvs_links, 1000);
    check_range("pcie_gen", facts.pcie_gen, 6);
    if (facts.nic_gbps) check_rate("nic_gbps", *facts.nic_gbps);
    for (auto const& [name, gbps] : facts.nic_gbps_of) check_rate("nic_gbps of " + name, gbps);
    if (facts.cpu && !cpu_gbps_named(*facts.cpu)) {
        fail("there is no cpu '" + *facts.cpu + "'; there are: " + cpu_names());
    }
}

std::optional<double> nic_mbps_of(Facts const& facts,
                                  std::initializer_list<std::string> const& names) {
    for (std::string const& name : names) {
        auto const at = facts.nic_gbps_of.find(name);
        if (at != facts.nic_gbps_of.end()) return at->second * 1000;
    }
    if (facts.nic_gbps) return *facts.nic_gbps * 1000;
    return std::nullopt;
}

double cpu_gbps_of(Facts const& facts, std::optional<double> known, std::string const& cpu,
                   GraphBuilder& graph) {
    if (known) return *known;
    if (facts.cpu) return *cpu_gbps_named(*facts.cpu);
    graph.warn(cpu + ": the CPU's model is not known; 10 GB/s to other CPUs assumed (fact: cpu)");
    return kDefaultCpuGbps;
}

void add_switch_links(Facts const& facts, bool file_has_links, GraphBuilder& graph) {
    if (!facts.nvs_links) return;
    if (file_has_links) {
        graph.warn("the fact nvs_links is not used: the file has links between GPUs itself");
        return;
    }
    if (!facts.sm) {
        graph.warn("nvs_links without sm: 20 GB/s assumed for each NVLink (fact: sm)");
    }
    double const gbps = double(*facts.nvs_links) * nvlink_gbps(facts.sm);
    for (std::size_t id = 0, count = graph.made().sites.size(); id < count; ++id) {
        if (graph.made().graph.vertices[id].kind != VertexKind::Gpu) continue;
        auto const gpu = std::uint32_t(id);
        graph.connect_both(gpu, graph.nvswitch(graph.made().sites[id].server), gbps, "nvlink");
    }
}

}  // namespace mgi::topology
