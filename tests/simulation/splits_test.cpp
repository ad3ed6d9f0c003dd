#include "simulation/splits.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include <mgi/error.hpp>

#include "simulation/fluid.hpp"

namespace mgi::simulation {
namespace {

constexpr double kTolerance = 1e-3;

TEST(Splits, BytesGoInProportionToWhatRoutesCarry) {
    auto const splits = least_congestion({30, 10}, {{8, {{0}, {1}}}});
    EXPECT_NEAR(splits.seconds, 0.2, 0.2 * kTolerance);
    EXPECT_NEAR(splits.gigabytes[0][0], 6, 6 * kTolerance);
    EXPECT_NEAR(splits.gigabytes[0][1], 2, 2 * 2 * kTolerance);
}

TEST(Splits, ARouteThatOthersNeedIsLeftToThem) {
    // The first may relay over link 1, where the second has its only way.
    auto const splits = least_congestion({10, 10}, {{10, {{0}, {1}}}, {10, {{1}}}});
    EXPECT_NEAR(splits.seconds, 1, kTolerance);
    EXPECT_LE(splits.gigabytes[0][1], 10 * kTolerance);
}

TEST(Splits, AFullMeshTalksDirectly) {
    // Four GPUs, all to all: relays would only take what the direct links of others need.
    std::vector<double> const capacities(16, 10);
    std::vector<Commodity> commodities;
    for (std::uint32_t a = 0; a < 4; ++a) {
        for (std::uint32_t b = 0; b < 4; ++b) {
            if (a == b) continue;
            Commodity commodity{5, {{a * 4 + b}}};
            for (std::uint32_t via = 0; via < 4; ++via) {
                if (via != a && via != b) commodity.routes.push_back({a * 4 + via, via * 4 + b});
            }
            commodities.push_back(std::move(commodity));
        }
    }
    auto const splits = least_congestion(capacities, commodities);
    EXPECT_NEAR(splits.seconds, 0.5, 0.5 * kTolerance);
    // One pair alone takes all three ways.
    auto const alone = least_congestion(capacities, {commodities[0]});
    EXPECT_NEAR(alone.seconds, 0.5 / 3, 0.5 / 3 * kTolerance);
}

TEST(Splits, LinksKeepWhatIsOnThemAlready) {
    auto const splits = least_congestion({10, 10}, {{10, {{0}, {1}}}}, {6, 0});
    EXPECT_NEAR(splits.seconds, 0.8, 0.8 * kTolerance);
    EXPECT_NEAR(splits.gigabytes[0][1], 8, 8 * kTolerance);
}

TEST(Splits, NothingTakesNoTime) {
    EXPECT_EQ(least_congestion({}, {}).seconds, 0);
    EXPECT_EQ(least_congestion({1}, {{0, {{0}}}, {0, {}}}).seconds, 0);
}

TEST(Splits, WhatCannotBeIsRefused) {
    EXPECT_THROW(least_congestion({1}, {{1, {}}}), Error);
    EXPECT_THROW(least_congestion({0}, {{1, {{0}}}}), Error);
    EXPECT_THROW(least_congestion({1}, {{1, {{1}}}}), Error);
}

/// Bounds meet, and both are true: loads are summed up here, and the splits run as a fluid whose
/// rates are in proportion to the bytes end when they should.
TEST(Splits, RandomCasesMeetTheirBound) {
    for (std::uint32_t seed = 0; seed < 200; ++seed) {
        std::mt19937 random(seed);
        auto const below = [&](std::uint32_t most) { return std::uint32_t(random() % most); };
        std::uint32_t const links = 4 + below(30);
        std::vector<double> capacities;
        for (std::uint32_t l = 0; l < links; ++l) capacities.push_back(1 + below(100));
        std::vector<Commodity> commodities(1 + below(20));
        for (Commodity& commodity : commodities) {
            commodity.gigabytes = 1 + below(50);
            commodity.routes.resize(1 + below(6));
            for (Route& route : commodity.routes) {
                for (std::uint32_t l = 0; l < links; ++l) {
                    if (below(links) < 4) route.push_back(l);
                }
                if (route.empty()) route.push_back(below(links));
            }
        }
        auto const splits = least_congestion(capacities, commodities);
        ASSERT_LE(splits.least_seconds, splits.seconds * (1 + 1e-9)) << "seed " << seed;
        ASSERT_LE(splits.seconds, splits.least_seconds * (1 + 2 * kTolerance)) << "seed " << seed;
        std::vector<FluidFlow> flows;
        for (std::size_t c = 0; c < commodities.size(); ++c) {
            auto const& split = splits.gigabytes[c];
            ASSERT_NEAR(std::accumulate(split.begin(), split.end(), 0.0), commodities[c].gigabytes,
                        1e-6);
            for (std::size_t r = 0; r < split.size(); ++r) {
                ASSERT_GE(split[r], 0);
                if (split[r] == 0) continue;
                flows.push_back({commodities[c].routes[r], split[r], split[r]});
            }
        }
        auto const finish = finish_times(capacities, flows);
        double const end = *std::max_element(finish.begin(), finish.end());
        ASSERT_NEAR(end, splits.seconds, splits.seconds * 1e-6) << "seed " << seed;
    }
}

}  // namespace
}  // namespace mgi::simulation
