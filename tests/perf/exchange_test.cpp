// The engine of `mgi perf exchange`: its keys, its checks, and that it measures what it says.
#include "perf/exchange.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include <mgi/error.hpp>

#include "perf/rows.hpp"
#include "perf/zipf.hpp"

namespace mgi::perf {
namespace {

TEST(PerfZipf, FrequenciesFollowTheLaw) {
    constexpr std::uint64_t kRanks = 20;
    constexpr int kDraws = 200'000;
    for (double const theta : {0.2, 0.9, 1.0, 1.5, 3.0}) {
        Zipf const zipf(kRanks, theta);
        std::mt19937_64 random(7);
        std::vector<int> counts(kRanks + 1);
        for (int i = 0; i < kDraws; ++i) ++counts.at(zipf(random));
        double total = 0;
        for (std::uint64_t rank = 1; rank <= kRanks; ++rank) total += std::pow(rank, -theta);
        EXPECT_EQ(counts[0], 0);
        for (std::uint64_t rank = 1; rank <= kRanks; ++rank) {
            double const p = std::pow(rank, -theta) / total;
            double const sigma = std::sqrt(p * (1 - p) / kDraws);
            EXPECT_NEAR(counts[rank] / double(kDraws), p, 5 * sigma)
                << "rank " << rank << ", theta " << theta;
        }
    }
}

TEST(PerfZipf, TakesOneRankAndVeryMany) {
    std::mt19937_64 random(7);
    Zipf const one(1, 1.0);
    EXPECT_EQ(one(random), 1u);
    std::uint64_t const many = std::uint64_t(1) << 40;
    Zipf const wide(many, 0.5);
    for (int i = 0; i < 1000; ++i) {
        std::uint64_t const rank = wide(random);
        EXPECT_GE(rank, 1u);
        EXPECT_LE(rank, many);
    }
}

TEST(PerfRows, EveryEndpointHasItsShare) {
    ExchangeOptions options;
    options.endpoints = 3;
    options.rows = 1000;
    options.row_bytes = 24;
    std::uint64_t rows = 0;
    for (std::uint32_t e = 0; e < options.endpoints; ++e) {
        Rows const mine(options, e);
        rows += mine.size();
        EXPECT_EQ(mine.columns(), 3u);
        EXPECT_EQ(mine.bytes(), mine.size() * 24);
        EXPECT_EQ(mine.checksum().rows, mine.size());
        EXPECT_NE(mine.checksum().payload_parity, 0u);
    }
    EXPECT_EQ(rows, 1000u);
}

struct Way {
    Layout layout;
    bool by_reference;
    bool staged;
    std::uint32_t groups;
    std::uint32_t threads;
};

class PerfExchange : public testing::TestWithParam<Way> {};

TEST_P(PerfExchange, IsVerified) {
    ExchangeOptions options;
    options.endpoints = 2;
    options.rows = 20'000;
    options.row_bytes = 24;
    options.zipf_theta = 0.7;
    options.repeat = 2;
    options.layout = GetParam().layout;
    options.by_reference = GetParam().by_reference;
    options.staged = GetParam().staged;
    options.groups = GetParam().groups;
    options.threads = GetParam().threads;
    ExchangeResult const result = run_exchange(options);
    EXPECT_TRUE(result.verified);
    EXPECT_EQ(result.groups, GetParam().groups);
    EXPECT_EQ(result.bytes, 20'000u * 24);
    ASSERT_EQ(result.gbps.size(), 2u);
    ASSERT_EQ(result.memcpy_gbps.size(), 2u);
    for (double const gbps : result.gbps) EXPECT_GT(gbps, 0);
}

INSTANTIATE_TEST_SUITE_P(Ways, PerfExchange,
                         testing::Values(Way{Layout::Columns, true, false, 1, 1},
                                         Way{Layout::Columns, false, false, 2, 2},
                                         Way{Layout::Rows, true, false, 2, 1},
                                         Way{Layout::Rows, false, false, 1, 2},
                                         Way{Layout::Columns, true, true, 2, 2},
                                         Way{Layout::Rows, false, true, 1, 1}));

TEST(PerfExchangeOptions, WrongOnesAreNamed) {
    auto const message = [](auto change) -> std::string {
        ExchangeOptions options;
        options.rows = 100;
        change(options);
        try {
            run_exchange(options);
        } catch (Error const& error) {
            return error.what();
        }
        return "no error";
    };
    using Options = ExchangeOptions;
    EXPECT_NE(message([](Options& o) { o.endpoints = 0; }).find("endpoints is 0"),
              std::string::npos);
    EXPECT_NE(message([](Options& o) { o.row_bytes = 12; }).find("row_bytes is 12"),
              std::string::npos);
    EXPECT_NE(message([](Options& o) { o.threads = 0; }).find("threads is 0"), std::string::npos);
    EXPECT_NE(message([](Options& o) { o.zipf_theta = -1; }).find("zipf"), std::string::npos);
    EXPECT_NE(message([](Options& o) { o.rows = std::uint64_t(1) << 39; }).find("fewer rows"),
              std::string::npos);
}

TEST(PerfExchangeOptions, ACancelledRunThrows) {
    std::atomic<bool> const cancel{true};
    ExchangeOptions options;
    options.rows = 100;
    options.cancel = &cancel;
    try {
        run_exchange(options);
        FAIL() << "it ran";
    } catch (Error const& error) {
        EXPECT_EQ(error.code(), ErrorCode::Interrupted);
    }
}

TEST(PerfMedian, OfOddAndEvenNumbers) {
    EXPECT_EQ(median({}), 0);
    EXPECT_EQ(median({3, 1, 2}), 2);
    EXPECT_EQ(median({4, 1, 2, 3}), 2.5);
}

}  // namespace
}  // namespace mgi::perf
