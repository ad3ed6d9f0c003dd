#include "planner/congestion.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

#include <mgi/error.hpp>

#include "simulation/fluid.hpp"
#include "support/cases.hpp"
#include "support/random.hpp"

namespace mgi::planner {
namespace {

constexpr double kTolerance = 1e-3;

PathWeights least(std::vector<Commodity> const& traffic, std::vector<double> const& capacities,
                  std::vector<double> const& load = {}) {
    return least_congestion(traffic, capacities, kTolerance, load);
}

TEST(Congestion, SplitsOverLinksByTheirCapacity) {
    PathWeights const found = least({{30, {{0}, {1}}}}, {1, 2});
    EXPECT_NEAR(found.congestion, 10, 10 * kTolerance);
    EXPECT_NEAR(found.weights[0][1], 2.0 / 3, kTolerance);
    PathWeights const wide = least({{8, {{0}, {1}}}}, {30, 10});
    EXPECT_NEAR(wide.congestion, 0.2, 0.2 * kTolerance);
    EXPECT_NEAR(wide.weights[0][0], 0.75, kTolerance);
    EXPECT_NEAR(wide.weights[0][1], 0.25, kTolerance);
}

TEST(Congestion, APathThatOthersNeedIsLeftToThem) {
    // The first may relay over link 1, where the second has its only way.
    PathWeights const found = least({{10, {{0}, {1}}}, {10, {{1}}}}, {10, 10});
    EXPECT_NEAR(found.congestion, 1, kTolerance);
    EXPECT_LE(found.weights[0][1], kTolerance);
}

TEST(Congestion, AFullMeshTalksDirectly) {
    // Four GPUs, all to all: relays would only take what the direct links of others need.
    std::vector<double> const capacities(16, 10);
    std::vector<Commodity> traffic;
    for (std::uint32_t a = 0; a < 4; ++a) {
        for (std::uint32_t b = 0; b < 4; ++b) {
            if (a == b) continue;
            Commodity commodity{5, {{a * 4 + b}}};
            for (std::uint32_t via = 0; via < 4; ++via) {
                if (via != a && via != b) commodity.paths.push_back({a * 4 + via, via * 4 + b});
            }
            traffic.push_back(std::move(commodity));
        }
    }
    EXPECT_NEAR(least(traffic, capacities).congestion, 0.5, 0.5 * kTolerance);
    // One pair alone takes all three ways.
    EXPECT_NEAR(least({traffic[0]}, capacities).congestion, 0.5 / 3, 0.5 / 3 * kTolerance);
}

TEST(Congestion, LinksKeepWhatIsOnThemAlready) {
    PathWeights const found = least({{10, {{0}, {1}}}}, {10, 10}, {6, 0});
    EXPECT_NEAR(found.congestion, 0.8, 0.8 * kTolerance);
    EXPECT_NEAR(found.weights[0][1], 0.8, kTolerance);
}

TEST(Congestion, NothingTakesNoTime) {
    EXPECT_EQ(least({}, {}).congestion, 0);
    PathWeights const found = least({{0, {{0}}}, {0, {}}}, {1});
    EXPECT_EQ(found.congestion, 0);
    EXPECT_EQ(found.weights, (std::vector<std::vector<double>>{{1}, {}}));
}

/// Bounds meet, and both are true: loads are summed up here, and the traffic run as a fluid whose
/// rates are in proportion to its parts ends when it should.
TEST(Congestion, RandomCasesMeetTheirBound) {
    for (std::uint32_t seed = 0; seed < test::cases(200u); ++seed) {
        SCOPED_TRACE(seed);
        std::mt19937 random(seed);
        auto const below = [&](std::uint32_t most) { return std::uint32_t(random() % most); };
        std::uint32_t const links = 4 + below(30);
        std::vector<double> capacities;
        for (std::uint32_t l = 0; l < links; ++l) capacities.push_back(1 + below(100));
        std::vector<Commodity> traffic(1 + below(20));
        for (Commodity& commodity : traffic) {
            commodity.demand = 1 + below(50);
            commodity.paths.resize(1 + below(6));
            for (auto& path : commodity.paths) {
                for (std::uint32_t l = 0; l < links; ++l) {
                    if (below(links) < 4) path.push_back(l);
                }
                if (path.empty()) path.push_back(below(links));
            }
        }
        PathWeights const found = least(traffic, capacities);
        ASSERT_LE(found.bound, found.congestion * (1 + 1e-9));
        ASSERT_LE(found.congestion, found.bound * (1 + 2 * kTolerance));
        std::vector<simulation::FluidFlow> flows;
        for (std::size_t k = 0; k < traffic.size(); ++k) {
            auto const& weights = found.weights[k];
            ASSERT_NEAR(std::accumulate(weights.begin(), weights.end(), 0.0), 1, 1e-7);
            for (std::size_t p = 0; p < weights.size(); ++p) {
                ASSERT_GE(weights[p], 0);
                double const part = weights[p] * traffic[k].demand;
                if (part > 0) flows.push_back({traffic[k].paths[p], part, part});
            }
        }
        auto const finish = simulation::finish_times(capacities, flows);
        double const end = *std::max_element(finish.begin(), finish.end());
        ASSERT_NEAR(end, found.congestion, found.congestion * 1e-6);
    }
}

TEST(Congestion, IsProvenOnRandomTraffic) {
    test::Random random(21);
    for (int round = 0; round < test::cases(300); ++round) {
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
        ASSERT_LE(found.congestion, 1.02 * found.bound + 1e-12);
    }
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
    EXPECT_THROW(least({}, {1}, {0, 1}), Error) << "a load on no link";
    EXPECT_EQ(least_congestion({}, one).congestion, 0);
}

}  // namespace
}  // namespace mgi::planner
