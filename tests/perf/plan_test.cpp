// The engine of `mgi perf plan`: that what it times is right, and that its check would notice if not.
#include "perf/plan.hpp"

#include <gtest/gtest.h>

#include <vector>

#include <mgi/error.hpp>

#include "perf/plan_check.hpp"
#include "perf/plan_cluster.hpp"

namespace mgi::perf {
namespace {

TEST(PerfPlan, EverySampledPairIsRight) {
    // 40 GPUs a server make shapes of more than 64 vertices.
    for (std::uint32_t const per_server : {1u, 3u, 8u, 40u}) {
        SCOPED_TRACE(per_server);
        PlanOptions options;
        options.gpus = 3 * per_server + 1;
        options.per_server = per_server;
        options.shapes = 0;
        options.repeat = 2;
        options.pairs = 40;
        options.baseline_seconds = 0;
        PlanResult const found = run_plan(options);
        EXPECT_EQ(found.servers, 4u);
        EXPECT_EQ(found.shapes, 4u);
        EXPECT_GT(found.sampled, 0u);
        EXPECT_EQ(found.verified, found.sampled);
        EXPECT_EQ(found.create_ms.size(), 2u);
        EXPECT_GT(found.baseline_ms, 0);
    }
}

TEST(PerfPlan, TheCheckSeesWrongPathsAndTables) {
    auto const cluster = dgx_cluster(16, 8, 1);
    auto const gpus = gpu_places(cluster, 16);
    planner::ChannelPlanner planner(cluster);
    auto const plan = planner.plan(gpus, gpus);
    PlanCheck check(cluster, plan);
    auto const paths = planner.paths(gpus[0], gpus[9]);
    ASSERT_TRUE(check.right(gpus[0], gpus[9], paths));
    auto wrong = paths;
    wrong.pop_back();
    EXPECT_FALSE(check.right(gpus[0], gpus[9], wrong)) << "too little";
    wrong = paths;
    wrong[0].capacity += 1;
    EXPECT_FALSE(check.right(gpus[0], gpus[9], wrong)) << "too much";
    wrong = paths;
    wrong[0].vertices.erase(wrong[0].vertices.begin() + 1);
    EXPECT_FALSE(check.right(gpus[0], gpus[9], wrong)) << "no such link";
    EXPECT_FALSE(check.right(gpus[1], gpus[9], paths)) << "another pair";
    // A channel that has no such pair has no hops for it.
    std::vector<planner::Place> const first{gpus[0]};
    std::vector<planner::Place> const second{gpus[1]};
    auto const other = planner.plan(first, second);
    EXPECT_FALSE(
        PlanCheck(cluster, other).right(gpus[1], gpus[0], planner.paths(gpus[1], gpus[0])));
}

TEST(PerfPlan, RefusesWhatIsNoCluster) {
    PlanOptions options;
    options.gpus = 1;
    EXPECT_THROW(run_plan(options), Error);
    options.gpus = std::uint64_t(1) << 30;
    EXPECT_THROW(run_plan(options), Error);
    options.gpus = 16;
    options.per_server = 0;
    EXPECT_THROW(run_plan(options), Error);
    options.per_server = 4096;
    EXPECT_THROW(run_plan(options), Error);
}

}  // namespace
}  // namespace mgi::perf
