#include "control/agent/nic_watch.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include <mgi/graph.hpp>

namespace mgi::control {
namespace {

using topology::NicState;

/// A server of two NICs of 12.5 GB/s; a user has said what the second one carries.
class Watch : public ::testing::Test {
protected:
    static constexpr std::uint32_t kNic0 = 1;
    static constexpr std::uint32_t kNic1 = 2;
    static constexpr std::uint32_t kNetwork = 3;

    static ServerGraph graph() {
        ServerGraph made;
        for (auto const kind :
             {VertexKind::Cpu, VertexKind::Nic, VertexKind::Nic, VertexKind::Network}) {
            made.add_vertices()->set_kind(static_cast<std::uint32_t>(kind));
        }
        for (std::uint32_t const nic : {kNic0, kNic1}) {
            for (std::uint32_t const other : {std::uint32_t(0), kNetwork}) {
                add(made, nic, other);
                add(made, other, nic);
            }
        }
        return made;
    }
    static void add(ServerGraph& graph, std::uint32_t from, std::uint32_t to) {
        Link& link = *graph.add_links();
        link.set_from(from);
        link.set_to(to);
        link.set_gbps(12.5);
    }

    /// What is told after `time`, as lines; each NIC's two links always together.
    std::string after(Milliseconds time) {
        now_ += time;
        std::string told;
        for (NicWatch::Change const& change : watch_.take(nics_, now_)) {
            EXPECT_EQ(change.links.size(), 2u);
            for (auto const& link : change.links) {
                EXPECT_TRUE(link.from == kNetwork || link.to == kNetwork);
                EXPECT_EQ(link.gbps, change.links.front().gbps);
            }
            told += change.what + "\n";
        }
        return told;
    }
    std::string soon() { return after(Milliseconds(200)); }

    NicWatch watch_{graph(), {{kNic0, "nic0", {}, false}, {kNic1, "nic1", {}, true}}};
    std::vector<NicState> nics_{{true, 100'000, 0, 0, {}}, {true, 10'000, 0, 0, {}}};
    Time now_ = Time(Milliseconds(1'000'000));
};

TEST_F(Watch, NothingIsToldWhileAllIsWell) {
    for (int i = 0; i < 20; ++i) EXPECT_EQ(soon(), "");
}

TEST_F(Watch, WhatIsDownAtTheStartIsToldAtOnce) {
    nics_[1].up = false;
    EXPECT_EQ(soon(), "nic1 is down\n");
    EXPECT_EQ(soon(), "");
}

TEST_F(Watch, AChangeIsToldOnceItHasSettled) {
    soon();
    nics_[0].up = false;
    nics_[0].mbps = 0;
    EXPECT_EQ(soon(), "");
    EXPECT_EQ(after(Milliseconds(199)), "");
    EXPECT_EQ(after(Milliseconds(1)), "nic0 is down\n");
    EXPECT_EQ(soon(), "");
    nics_[0] = {true, 100'000, 0, 0, {}};
    EXPECT_EQ(soon(), "");
    EXPECT_EQ(soon(), "nic0 is up, with 12.5 GB/s\n");
}

TEST_F(Watch, WhatPassesIsNotTold) {
    soon();
    for (int i = 0; i < 3; ++i) {
        nics_[0].up = false;
        EXPECT_EQ(after(Milliseconds(100)), "");
        nics_[0].up = true;
        EXPECT_EQ(after(Milliseconds(100)), "");
        EXPECT_EQ(soon(), "");
    }
}

TEST_F(Watch, AnotherRateIsToldUnlessAUserHasSaidIt) {
    soon();
    nics_[0].mbps = nics_[1].mbps = 50'000;
    EXPECT_EQ(soon(), "");
    EXPECT_EQ(soon(), "nic0 is up, with 6.25 GB/s\n");
    // Nobody says it any more: then as the graph has it.
    nics_[0].mbps = 0;
    soon();
    EXPECT_EQ(soon(), "nic0 is up, with 12.5 GB/s\n");
    nics_[0].mbps = 100'000;
    soon();
    EXPECT_EQ(soon(), "");
    nics_[1].up = false;
    soon();
    EXPECT_EQ(soon(), "nic1 is down\n");
    nics_[1].up = true;
    soon();
    EXPECT_EQ(soon(), "nic1 is up, with 12.5 GB/s\n");
}

TEST_F(Watch, ARateThatNobodyKnewWhenTheGraphWasMade) {
    nics_[0] = {};
    EXPECT_EQ(soon(), "nic0 is down\n");
    nics_[0] = {true, 400'000, 0, 0, {}};
    soon();
    EXPECT_EQ(soon(), "nic0 is up, with 50 GB/s\n");
}

TEST_F(Watch, ALinkThatFlapsStaysDownUntilItIsQuiet) {
    soon();
    std::string told;
    for (std::size_t i = 0; i <= NicWatch::kMostFalls; ++i) {
        nics_[0].up = false;
        told += soon() + soon();
        nics_[0].up = true;
        told += soon() + soon();
    }
    std::string expected;
    for (std::size_t i = 0; i < NicWatch::kMostFalls; ++i) {
        expected += "nic0 is down\nnic0 is up, with 12.5 GB/s\n";
    }
    EXPECT_EQ(told, expected +
                        "nic0 lost its link more than 5 times in 60 s: it counts as down until it "
                        "has kept it for 60 s\n");
    EXPECT_EQ(after(Milliseconds(40'000)), "");
    // Once more: the time begins anew.
    nics_[0].up = false;
    EXPECT_EQ(soon(), "");
    nics_[0].up = true;
    EXPECT_EQ(after(NicWatch::kCoolDown - Milliseconds(400)), "");
    EXPECT_EQ(soon(), "");
    soon();
    EXPECT_EQ(soon(), "nic0 is up, with 12.5 GB/s\n");
}

TEST_F(Watch, TheKernelsCounterTellsOfFallsBetweenReadings) {
    nics_[0].falls = 7;
    soon();
    nics_[0].falls = 10;
    EXPECT_EQ(soon(), "");
    EXPECT_EQ(soon(), "");
    nics_[0].falls = 2;  // a driver that began anew
    EXPECT_EQ(soon(), "");
    nics_[0].falls = 5;
    EXPECT_EQ(soon(), "");
    EXPECT_NE(soon(), "");
    EXPECT_EQ(after(NicWatch::kCoolDown), "");
    EXPECT_EQ(soon(), "nic0 is up, with 12.5 GB/s\n");
    // Rarely enough, it may.
    for (std::uint64_t i = 6; i < 30; ++i) {
        nics_[0].falls = i;
        EXPECT_EQ(after(Milliseconds(20'000)), "");
    }
}

TEST_F(Watch, UseIsWhatCountersGrewByInASecond) {
    nics_[0].sent = nics_[0].received = std::uint64_t(1) << 40;
    soon();
    EXPECT_TRUE(watch_.uses().empty());
    for (int i = 0; i < 10; ++i) {
        nics_[0].sent += 400'000'000;
        nics_[1].received += 100'000'000;
        soon();
        auto const uses = watch_.uses();
        ASSERT_EQ(uses.size(), 2u);
        EXPECT_EQ(uses[0].from, kNic0);
        EXPECT_EQ(uses[0].to, kNetwork);
        EXPECT_NEAR(uses[0].gbps, 2, 1e-9);
        EXPECT_EQ(uses[1].from, kNetwork);
        EXPECT_EQ(uses[1].to, kNic1);
        EXPECT_NEAR(uses[1].gbps, 0.5, 1e-9);
    }
    for (int i = 0; i < 6; ++i) soon();
    EXPECT_TRUE(watch_.uses().empty());
    // Counters that begin anew are no use, and what is down has none.
    nics_[0].sent = 100;
    soon();
    EXPECT_TRUE(watch_.uses().empty());
    nics_[0].sent = 100'000'100;
    nics_[1].up = false;
    nics_[1].received += 1000;
    soon();
    soon();
    ASSERT_EQ(watch_.uses().size(), 1u);
    EXPECT_EQ(watch_.uses()[0].from, kNic0);
}

}  // namespace
}  // namespace mgi::control
