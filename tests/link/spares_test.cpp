// Spare wires in virtual time: NICs that reach only those of their own number, or all of them, and third
// processes that pass on.
#include <gtest/gtest.h>

#include <functional>
#include <set>
#include <string>

#include <mgi/runtime.hpp>

#include "link/seeds.hpp"
#include "link/traffic.hpp"
#include "mover/link/slots.hpp"

namespace mgi::test {
namespace {

using mover::link::kMillisecond;
using mover::link::kSecond;
using mover::link::slots_between;
using mover::link::Way;

/// Two processes, whose NICs are joined by rails, and relays that have a NIC on each.
class Rails {
public:
    Rails(std::uint64_t seed, std::uint32_t nics, std::uint32_t relays, TrafficOptions traffic = {},
          Time link_limit = 10 * kSecond)
        : network(seed),
          nics_(nics),
          slots_(slots_between(nics, nics, relays, true)),
          one(network, 0, traffic),
          two(network, 1, traffic) {
        mover::link::LinkOptions link;
        link.slots = slots_;
        link.checksums = true;
        link.link_limit = link_limit;
        for (std::uint32_t r = 0; r < relays; ++r)
            link.relays.push_back("relay " + std::to_string(r));
        network.reaches = [this](std::uint32_t slot, std::uint64_t generation) {
            Way const way = way_of(slot, generation);
            if (down[0].contains(way.nic) || down[1].contains(way.far_nic)) return false;
            if (way.relay != Way::kDirect) return !gone.contains(way.relay);
            return routed || way.nic == way.far_nic;
        };
        network.connect(link, one, two);
        one.push();
        two.push();
    }
    [[nodiscard]] Way way_of(std::uint32_t slot, std::uint64_t generation) const {
        return mover::link::way_of(slots_[slot], generation);
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
    std::set<std::uint32_t> down[2];  ///< NICs, by end
    std::set<std::uint32_t> gone;     ///< relays
    bool routed = false;              ///< NICs reach those of all rails

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
    auto const slots = slots_between(2, 3, 1, true);
    ASSERT_EQ(slots.size(), 5U);
    EXPECT_EQ(slots[2].nic, 0U);
    EXPECT_EQ(slots[2].far_nic, 2U);
    EXPECT_EQ(slots[3].ways.size(), 2U + 3U);
    for (Way const& way : slots[4].ways) EXPECT_EQ(way.nic, 1U);
    EXPECT_EQ(slots[3].ways[0].far_nic, 1U) << "first another rail";
    EXPECT_EQ(slots[3].ways[0].relay, Way::kDirect);
    EXPECT_EQ(slots[3].ways[1].relay, 0U);
    // The other end sees the same from the other side.
    auto const seen = slots_between(2, 3, 1, false);
    ASSERT_EQ(seen.size(), 5U);
    EXPECT_EQ(seen[4].ways[2].nic, slots[4].ways[2].far_nic);
    EXPECT_EQ(seen[4].ways[2].far_nic, 1U);
    // One NIC each, and nobody to pass on: there is nothing to spare.
    EXPECT_EQ(slots_between(1, 1, 0, true).size(), 1U);
    EXPECT_EQ(slots_between(1, 1, 3, true).size(), 2U);
    EXPECT_LE(slots_between(64, 64, 8, true).back().ways.size(), 64U);
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
    TrafficOptions traffic = much();
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
