#include "perf/plan.hpp"

#include <chrono>
#include <optional>
#include <random>
#include <vector>

#include <mgi/error.hpp>

#include "perf/plan_baseline.hpp"
#include "perf/plan_check.hpp"
#include "perf/plan_cluster.hpp"
#include "perf/resident.hpp"
#include "planner/channel_planner.hpp"

namespace mgi::perf {
namespace {

using Clock = std::chrono::steady_clock;

double ms_since(Clock::time_point begin) {
    return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

/// A server's first NIC fails; where it has no other, half of what it takes to the network.
class Breakdown {
public:
    Breakdown(planner::Cluster& cluster, planner::ServerId server)
        : cluster_(cluster), changed_{server} {
        planner::Shape const& shape = *cluster.shape(server);
        for (std::uint32_t v = 0; v < shape.vertices().size(); ++v) {
            if (!shape.is(v, VertexKind::Nic)) continue;
            if (nics_++ == 0) nic_ = v;
        }
        network_ = shape.network();
    }
    void happens() {
        if (nics_ > 1) {
            cluster_.set_nic(changed_[0], nic_, false);
        } else {
            cluster_.set_link(changed_[0], nic_, network_, 25);
        }
    }
    void is_over() {
        if (nics_ > 1) {
            cluster_.set_nic(changed_[0], nic_, true);
        } else {
            cluster_.recover_link(changed_[0], nic_, network_);
        }
    }
    [[nodiscard]] std::vector<planner::ServerId> const& changed() const { return changed_; }

private:
    planner::Cluster& cluster_;
    std::vector<planner::ServerId> changed_;
    std::uint32_t nic_ = 0;
    std::uint32_t nics_ = 0;
    std::uint32_t network_ = 0;
};

void verify(planner::Cluster const& cluster, planner::ChannelPlan const& plan,
            std::vector<planner::Place> const& gpus, PlanOptions const& options,
            PlanResult& result) {
    planner::ChannelPlanner planner(cluster);
    PlanCheck check(cluster, plan);
    std::mt19937_64 random(options.seed);
    for (std::uint32_t n = 0; n < options.pairs && gpus.size() > 1; ++n) {
        planner::Place const from = gpus[random() % gpus.size()];
        // Every second pair is of one server, where there is one.
        planner::Place to = gpus[random() % gpus.size()];
        if (n % 2 == 0) {
            for (planner::Place const near : gpus) {
                if (near.server == from.server && near != from && random() % 2 == 0) to = near;
            }
        }
        if (from == to) continue;
        ++result.sampled;
        if (check.right(from, to, planner.paths(from, to))) ++result.verified;
    }
}

}  // namespace

PlanResult run_plan(PlanOptions const& options) {
    auto const stop_if_asked = [&] {
        if (options.cancel != nullptr && options.cancel->load()) {
            throw Error(ErrorCode::Interrupted, "stopped");
        }
    };
    if (options.gpus < 2) {
        throw Error(ErrorCode::InvalidArgument, "a channel between GPUs needs 2 of them or more");
    }
    PlanResult result;
    ResidentGrowth const growth;
    planner::Cluster cluster = dgx_cluster(options.gpus, options.per_server, options.shapes);
    auto const gpus = gpu_places(cluster, options.gpus);
    result.servers = cluster.size();
    result.shapes = cluster.shapes();
    result.pairs = gpus.size() * (gpus.size() - 1);
    Breakdown breakdown(cluster, gpus[0].server);
    planner::ChannelPlan plan;
    for (std::uint32_t run = 0; run < options.repeat; ++run) {
        stop_if_asked();
        std::optional<planner::ChannelPlanner> planner;
        plan = {};
        auto begin = Clock::now();
        planner.emplace(cluster);
        plan = planner->plan(gpus, gpus);
        result.create_ms.push_back(ms_since(begin));
        plan = {};
        begin = Clock::now();
        plan = planner->plan(gpus, gpus);
        result.warm_ms.push_back(ms_since(begin));
        begin = Clock::now();
        breakdown.happens();
        static_cast<void>(planner->replan(plan, breakdown.changed()));
        result.replan_ms.push_back(ms_since(begin));
        breakdown.is_over();
    }
    result.resident_bytes = growth.peak_bytes();
    result.table_bytes = plan.distinct_bytes();
    result.sent_bytes = plan.sent_bytes();
    verify(cluster, plan, gpus, options, result);
    stop_if_asked();
    BaselineTime const baseline =
        run_baseline(cluster, gpus, options.baseline_seconds, options.seed, options.cancel);
    result.baseline_ms = baseline.ms;
    result.baseline_pairs = baseline.measured;
    stop_if_asked();
    return result;
}

}  // namespace mgi::perf
