#include "planner/congestion.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include <mgi/error.hpp>

#include "perf/plan_cluster.hpp"
#include "planner/traffic.hpp"
#include "support/random.hpp"

namespace mgi::planner {
namespace {

TEST(Congestion, SplitsOverLinksByTheirCapacity) {
    std::vector<Commodity> const traffic{{30, {{0}, {1}}}};
    std::vector<double> const capacities{1, 2};
    PathWeights const found = least_congestion(traffic, capacities, 1e-3);
    EXPECT_NEAR(found.congestion, 10, 0.02);
    EXPECT_NEAR(found.weights[0][1], 2.0 / 3, 1e-2);
}

TEST(Congestion, IsProvenOnRandomTraffic) {
    test::Random random(21);
    for (int round = 0; round < 300; ++round) {
        SCOPED_TRACE(round);
        std::vector<double> capacities(1 + random.below(40));
        for (double& capacity : capacities) capacity = 1 + 50 * random.real();
        std::vector<Commodity> traffic(1 + random.below(40));
        for (Commodity& commodity : traffic) {
            commodity.demand = random.one_in(8) ? 0 : 10 * random.real();
            for (std::uint64_t p = 1 + random.below(6); p > 0; --p) {
                auto& path = commodity.paths.emplace_back();
                std::uint64_t e = random.below(capacities.size());
                for (std::uint64_t l = 1 + random.below(5); l > 0 && e < capacities.size(); --l) {
                    path.push_back(std::uint32_t(e));
                    e += 1 + random.below(6);
                }
            }
        }
        PathWeights const found = least_congestion(traffic, capacities);
        std::vector<double> load(capacities.size(), 0);
        for (std::size_t k = 0; k < traffic.size(); ++k) {
            double sum = 0;
            for (std::size_t p = 0; p < traffic[k].paths.size(); ++p) {
                ASSERT_GE(found.weights[k][p], 0);
                sum += found.weights[k][p];
                for (auto const e : traffic[k].paths[p]) {
                    load[e] += traffic[k].demand * found.weights[k][p] / capacities[e];
                }
            }
            ASSERT_NEAR(sum, 1, 1e-9);
        }
        ASSERT_NEAR(*std::max_element(load.begin(), load.end()), found.congestion,
                    1e-9 + 1e-6 * found.congestion);
        ASSERT_LE(found.congestion, 1.03 * found.bound + 1e-12) << found.rounds << " rounds";
    }
}

TEST(Congestion, OfAllToAllUsesEveryNic) {
    Cluster const cluster = perf::dgx_cluster(16, 8, 1);
    ChannelPlanner planner(cluster);
    auto const gpus = perf::gpu_places(cluster, 16);
    std::vector<double> bytes(gpus.size() * gpus.size(), 0);
    // One GPU sends all it has to the other server: its own NIC alone would take 20 ms.
    for (std::size_t j = 8; j < 16; ++j) bytes[j] = 125e6;
    Traffic const traffic = traffic_over(planner, cluster, gpus, gpus, bytes);
    PathWeights const found = least_congestion(traffic.commodities, traffic.capacities);
    EXPECT_LT(found.congestion, 1.03 * found.bound);
    EXPECT_LT(found.congestion, 0.005);
}

TEST(Congestion, RefusesWhatCannotBe) {
    std::vector<double> const one{1};
    std::vector<double> const zero{0};
    std::vector<Commodity> const fine{{1, {{0}}}};
    std::vector<Commodity> const no_path{{1, {}}};
    std::vector<Commodity> const no_link{{1, {{1}}}};
    std::vector<Commodity> const negative{{-1, {{0}}}};
    EXPECT_THROW(least_congestion(fine, zero), Error);
    EXPECT_THROW(least_congestion(no_path, one), Error);
    EXPECT_THROW(least_congestion(no_link, one), Error);
    EXPECT_THROW(least_congestion(negative, one), Error);
    EXPECT_EQ(least_congestion({}, one).congestion, 0);
}

}  // namespace
}  // namespace mgi::planner
