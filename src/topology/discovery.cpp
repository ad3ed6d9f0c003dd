#include "topology/discovery.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <memory>
#include <string>
#include <utility>

#include <mgi/error.hpp>

#include "core/process_limits.hpp"
#include "topology/gpu_graph.hpp"

namespace mgi {

char const* to_string(VertexKind kind) noexcept {
    switch (kind) {
        case VertexKind::Cpu: return "cpu";
        case VertexKind::Gpu: return "gpu";
        case VertexKind::Nic: return "nic";
        case VertexKind::Switch: return "switch";
        case VertexKind::Network: return "network";
    }
    return "unknown";
}

namespace topology {
namespace {

Device cpu_device(std::size_t index, std::vector<int> cores, std::uint64_t memory_bytes, int node) {
    Device device;
    device.index = std::uint32_t(index);
    device.name = "cpu:" + std::to_string(index);
    device.cores = std::move(cores);
    device.memory_bytes = memory_bytes;
    device.numa_node = node;
    return device;
}

int node_of(int core, std::vector<NumaNode> const& nodes) {
    for (NumaNode const& node : nodes) {
        if (std::binary_search(node.cores.begin(), node.cores.end(), core)) return node.number;
    }
    return -1;
}

/// The node that all these cores are on; -1 where they are on several, or that is not known.
int common_node(std::vector<int> const& cores, std::vector<NumaNode> const& nodes) {
    int const first = node_of(cores.front(), nodes);
    bool const same = std::all_of(cores.begin(), cores.end(),
                                  [&](int core) { return node_of(core, nodes) == first; });
    return same ? first : -1;
}

std::vector<Device> one_for_each_node(std::vector<int> const& cores,
                                      std::vector<NumaNode> const& nodes,
                                      std::uint64_t memory_bytes) {
    std::vector<Device> devices;
    for (NumaNode const& node : nodes) {
        std::vector<int> ours;
        std::set_intersection(node.cores.begin(), node.cores.end(), cores.begin(), cores.end(),
                              std::back_inserter(ours));
        if (ours.empty()) continue;
        std::uint64_t const bytes =
            node.memory_bytes != 0 ? std::min(node.memory_bytes, memory_bytes) : memory_bytes;
        devices.push_back(cpu_device(devices.size(), std::move(ours), bytes, node.number));
    }
    return devices;
}

double measure_copy_gbps() {
    using Clock = std::chrono::steady_clock;
    constexpr std::size_t kBytes = std::size_t(4) << 20;
    constexpr auto kTime = std::chrono::milliseconds(3);
    auto const from = std::make_unique<std::byte[]>(kBytes);
    auto const to = std::make_unique<std::byte[]>(kBytes);  // both zeroed, hence mapped
    double best = 0;
    auto const start = Clock::now();
    do {
        auto const before = Clock::now();
        std::memcpy(to.get(), from.get(), kBytes);
        // The copy must not be optimized away: nobody reads it.
        asm volatile("" : : "r"(to.get()) : "memory");
        std::chrono::duration<double> const took = Clock::now() - before;
        if (took.count() > 0) best = std::max(best, double(kBytes) / took.count() / 1e9);
    } while (Clock::now() - start < kTime);
    return best;
}

}  // namespace

std::vector<Device> divide_cores(std::uint32_t wanted, std::vector<int> const& cores,
                                 std::vector<NumaNode> const& nodes, std::uint64_t memory_bytes) {
    if (wanted > kMaxCpuDevices) {
        throw Error(ErrorCode::InvalidArgument, "cpu_devices " + std::to_string(wanted) +
                                                    " is more than " +
                                                    std::to_string(kMaxCpuDevices));
    }
    if (cores.empty()) {
        throw Error(ErrorCode::InvalidArgument, "no core to make CPU devices of");
    }
    if (wanted == 0) {
        auto devices = one_for_each_node(cores, nodes, memory_bytes);
        if (!devices.empty()) return devices;
        wanted = 1;
    }
    std::vector<std::vector<int>> dealt(wanted);
    for (std::size_t i = 0; i < std::max<std::size_t>(cores.size(), wanted); ++i) {
        dealt[i % wanted].push_back(cores[i % cores.size()]);
    }
    std::vector<Device> devices;
    devices.reserve(wanted);
    for (auto& ours : dealt) {
        int const node = common_node(ours, nodes);
        devices.push_back(cpu_device(devices.size(), std::move(ours), memory_bytes / wanted, node));
    }
    return devices;
}

std::vector<Device> discover_cpu_devices(std::uint32_t wanted) {
    return divide_cores(wanted, allowed_cores(), read_numa_nodes(), usable_memory().value);
}

double copy_gbps() {
    static double const measured = measure_copy_gbps();
    return measured;
}

Graph build_graph(std::vector<Device> const& devices, std::vector<Gpu> const& gpus) {
    Graph graph;
    graph.vertices.reserve(devices.size());
    graph.edges.reserve(devices.size() * devices.size());
    for (Device const& device : devices) {
        graph.vertices.push_back({device.index, device.name, device.kind, true});
    }
    double const gbps = copy_gbps();
    for (Device const& from : devices) {
        for (Device const& to : devices) {
            if (from.kind == VertexKind::Gpu || to.kind == VertexKind::Gpu) continue;
            graph.edges.push_back({from.index, to.index, gbps, "memory"});
        }
    }
    connect_gpus(devices, gpus, graph);
    return graph;
}

}  // namespace topology
}  // namespace mgi
