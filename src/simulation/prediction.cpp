#include "simulation/prediction.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <utility>

#include <mgi/error.hpp>

#include "planner/congestion.hpp"
#include "simulation/candidates.hpp"
#include "simulation/fluid.hpp"
#include "simulation/single_paths.hpp"

namespace mgi::simulation {
namespace {

using planner::Commodity;
using topology::Infrastructure;

/// How far a plan's split of the traffic may be from the best one.
constexpr double kTolerance = 1e-3;

/// From so many flows on, those that end within a hundredth of the time end together.
constexpr std::size_t kManyFlows = 4096;
constexpr double kCoarse = 0.01;
/// Less of a demand is rounding.
constexpr double kNothing = 1e-9;

/// Links are the graph's edges, and behind them, for each vertex, the rate at which it partitions.
class Traffic {
public:
    Traffic(Infrastructure const& infrastructure, std::vector<Demand> const& demands,
            Conditions const& conditions)
        : infrastructure_(infrastructure),
          demands_(demands),
          conditions_(conditions),
          edges_(std::uint32_t(infrastructure.graph.edges.size())),
          sent_(infrastructure.graph.vertices.size(), 0) {
        for (Edge const& edge : infrastructure.graph.edges) capacities_.push_back(edge.gbps);
        capacities_.resize(edges_ + sent_.size(), conditions.partition_gbps);
        if (!(conditions.partition_gbps >= 0) || std::isinf(conditions.partition_gbps)) {
            throw Error(ErrorCode::InvalidArgument,
                        "GPUs that partition at " + std::to_string(conditions.partition_gbps) +
                            " GB/s; expected more than 0, or 0 for nothing to partition");
        }
        for (Demand const& demand : demands) {
            check(demand);
            sent_[demand.source] += demand.gigabytes;
        }
    }

    Prediction by_plan() {
        Candidates candidates(infrastructure_, conditions_.rules);
        std::vector<Commodity> commodities;
        std::map<std::uint32_t, std::size_t> out, in;  // of a GPU: its traffic with the network
        std::vector<std::size_t> linked(demands_.size(), SIZE_MAX);
        auto const add = [&](std::map<std::uint32_t, std::size_t>& known, std::uint32_t gpu,
                             bool outward, double gigabytes) {
            auto const [at, is_new] = known.try_emplace(gpu, commodities.size());
            if (is_new)
                commodities.push_back({0, outward ? candidates.out(gpu) : candidates.in(gpu)});
            commodities[at->second].demand += gigabytes;
            return !commodities[at->second].paths.empty();
        };
        for (std::size_t d = 0; d < demands_.size(); ++d) {
            auto const& [source, destination, gigabytes] = demands_[d];
            if (source == destination) continue;
            if (candidates.are_linked(source, destination)) {
                linked[d] = commodities.size();
                commodities.push_back({gigabytes, candidates.between(source, destination)});
                if (commodities.back().paths.empty()) throw no_path(demands_[d]);
                continue;
            }
            // The network has no limit of its own, so that where a source's bytes leave and where
            // they enter are two questions, and its destinations need not be told apart in the first.
            if (!add(out, source, true, gigabytes) || !add(in, destination, false, gigabytes)) {
                throw no_path(demands_[d]);
            }
        }
        auto const split =
            planner::least_congestion(commodities, capacities_, kTolerance, partition_load());
        for (std::size_t d = 0; d < demands_.size(); ++d) {
            auto const& [source, destination, gigabytes] = demands_[d];
            if (gigabytes == 0) continue;
            if (source == destination) {
                add_flow(d, {}, gigabytes);
            } else if (linked[d] != SIZE_MAX) {
                auto const& routes = commodities[linked[d]].paths;
                for (std::size_t r = 0; r < routes.size(); ++r) {
                    add_flow(d, routes[r], split.weights[linked[d]][r] * gigabytes);
                }
            } else {
                std::size_t const outward = out.at(source), inward = in.at(destination);
                add_network_flows(d, commodities[outward].paths, split.weights[outward],
                                  commodities[inward].paths, split.weights[inward]);
            }
        }
        Prediction made = run();
        made.least_seconds = split.bound;
        return made;
    }

    Prediction by_single_paths(Policy policy) {
        SinglePathRules rules;
        rules.prefer = policy == Policy::Ucx ? Prefer::Short : Prefer::Wide;
        rules.nics = conditions_.other_nics;
        SinglePaths const straight(infrastructure_, rules);
        rules.relay_gpus = true;
        SinglePaths const relayed(infrastructure_, rules);
        std::map<std::uint32_t, std::vector<std::size_t>> of_source;
        for (std::size_t d = 0; d < demands_.size(); ++d)
            of_source[demands_[d].source].push_back(d);
        for (auto const& [source, own] : of_source) {
            std::vector<std::uint32_t> destinations;
            for (std::size_t const d : own) destinations.push_back(demands_[d].destination);
            auto routes = straight.find(source, destinations);
            if (policy == Policy::Nccl) {
                auto others = relayed.find(source, destinations);
                for (std::size_t i = 0; i < routes.size(); ++i) {
                    bool const wider = others[i] && (!routes[i] || relayed.width(*others[i]) >
                                                                       relayed.width(*routes[i]));
                    if (wider && (!routes[i] || meets_cpu(*routes[i]))) routes[i] = others[i];
                }
            }
            for (std::size_t i = 0; i < routes.size(); ++i) {
                if (!routes[i]) throw no_path(demands_[own[i]]);
                add_single(own[i], std::move(*routes[i]));
            }
        }
        return run();
    }

private:
    void check(Demand const& demand) const {
        auto const& vertices = infrastructure_.graph.vertices;
        for (std::uint32_t const end : {demand.source, demand.destination}) {
            if (end >= vertices.size() || vertices[end].kind != VertexKind::Gpu) {
                throw Error(ErrorCode::InvalidArgument, "traffic of vertex " + std::to_string(end) +
                                                            ", which is no GPU of this graph");
            }
        }
        if (!(demand.gigabytes >= 0) || std::isinf(demand.gigabytes)) {
            throw Error(ErrorCode::InvalidArgument, std::to_string(demand.gigabytes) + " GB from " +
                                                        vertices[demand.source].name + " to " +
                                                        vertices[demand.destination].name +
                                                        "; expected 0 or more");
        }
    }

    [[nodiscard]] Error no_path(Demand const& demand) const {
        auto const& vertices = infrastructure_.graph.vertices;
        return {ErrorCode::InvalidArgument, "no path from " + vertices[demand.source].name +
                                                " to " + vertices[demand.destination].name};
    }

    [[nodiscard]] bool meets_cpu(Route const& route) const {
        return std::any_of(route.begin(), route.end(), [&](std::uint32_t edge) {
            std::uint32_t const to = infrastructure_.graph.edges[edge].to;
            return infrastructure_.graph.vertices[to].kind == VertexKind::Cpu;
        });
    }

    static Route joined(Route const& out, Route const& in) {
        Route route = out;
        route.insert(route.end(), in.begin(), in.end());
        return route;
    }

    [[nodiscard]] bool partitions() const { return conditions_.partition_gbps > 0; }

    [[nodiscard]] std::vector<double> partition_load() const {
        std::vector<double> load(capacities_.size(), 0);
        for (std::size_t v = 0; partitions() && v < sent_.size(); ++v) load[edges_ + v] = sent_[v];
        return load;
    }

    /// A part of a demand, which flows while its source partitions; its rate is in proportion to its
    /// bytes, as movers serve first what they have most segments of.
    void add_flow(std::size_t d, Route route, double gigabytes) {
        if (gigabytes <= kNothing * demands_[d].gigabytes) return;
        if (partitions()) route.push_back(edges_ + demands_[d].source);
        flows_.push_back({std::move(route), gigabytes, gigabytes});
        demand_of_.push_back(d);
    }

    /// Each part of what enters comes from the next part of what leaves.
    void add_network_flows(std::size_t d, std::vector<Route> const& out,
                           std::vector<double> const& left, std::vector<Route> const& in,
                           std::vector<double> const& entered) {
        double const gigabytes = demands_[d].gigabytes;
        std::size_t o = 0, i = 0;
        double out_share = 0, in_share = 0;
        while (o < left.size() && i < entered.size()) {
            if (out_share <= 0) out_share = left[o];
            if (in_share <= 0) in_share = entered[i];
            double const both = std::min(out_share, in_share);
            if (both > 0) add_flow(d, joined(out[o], in[i]), both * gigabytes);
            out_share -= both;
            in_share -= both;
            if (out_share <= kNothing) ++o, out_share = 0;
            if (in_share <= kNothing) ++i, in_share = 0;
        }
    }

    /// All of a demand on one path, once its source has partitioned all that it has.
    void add_single(std::size_t d, Route route) {
        auto const& [source, destination, gigabytes] = demands_[d];
        double const start = partitions() ? sent_[source] / conditions_.partition_gbps : 0;
        flows_.push_back({std::move(route), gigabytes, 1, start});
        demand_of_.push_back(d);
    }

    Prediction run() {
        double const resolution = flows_.size() > kManyFlows ? kCoarse : 0;
        std::vector<double> const finish = finish_times(capacities_, flows_, resolution);
        Prediction made;
        made.finish.resize(demands_.size(), 0);
        made.gigabytes.resize(edges_, 0);
        made.partition.resize(sent_.size(), 0);
        for (std::size_t f = 0; f < flows_.size(); ++f) {
            double& last = made.finish[demand_of_[f]];
            last = std::max(last, finish[f]);
            for (std::uint32_t const link : flows_[f].links) {
                if (link < edges_) made.gigabytes[link] += flows_[f].gigabytes;
            }
        }
        for (std::size_t v = 0; partitions() && v < sent_.size(); ++v) {
            made.partition[v] = sent_[v] / conditions_.partition_gbps;
        }
        for (double const end : made.finish) made.seconds = std::max(made.seconds, end);
        return made;
    }

    Infrastructure const& infrastructure_;
    std::vector<Demand> const& demands_;
    Conditions const& conditions_;
    std::uint32_t edges_;
    std::vector<double> sent_;  ///< gigabytes, by vertex
    std::vector<double> capacities_;
    std::vector<FluidFlow> flows_;
    std::vector<std::size_t> demand_of_;
};

}  // namespace

char const* to_string(Policy policy) noexcept {
    switch (policy) {
        case Policy::Mgi: return "mgi";
        case Policy::Ucx: return "ucx";
        case Policy::Nccl: return "nccl";
    }
    return "unknown";
}

Prediction predict(Infrastructure const& infrastructure, Policy policy,
                   std::vector<Demand> const& demands, Conditions const& conditions) {
    Traffic traffic(infrastructure, demands, conditions);
    return policy == Policy::Mgi ? traffic.by_plan() : traffic.by_single_paths(policy);
}

}  // namespace mgi::simulation
