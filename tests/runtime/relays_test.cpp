#include "runtime/relays.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include <mgi/error.hpp>

#include "mover/link/slots.hpp"

namespace mgi::test {
namespace {

using mover::link::Way;
using transport::wire::Onward;

PartMembers on_servers(std::vector<std::uint32_t> servers) {
    PartMembers members;
    members.count = std::uint32_t(servers.size());
    members.server = std::move(servers);
    return members;
}

TEST(Relays, AreMembersOfThirdServersAndTheSameForBothEnds) {
    PartMembers const members = on_servers({0, 0, 1, 2, 2});
    using Numbers = std::vector<std::uint32_t>;
    EXPECT_EQ(relays_between(members, 0, 3), Numbers{2});
    EXPECT_EQ(relays_between(members, 3, 0), Numbers{2});
    Numbers const two = relays_between(members, 0, 2);
    EXPECT_TRUE(std::is_permutation(two.begin(), two.end(), Numbers{3, 4}.begin()));
    EXPECT_NE(two, relays_between(members, 1, 2)) << "others begin with others";
    EXPECT_TRUE(relays_between(on_servers({0, 1, 1}), 0, 2).empty());
    Numbers const of_eight = relays_between(
        on_servers({0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3}), 0, 4);
    ASSERT_EQ(of_eight.size(), 16U);
    EXPECT_EQ(std::count_if(of_eight.begin(), of_eight.begin() + 8, [](auto m) { return m < 16; }),
              4)
        << "half of the first on either server";
    Numbers many(100);
    for (std::uint32_t s = 0; s < 100; ++s) many[s] = s;
    EXPECT_EQ(relays_between(on_servers(many), 3, 50).size(), 32U);
}

// Members 0 and 1 have two NICs; of those who pass on member 2 has one, member 3 two.
class RelayRoutes : public ::testing::Test {
protected:
    std::shared_ptr<MemberAddresses const> const all_ =
        std::make_shared<MemberAddresses const>(MemberAddresses{{"10.1.0.1:50", "10.2.0.1:51"},
                                                                {"10.1.0.2:60", "10.2.0.2:61"},
                                                                {"10.1.0.3:70"},
                                                                {"10.1.0.4:80", "10.2.0.4:81"}});
    std::shared_ptr<Reach> const reach_ = std::make_shared<Reach>();
};

TEST_F(RelayRoutes, GoToTheRelaysNicAndNameTheOtherEnds) {
    auto const slots = mover::link::slots_between(2, 2, {7}, true);
    auto const name = relays_name(77);
    auto const routes = routes_to(1, slots, all_->at(0), {2}, name, all_, reach_);
    EXPECT_EQ(routes(1, 5).remote.text(), "10.2.0.2:61");
    EXPECT_EQ(routes(1, 5).local.text(), "10.2.0.1:0");
    EXPECT_TRUE(routes(1, 5).onward.empty());
    bool relayed = false;
    for (std::uint64_t generation = 0; generation < slots[3].ways.size(); ++generation) {
        Way const way = way_of(slots[3], generation);
        auto const route = routes(3, generation);
        EXPECT_EQ(route.local.text(), "10.2.0.1:0");
        if (way.count == 0) {
            EXPECT_EQ(route.remote.text(), "10.1.0.2:60");
            continue;
        }
        relayed = true;
        EXPECT_EQ(route.remote.text(), "10.1.0.3:70") << "it has no other NIC";
        EXPECT_EQ(route.relays, name);
        ASSERT_EQ(route.onward.size(), 1U);
        EXPECT_EQ(route.onward[0].member, 1U);
        EXPECT_EQ(route.onward[0].nic, way.far_nic);
    }
    EXPECT_TRUE(relayed);
}

TEST_F(RelayRoutes, NameEachRelayAndItsNic) {
    auto const slots = mover::link::slots_between(2, 2, {7, 8}, true);
    auto const routes = routes_to(1, slots, all_->at(0), {2, 3}, relays_name(77), all_, reach_);
    bool found = false;
    for (std::uint64_t generation = 0; generation < slots[2].ways.size(); ++generation) {
        Way const way = way_of(slots[2], generation);
        if (way.count != 2 || way.by[0] != 1 || way.by[1] != 0) continue;
        found = true;
        auto const route = routes(2, generation);
        EXPECT_EQ(route.local.text(), "10.1.0.1:0");
        EXPECT_EQ(route.remote.text(), "10.1.0.4:80");
        ASSERT_EQ(route.onward.size(), 2U);
        EXPECT_EQ(route.onward[0].member, 2U);
        EXPECT_EQ(route.onward[0].nic, way.between[0]);
        EXPECT_EQ(route.onward[1].member, 1U);
        EXPECT_EQ(route.onward[1].nic, way.far_nic);
    }
    EXPECT_TRUE(found);
}

TEST_F(RelayRoutes, GoByNoHopThatIsKnownToLeadNowhere) {
    auto const counts = std::make_shared<mover::link::LinkCounts>(4);
    (*counts)[1].open.set(1);
    reach_->add(3, mover::link::slots_between(2, 2, {7, 8}, true), counts);
    auto const ways = ways_on(1, all_->at(1), all_, reach_);
    EXPECT_THROW((void)ways(Onward{3, 0}), Error);
    EXPECT_TRUE(ways(Onward{3, 1}));
    EXPECT_TRUE(ways(Onward{2, 0})) << "of whom nothing is known";
    auto const slots = mover::link::slots_between(2, 2, {7}, true);
    auto const routes = routes_to(1, slots, all_->at(0), {3}, relays_name(77), all_, reach_);
    EXPECT_THROW((void)routes(2, 1), Error);
    EXPECT_EQ(routes(3, 1).remote.text(), "10.2.0.4:81");
}

TEST_F(RelayRoutes, LeadOnToMembersAlone) {
    auto const ways = ways_on(2, all_->at(2), all_, reach_);
    auto const route = ways(Onward{1, 1});
    ASSERT_TRUE(route);
    EXPECT_EQ(route->remote.text(), "10.2.0.2:61");
    EXPECT_EQ(route->local.text(), "10.1.0.3:0");
    EXPECT_FALSE(ways(Onward{4, 0}));
    EXPECT_FALSE(ways(Onward{UINT32_MAX, 0}));
    EXPECT_FALSE(ways(Onward{2, 0})) << "itself";
}

}  // namespace
}  // namespace mgi::test
