#include "simulation/fluid.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include <mgi/error.hpp>

namespace mgi::simulation {
namespace {

constexpr double kClose = 1e-9;

TEST(Fluid, FlowsOfOneLinkShareItByWeight) {
    auto const rates = fair_rates({12}, {{{0}, 1, 1}, {{0}, 1, 2}, {{0}, 1, 3}});
    EXPECT_NEAR(rates[0], 2, kClose);
    EXPECT_NEAR(rates[1], 4, kClose);
    EXPECT_NEAR(rates[2], 6, kClose);
}

TEST(Fluid, WhatOneFlowCannotUseOthersGet) {
    // The textbook's case: b is held at 2 by the narrow link, so a and c get what it leaves.
    std::vector<FluidFlow> const flows{{{0}, 1}, {{0, 1, 2}, 1}, {{2}, 1}, {{1}, 1}};
    auto const rates = fair_rates({10, 4, 20}, flows);
    EXPECT_NEAR(rates[0], 8, kClose);
    EXPECT_NEAR(rates[1], 2, kClose);
    EXPECT_NEAR(rates[2], 18, kClose);
    EXPECT_NEAR(rates[3], 2, kClose);
}

TEST(Fluid, SharesAreMadeAnewWhenAFlowEnds) {
    // Both at 5 until the small one ends at 2; the other has 20 left and the link alone.
    auto const finish = finish_times({10}, {{{0}, 10}, {{0}, 30}});
    EXPECT_NEAR(finish[0], 2, kClose);
    EXPECT_NEAR(finish[1], 4, kClose);
}

TEST(Fluid, SharesAreMadeAnewWhenAFlowStarts) {
    // Alone for one second (10 of 30), then half each: the late one's 10 take two seconds.
    auto const finish = finish_times({10}, {{{0}, 30}, {{0}, 10, 1, 1}, {{}, 5, 1, 7}});
    EXPECT_NEAR(finish[0], 4, kClose);
    EXPECT_NEAR(finish[1], 3, kClose);
    EXPECT_NEAR(finish[2], 7, kClose) << "on no link: no time";
}

TEST(Fluid, WeightsOfVolumesEndTogether) {
    std::vector<FluidFlow> flows;
    for (double const gigabytes : {1e-9, 0.5, 3.0, 40.0}) {
        flows.push_back({{0}, gigabytes, gigabytes});
    }
    for (double const end : finish_times({4}, flows)) EXPECT_NEAR(end, 43.5 / 4, 1e-6);
}

TEST(Fluid, NothingTakesNoTime) {
    EXPECT_TRUE(finish_times({}, {}).empty());
    EXPECT_EQ(finish_times({1}, {{{0}, 0}}), std::vector<double>{0});
}

TEST(Fluid, ResolutionErrsUpwardAndLittle) {
    std::mt19937 random(7);
    std::uniform_real_distribution<double> gigabytes(1, 100);
    std::vector<FluidFlow> flows;
    for (std::uint32_t f = 0; f < 300; ++f) {
        flows.push_back({{f % 7, 7 + f % 5}, gigabytes(random)});
    }
    std::vector<double> const capacities(12, 10);
    auto exact = finish_times(capacities, flows);
    auto coarse = finish_times(capacities, flows, 0.01);
    double const end = *std::max_element(exact.begin(), exact.end());
    double const later = *std::max_element(coarse.begin(), coarse.end());
    EXPECT_GE(later, end * (1 - kClose));
    EXPECT_LE(later, end * 1.03);
}

TEST(Fluid, WhatCannotBeIsRefused) {
    EXPECT_THROW(fair_rates({1}, {{{1}, 1}}), Error);
    EXPECT_THROW(fair_rates({-1}, {{{0}, 1}}), Error);
    EXPECT_THROW(fair_rates({1}, {{{0}, 1, 0}}), Error);
    EXPECT_THROW(finish_times({0}, {{{0}, 1}}), Error);
}

struct Case {
    std::vector<double> capacities;
    std::vector<FluidFlow> flows;
};

Case random_case(std::mt19937& random) {
    auto const below = [&](std::uint32_t most) { return std::uint32_t(random() % most); };
    Case made;
    std::uint32_t const links = 1 + below(30);
    for (std::uint32_t l = 0; l < links; ++l) made.capacities.push_back(1 + below(100));
    std::uint32_t const flows = 1 + below(60);
    for (std::uint32_t f = 0; f < flows; ++f) {
        FluidFlow flow;
        for (std::uint32_t l = 0; l < links; ++l) {
            if (below(links) < 3) flow.links.push_back(l);
        }
        if (flow.links.empty()) flow.links.push_back(below(links));
        flow.gigabytes = 1 + below(50);
        flow.weight = 1 + below(4);
        made.flows.push_back(std::move(flow));
    }
    return made;
}

TEST(Fluid, EveryFlowHasABottleneckWhereNoneHasMore) {
    for (std::uint32_t seed = 0; seed < 300; ++seed) {
        std::mt19937 random(seed);
        auto const drawn = random_case(random);
        auto const& capacities = drawn.capacities;
        auto const& flows = drawn.flows;
        auto const rates = fair_rates(capacities, flows);
        std::vector<double> load(capacities.size(), 0), most(capacities.size(), 0);
        for (std::size_t f = 0; f < flows.size(); ++f) {
            for (std::uint32_t const link : flows[f].links) {
                load[link] += rates[f];
                most[link] = std::max(most[link], rates[f] / flows[f].weight);
            }
        }
        for (std::size_t l = 0; l < load.size(); ++l) {
            ASSERT_LE(load[l], capacities[l] * (1 + kClose)) << "seed " << seed;
        }
        for (std::size_t f = 0; f < flows.size(); ++f) {
            ASSERT_TRUE(std::any_of(flows[f].links.begin(), flows[f].links.end(),
                                    [&](auto link) {
                                        return load[link] >= capacities[link] * (1 - kClose) &&
                                               rates[f] / flows[f].weight >=
                                                   most[link] * (1 - kClose);
                                    }))
                << "seed " << seed << ", flow " << f;
        }
    }
}

TEST(Fluid, NoLinkCarriesMoreThanItCanUntilTheEnd) {
    for (std::uint32_t seed = 0; seed < 200; ++seed) {
        std::mt19937 random(seed);
        auto const [capacities, flows] = random_case(random);
        auto const finish = finish_times(capacities, flows);
        std::vector<double> bytes(capacities.size(), 0), last(capacities.size(), 0);
        for (std::size_t f = 0; f < flows.size(); ++f) {
            for (std::uint32_t const link : flows[f].links) {
                bytes[link] += flows[f].gigabytes;
                last[link] = std::max(last[link], finish[f]);
            }
        }
        for (std::size_t l = 0; l < bytes.size(); ++l) {
            ASSERT_GE(last[l] * (1 + kClose), bytes[l] / capacities[l]) << "seed " << seed;
        }
    }
}

}  // namespace
}  // namespace mgi::simulation
