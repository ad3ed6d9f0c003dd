#include "perf/plan_cluster.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include <mgi/error.hpp>

#include "planner/channel_plan.hpp"

namespace mgi::perf {

topology::Infrastructure dgx_server(std::uint32_t gpus, std::uint32_t variant) {
    if (gpus == 0 || gpus > 1024) {
        throw Error(ErrorCode::InvalidArgument,
                    "a server of " + std::to_string(gpus) + " GPUs; expected 1 to 1024");
    }
    constexpr std::uint32_t kSwitches = 4;
    double const less = 1 - 1e-6 * double(variant);  // a variant's links are a little slower
    topology::GraphBuilder graph;
    std::vector<std::pair<std::uint32_t, double>> cpus;
    for (std::uint32_t c = 0; c < 2; ++c) {
        cpus.emplace_back(graph.add(VertexKind::Cpu, "cpu" + std::to_string(c), 0), 40 * less);
    }
    graph.mesh_cpus(cpus);
    std::vector<std::uint32_t> switches;
    for (std::uint32_t s = 0; s < kSwitches; ++s) {
        switches.push_back(graph.add(VertexKind::Switch, "pcie" + std::to_string(s), 0));
        graph.hang(switches[s], cpus[s / 2].first, 48 * less, "pcie");
    }
    std::uint32_t const per_switch = (gpus + kSwitches - 1) / kSwitches;
    for (std::uint32_t g = 0; g < gpus; ++g) {
        std::uint32_t const gpu = graph.add(VertexKind::Gpu, "gpu" + std::to_string(g), 0);
        graph.hang(gpu, switches[g / per_switch], 48 * less, "pcie");
        graph.connect_both(gpu, graph.nvswitch(0), 370.8 * less, "nvlink");
    }
    for (std::uint32_t n = 0; n < gpus; ++n) {
        std::uint32_t const nic = graph.add(VertexKind::Nic, "nic" + std::to_string(n), 0);
        graph.hang(nic, switches[n / per_switch], 48 * less, "pcie");
        graph.connect_network(nic, 400'000 * less);
        graph.set_nic_direct(nic, true);
    }
    return std::move(graph).finish(1);
}

planner::Cluster dgx_cluster(std::uint64_t gpus, std::uint32_t per_server, std::uint64_t shapes) {
    if (gpus == 0 || gpus > planner::kMostEndpoints) {
        throw Error(ErrorCode::InvalidArgument, std::to_string(gpus) + " GPUs; expected 1 to " +
                                                    std::to_string(planner::kMostEndpoints));
    }
    if (per_server == 0) {
        throw Error(ErrorCode::InvalidArgument, "servers of 0 GPUs; expected 1 to 1024");
    }
    std::uint64_t const servers = (gpus + per_server - 1) / per_server;
    std::uint64_t const variants = shapes == 0 ? servers : std::min(shapes, servers);
    planner::Cluster cluster;
    std::vector<topology::Infrastructure> models;
    for (std::uint64_t v = 0; v < variants; ++v) {
        models.push_back(dgx_server(per_server, std::uint32_t(v)));
    }
    for (std::uint64_t s = 0; s < servers; ++s) {
        cluster.add_server(models[s % variants], "node" + std::to_string(s));
    }
    return cluster;
}

std::vector<planner::Place> gpu_places(planner::Cluster const& cluster, std::uint64_t gpus) {
    std::vector<planner::Place> places;
    places.reserve(gpus);
    for (planner::ServerId const server : cluster.servers()) {
        auto const& vertices = cluster.shape(server)->vertices();
        for (std::uint32_t v = 0; v < vertices.size() && places.size() < gpus; ++v) {
            if (vertices[v].kind == VertexKind::Gpu) places.push_back({server, v});
        }
    }
    return places;
}

}  // namespace mgi::perf
