// Spare wires in virtual time: NICs that reach only those of their own number, or all of them, and other
// processes that pass on, each of which reaches all others or some.
#include <gtest/gtest.h>

#include <functional>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <mgi/runtime.hpp>

#include "link/seeds.hpp"
#include "link/traffic.hpp"
#include "mover/link/slots.hpp"

namespace mgi::test {
namespace {

using mover::link::Hop;
using mover::link::kMillisecond;
using mover::link::kSecond;
using mover::link::slots_between;
using mover::link::Way;

/// Relays' servers, all of them different.
std::vector<std::uint32_t> servers(std::uint32_t relays) {
    std::vector<std::uint32_t> all(relays);
    std::iota(all.begin(), all.end(), 2U);
    return all;
}

/// Two processes, whose NICs are joined by rails, and relays that have a NIC on each.
class Rails {
public:
    Rails(std::uint64_t seed, std::uint32_t nics, std::uint32_t relays, TrafficOptions traffic = {},
          Time link_limit = 10 * kSecond)
        : network(seed),
          nics_(nics),
          slots_(slots_between(nics, nics, servers(relays), true)),
          one(network, 0, traffic),
          two(network, 1, traffic) {
        mover::link::LinkOptions link;
        link.slots = slots_;
        link.checksums = true;
        link.link_limit = link_limit;
        for (std::uint32_t r = 0; r < relays; ++r)
            link.relays.push_back("relay " + std::to_string(r));
        network.stops = [this](std::uint32_t slot, std::uint64_t generation) {
            return stops(way_of(slot, generation));
        };
        network.connect(link, one, two);
        one.push();
        two.push();
    }
    [[nodiscard]] Way way_of(std::uint32_t slot, std::uint64_t generation) const {
        return mover::link::way_of(slots_[slot], generation);
    }
    /// The first hop of a way by which nothing goes.
    [[nodiscard]] std::optional<std::uint32_t> stops(Way const& way) const {
        for (std::uint32_t i = 0; i <= way.count; ++i) {
            Hop const hop = way.hop(i);
            bool const goes = (hop.from != Hop::kEnd || !down[0].contains(hop.nic)) &&
                              (hop.to != Hop::kEnd || !down[1].contains(hop.far_nic)) &&
                              !gone.contains(hop.from) && !gone.contains(hop.to) &&
                              (routed || hop.nic == hop.far_nic) && (!joins || joins(hop));
            if (!goes) return i;
        }
        return std::nullopt;
    }
    /// There is a way, by whichever slot.
    [[nodiscard]] bool is_joined() const {
        for (auto const& slot : slots_) {
            for (std::uint64_t i = 0; i < std::max<std::uint64_t>(slot.ways.size(), 1); ++i) {
                Way const way = mover::link::way_of(slot, i);
                bool returns = false;
                for (std::uint32_t hop = 0; hop < way.count; ++hop) {
                    returns |= slot.ways.returns(way, hop);
                }
                if (!returns && !stops(way)) return true;
            }
        }
        return false;
    }
    void change(std::function<void()> const& what) {
        what();
        network.sever();
    }
    [[nodiscard]] bool complete() const { return one.complete() && two.complete(); }
    [[nodiscard]] bool over() const {
        return (one.complete() || one.has_failed()) && (two.complete() || two.has_failed());
    }
    void pass(Time time) {
        network.run(network.now + time, [] { return false; });
    }
    bool run(Time time = 300 * kSecond) {
        network.run(network.now + time, [this] { return over(); });
        return complete();
    }
    /// Of spare slots.
    [[nodiscard]] std::uint64_t dials() const {
        std::uint64_t sum = 0;
        for (auto const& [slot, times] : network.dialed) sum += slot < nics_ ? 0 : times;
        return sum;
    }
    [[nodiscard]] std::string wrong() const { return one.wrong() + two.wrong() + network.wrong; }
    [[nodiscard]] std::string describe() { return network.link(0).describe(network.now); }

    Network network;
    std::set<std::uint32_t> down[2];        ///< NICs, by end
    std::set<std::uint32_t> gone;           ///< relays
    bool routed = false;                    ///< NICs reach those of all rails
    std::function<bool(Hop const&)> joins;  ///< processes; all if nothing is said

private:
    std::uint32_t nics_;
    std::vector<mover::link::SlotOptions> slots_;

public:
    Traffic one;
    Traffic two;
};

class LinkSpares : public ::testing::Test {
protected:
    static void SetUpTestSuite() { set_log_level("error"); }
    static void TearDownTestSuite() { set_log_level("warn"); }
    static TrafficOptions much() {
        TrafficOptions traffic;
        traffic.segments = 4000;
        return traffic;
    }
};

TEST_F(LinkSpares, AreForEachNicOfTheEndThatDials) {
    auto const slots = slots_between(2, 3, {7}, true);
    ASSERT_EQ(slots.size(), 5U);
    EXPECT_EQ(slots[2].nic, 0U);
    EXPECT_EQ(slots[2].far_nic, 2U);
    EXPECT_EQ(slots[3].ways.size(), 2U + 3U);
    for (std::uint64_t i = 0; i < 5; ++i) EXPECT_EQ(slots[4].ways.at(i).nic, 1U);
    EXPECT_EQ(slots[3].ways.at(0).far_nic, 1U) << "first another rail";
    EXPECT_EQ(slots[3].ways.at(0).count, 0U);
    EXPECT_EQ(slots[3].ways.at(1).count, 1U);
    // The other end sees the same from the other side.
    auto const seen = slots_between(2, 3, {7}, false);
    ASSERT_EQ(seen.size(), 5U);
    EXPECT_EQ(seen[4].ways.at(2).nic, slots[4].ways.at(2).far_nic);
    EXPECT_EQ(seen[4].ways.at(2).far_nic, 1U);
    // One NIC each, and nobody to pass on: there is nothing to spare.
    EXPECT_EQ(slots_between(1, 1, {}, true).size(), 1U);
    EXPECT_EQ(slots_between(1, 1, servers(3), true).size(), 2U);
}

TEST_F(LinkSpares, AreNotMadeWhereAllIsWell) {
    Rails rails(1, 2, 2, much());
    rails.pass(2 * kSecond);  // a dial may fail at first
    std::uint64_t const before = rails.dials();
    EXPECT_TRUE(rails.run());
    rails.pass(60 * kSecond);
    EXPECT_EQ(rails.dials(), before);
    EXPECT_EQ(rails.describe().find("through"), std::string::npos) << rails.describe();
}

TEST_F(LinkSpares, CarryAllWhereThereIsNoDirectWire) {
    Rails rails(2, 2, 1, much());
    rails.pass(50 * kMillisecond);
    rails.change([&] {
        rails.down[0] = {0};
        rails.down[1] = {1};
    });
    EXPECT_TRUE(rails.run()) << rails.one.why();
    EXPECT_EQ(rails.wrong(), "");
    EXPECT_NE(rails.describe().find("NIC 1, through relay 0"), std::string::npos)
        << rails.describe();
}

TEST_F(LinkSpares, AreThereFromTheBeginningIfTheyMust) {
    Rails rails(3, 3, 2);
    rails.down[0] = {0, 1};
    rails.down[1] = {2};
    rails.gone = {0};
    EXPECT_TRUE(rails.run()) << rails.one.why();
    EXPECT_EQ(rails.wrong(), "");
    EXPECT_NE(rails.describe().find("NIC 2, through relay 1"), std::string::npos)
        << rails.describe();
}

TEST_F(LinkSpares, GoStraightWhereTheNetworkDoes) {
    Rails rails(4, 2, 0);
    rails.routed = true;
    rails.down[0] = {0};
    rails.down[1] = {1};
    EXPECT_TRUE(rails.run()) << rails.one.why();
    EXPECT_EQ(rails.wrong(), "");
    EXPECT_EQ(rails.describe().find("through"), std::string::npos) << rails.describe();
}

TEST_F(LinkSpares, YieldWhenDirectWiresComeBack) {
    Rails rails(5, 2, 1, much());
    rails.down[0] = {0};
    rails.down[1] = {1};
    rails.pass(8 * kSecond);
    EXPECT_NE(rails.describe().find("through"), std::string::npos) << rails.describe();
    rails.change([&] { rails.down[0].clear(); });
    rails.pass(10 * kSecond);
    EXPECT_EQ(rails.describe().find("through"), std::string::npos) << rails.describe();
    std::uint64_t const before = rails.dials();
    EXPECT_TRUE(rails.run()) << rails.one.why();
    EXPECT_EQ(rails.wrong(), "");
    EXPECT_LT(rails.dials(), before + 100) << "NIC 1, whose rail may be what is broken";
}

/// A relay's wire is of use although there are direct ones, since these are a small part of what there is.
TEST_F(LinkSpares, HelpWhereDirectWiresAreFarSlower) {
    TrafficOptions traffic;
    traffic.segments = 600;  // for half a minute
    traffic.most_bytes = 20'000;
    traffic.flows = 6;
    traffic.pool = 8;
    Rails rails(6, 3, 1, traffic);
    for (std::uint32_t slot = 0; slot < 6; ++slot)
        rails.network.slow(slot, slot < 2 ? 0.0002 : 0.01);
    rails.pass(10 * kSecond);
    EXPECT_GT(rails.dials(), 0U) << rails.describe();
    auto const counts = rails.network.link(0).counts();
    EXPECT_GT((*counts)[3].segments.value() + (*counts)[4].segments.value(), 0U)
        << rails.describe();
    EXPECT_TRUE(rails.run()) << rails.describe();
    rails.pass(10 * kSecond);
    EXPECT_EQ(rails.describe().find("through"), std::string::npos)
        << "nothing waits: " << rails.describe();
    EXPECT_EQ(rails.wrong(), "");
}

TEST_F(LinkSpares, NothingIsReachedByAnyWay) {
    Rails rails(7, 2, 2);
    rails.pass(50 * kMillisecond);
    rails.change([&] { rails.down[1] = {0, 1}; });
    rails.network.run(rails.network.now + 60 * kSecond, [&] { return rails.over(); });
    EXPECT_TRUE(rails.one.complete() || rails.one.has_failed());
    EXPECT_TRUE(rails.over());
    EXPECT_EQ(rails.wrong(), "");
}

/// Servers of which only neighbours are joined, by turns through NICs of even and of odd numbers: the first end,
/// relays in the order of their numbers, the last end.
std::function<bool(Hop const&)> chain(std::uint32_t relays) {
    return [=](Hop const& hop) {
        std::uint32_t const from = hop.from == Hop::kEnd ? 0 : hop.from + 1;
        std::uint32_t const to = hop.to == Hop::kEnd ? relays + 1 : hop.to + 1;
        return (to == from + 1 || from == to + 1) && hop.nic % 2 == std::min(from, to) % 2;
    };
}

TEST_F(LinkSpares, GoThroughAsManyRelaysAsItTakes) {
    for (std::uint32_t const relays : {1U, 2U, 3U}) {
        Rails rails(20 + relays, 2, relays);
        rails.joins = chain(relays);
        EXPECT_TRUE(rails.run()) << rails.one.why();
        EXPECT_EQ(rails.wrong(), "");
        std::string all = "NIC 0, through relay 0";
        for (std::uint32_t r = 1; r < relays; ++r) all += ", relay " + std::to_string(r);
        EXPECT_NE(rails.describe().find(all + ")"), std::string::npos) << rails.describe();
    }
}

TEST_F(LinkSpares, GoThroughNoMoreThanThree) {
    Rails rails(24, 2, 4);
    rails.joins = chain(4);
    rails.run(60 * kSecond);
    EXPECT_TRUE(rails.one.has_failed() && rails.two.has_failed());
    EXPECT_EQ(rails.wrong(), "");
}

/// A way of many, by relays that know at once where they cannot go: no more tries than there are hops.
TEST_F(LinkSpares, FindTheOnlyWayOfMany) {
    std::uint32_t const relays = 12;
    Rails rails(25, 2, relays);
    rails.joins = [&](Hop const& hop) {
        auto const is = [&](std::uint32_t from, std::uint32_t to, std::uint32_t nic) {
            return hop.from == from && hop.to == to && hop.far_nic == nic;
        };
        return is(Hop::kEnd, 9, 1) || is(9, 4, 0) || is(4, 7, 1) || is(7, Hop::kEnd, 0);
    };
    EXPECT_TRUE(rails.run()) << rails.one.why();
    EXPECT_EQ(rails.wrong(), "");
    EXPECT_NE(rails.describe().find("NIC 1, through relay 9, relay 4, relay 7)"), std::string::npos)
        << rails.describe();
}

/// Wherever there is a way at all it is found before the link is over; else both ends know.
TEST_F(LinkSpares, FindAWayWhereThereIsOne) {
    for_seeds(200, [](std::uint64_t seed) {
        Random random(seed);
        TrafficOptions traffic;
        traffic.flows = 1;
        traffic.segments = 20;
        auto const nics = std::uint32_t(1 + random.below(3));
        auto const relays = std::uint32_t(1 + random.below(6));
        Rails rails(seed, nics, relays, traffic);
        std::set<Hop> hops;
        std::uint64_t const often = 2 + random.below(8);
        for (std::uint32_t from = 0; from <= relays; ++from) {
            for (std::uint32_t to = 0; to <= relays; ++to) {
                for (std::uint32_t nic = 0; nic < nics; ++nic) {
                    if (!random.one_in(often) || (from == relays && to == relays)) continue;
                    hops.insert({from == relays ? Hop::kEnd : from, to == relays ? Hop::kEnd : to,
                                 nic, nic});
                }
            }
        }
        rails.joins = [hops](Hop const& hop) { return hops.contains(hop); };
        rails.run(60 * kSecond);
        ASSERT_EQ(rails.wrong(), "");
        ASSERT_TRUE(rails.over()) << rails.describe();
        ASSERT_EQ(rails.complete(), rails.is_joined()) << rails.one.why();
    });
}

/// NICs and relays go and come at any time; one relay, and a NIC of each end, are always there.
TEST_F(LinkSpares, LoseNothing) {
    for_seeds(300, [](std::uint64_t seed) {
        Random random(seed);
        TrafficOptions traffic;
        traffic.flows = 1 + std::uint32_t(random.below(4));
        traffic.segments = 20 + random.below(400);
        std::uint32_t const nics = 2 + std::uint32_t(random.below(3));
        std::uint32_t const relays = 1 + std::uint32_t(random.below(3));
        Rails rails(seed, nics, relays, traffic, 60 * kSecond);
        rails.routed = random.one_in(4);
        std::uint32_t const kept[] = {std::uint32_t(random.below(nics)),
                                      std::uint32_t(random.below(nics))};
        for (std::uint64_t i = 0; i < 1 + random.below(12); ++i) {
            rails.network.at(rails.network.now + random.below(4 * kSecond), [&] {
                rails.change([&] {
                    int const end = int(random.below(2));
                    auto const nic = std::uint32_t(random.below(nics));
                    if (nic != kept[end] && !rails.down[end].erase(nic))
                        rails.down[end].insert(nic);
                    auto const relay = std::uint32_t(random.below(relays));
                    if (relay != 0 && !rails.gone.erase(relay)) rails.gone.insert(relay);
                });
            });
        }
        for (std::uint64_t i = 0; i < random.below(4); ++i) {
            rails.network.at(rails.network.now + random.below(4 * kSecond),
                             [&] { rails.network.reset(std::uint32_t(random.below(2 * nics))); });
        }
        rails.run();
        ASSERT_EQ(rails.wrong(), "");
        ASSERT_TRUE(rails.complete())
            << rails.one.why() << " / " << rails.two.why() << " / " << rails.describe();
    });
}

/// Whatever happens to wires of all kinds: everything, or an error at both ends.
TEST_F(LinkSpares, EverythingOrAnError) {
    for_seeds(200, [](std::uint64_t seed) {
        Rails rails(seed, 2, 2);
        Network& network = rails.network;
        auto const some_slot = [&] { return std::uint32_t(network.random.below(4)); };
        for (std::uint64_t i = 0; i < network.random.below(20); ++i) {
            network.at(network.now + network.random.below(5 * kSecond),
                       [&] { network.misfortune(some_slot(), int(network.random.below(2))); });
            network.at(network.now + network.random.below(5 * kSecond), [&] {
                rails.change([&] {
                    auto& down = rails.down[network.random.below(2)];
                    auto const nic = std::uint32_t(network.random.below(2));
                    if (!down.erase(nic)) down.insert(nic);
                });
            });
        }
        rails.run();
        ASSERT_EQ(rails.wrong(), "");
        ASSERT_TRUE(rails.over()) << rails.describe();
    });
}

}  // namespace
}  // namespace mgi::test
