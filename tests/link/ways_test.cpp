// The ways of a spare slot: their order, what both ends make of it, and how those that begin alike are skipped.
#include "mover/link/ways.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace mgi::test {
namespace {

using mover::link::Hop;
using mover::link::Way;
using mover::link::Ways;

std::vector<Hop> hops_of(Way const& way) {
    std::vector<Hop> hops;
    for (std::uint32_t i = 0; i <= way.count; ++i) hops.push_back(way.hop(i));
    return hops;
}

/// "0 2.1 3.0 1": from NIC 0 to relay 2, by NICs 1 to relay 3, by NICs 0 to NIC 1... as numbers of hops.
std::string text(Way const& way) {
    std::string text = std::to_string(way.nic);
    for (std::uint32_t i = 0; i < way.count; ++i) {
        text += " r" + std::to_string(way.by[i]);
        if (i + 1 < way.count) text += " " + std::to_string(way.between[i]);
    }
    return text + " " + std::to_string(way.far_nic);
}

TEST(Ways, TheShortestComeFirst) {
    Ways const ways(0, 2, 2, {5, 6});
    std::vector<std::string> first;
    for (std::uint64_t i = 0; i < 9; ++i) first.push_back(text(ways.at(i)));
    EXPECT_EQ(first, (std::vector<std::string>{"0 1", "0 r0 1", "0 r0 0", "0 r1 1", "0 r1 0",
                                               "0 r0 0 r0 1", "0 r0 0 r0 0", "0 r0 0 r1 1",
                                               "0 r0 0 r1 0"}));
    EXPECT_EQ(Ways(1, 2, 2, {5, 6}).at(1).by[0], 1U) << "other NICs begin with other relays";
}

TEST(Ways, AreStraightAndRelayedByTurns) {
    Ways const ways(0, 4, 4, {5});
    std::vector<std::uint32_t> counts;
    for (std::uint64_t i = 0; i < ways.size(); ++i) counts.push_back(ways.at(i).count);
    EXPECT_EQ(counts, (std::vector<std::uint32_t>{0, 1, 0, 1, 0, 1, 1}));
    EXPECT_EQ(Ways(0, 1, 1, {}).size(), 0U);
    EXPECT_EQ(Ways(0, 3, 3, {}).size(), 2U);
}

TEST(Ways, AreAllThereAndOnce) {
    for (std::uint32_t relays = 0; relays < 5; ++relays) {
        for (std::uint32_t nics = 1; nics < 4; ++nics) {
            std::vector<std::uint32_t> servers(relays);
            for (std::uint32_t r = 0; r < relays; ++r) servers[r] = r / 2;
            Ways const ways(nics - 1, nics, nics, servers);
            std::set<std::string> found;
            for (std::uint64_t i = 0; i < ways.size(); ++i) found.insert(text(ways.at(i)));
            EXPECT_EQ(found.size(), ways.size());
        }
    }
}

TEST(Ways, OfTheOtherEndAreTheSameTheOtherWayRound) {
    Ways const ways(1, 2, 3, {5, 6, 7});
    Ways const seen = ways.seen_from_there();
    EXPECT_EQ(seen.size(), ways.size());
    for (std::uint64_t i = 0; i < ways.size(); ++i) {
        auto hops = hops_of(ways.at(i));
        auto const back = hops_of(seen.at(i));
        ASSERT_EQ(hops.size(), back.size());
        for (std::size_t h = 0; h < hops.size(); ++h) {
            Hop const& there = hops[hops.size() - 1 - h];
            EXPECT_EQ(back[h].from, there.to);
            EXPECT_EQ(back[h].to, there.from);
            // A relay's NIC has the number of the one before it, seen from either end.
            if (hops.size() > 1) {
                EXPECT_EQ(back[h].far_nic, there.far_nic);
            }
        }
    }
}

TEST(Ways, ThatBeginAlikeAreSkipped) {
    for (std::uint32_t far_nics : {1U, 2U, 5U}) {
        Ways const ways(0, far_nics, 2, {5, 6, 7});
        auto const alike = [&](std::uint64_t a, std::uint64_t b, std::uint32_t hop) {
            auto const one = hops_of(ways.at(a));
            auto const other = hops_of(ways.at(b));
            return one.size() == other.size() && hop < one.size() &&
                   std::equal(one.begin(), one.begin() + hop + 1, other.begin());
        };
        for (std::uint64_t i = 0; i < ways.size(); i += 1 + i / 50) {
            for (std::uint32_t hop = 0; hop <= ways.at(i).count; ++hop) {
                std::uint64_t next = i + 1;
                // Among straight ones by turns the next one is not skipped, alike or not.
                bool const by_turns = i < 2 * std::uint64_t(far_nics - 1);
                while (!by_turns && next < ways.size() && alike(i, next, hop)) ++next;
                ASSERT_EQ(ways.behind(i, hop), next)
                    << i << ": " << text(ways.at(i)) << ", " << hop;
            }
        }
    }
}

TEST(Ways, PassAServerOnce) {
    Ways const ways(0, 1, 1, {5, 6, 5});
    Way way;
    way.count = 3;
    way.by = {0, 1, 2};
    EXPECT_FALSE(ways.returns(way, 0));
    EXPECT_FALSE(ways.returns(way, 1));
    EXPECT_TRUE(ways.returns(way, 2));
    EXPECT_FALSE(ways.returns(way, 3)) << "the other end is on none of these";
}

TEST(Ways, CanBeManyMoreThanAnyoneTries) {
    std::vector<std::uint32_t> servers(32);
    for (std::uint32_t r = 0; r < 32; ++r) servers[r] = r;
    Ways const ways(63, 64, 64, servers);
    EXPECT_GT(ways.size(), 1ULL << 32);
    Way const last = ways.at(ways.size() - 1);
    EXPECT_EQ(last.count, 3U);
    EXPECT_LT(last.by[2], 32U);
    EXPECT_LT(last.between[1], 64U);
}

}  // namespace
}  // namespace mgi::test
