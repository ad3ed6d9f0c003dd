// A registration for which one message has no room.

#include <gtest/gtest.h>

#include <vector>

#include "core_fixture.hpp"

namespace mgi::control::test {
namespace {

/// Whose messages have room for one thing.
class CoreInParts : public Core {
protected:
    CoreInParts() : Core(small()) {}
    static CoreOptions small() {
        CoreOptions made = options();
        made.part_bytes = 1;
        return made;
    }
};

TEST_F(CoreInParts, WhatARegistrationHasNoRoomForFollowsIt) {
    register_agent();
    EXPECT_FALSE(ports_.sent.back().register_().more());
    Json held = {{"channel", 5u}, {"generation", 3u}, {"request", "request"}, {"created", true}};
    ClusterChannelSpec spec;
    spec.sources = {55};
    spec.destinations = {56};
    add_spec(held, spec);
    hello(1, {{"endpoints",
               {{{"endpoint", 55u}, {"vertex", 1u}}, {{"endpoint", 56u}, {"vertex", 0u}}}},
              {"channels", {held}}});
    ASSERT_EQ(ports_.sent.size(),
              4u);  // with no registration under way: three, none of them the last
    for (std::size_t i = 1; i < 4; ++i) EXPECT_FALSE(ports_.sent[i].held().last());
    EXPECT_EQ(ports_.sent[3].held().channels(0).id(), 5u);

    core_.session_broken(1, "broken", now_);
    register_agent();
    ASSERT_EQ(ports_.sent.size(), 7u);
    Register const& registration = ports_.sent[4].register_();
    EXPECT_TRUE(registration.more());
    ASSERT_EQ(registration.endpoints_size(), 1);
    EXPECT_EQ(registration.endpoints(0).id(), 55u);
    ASSERT_EQ(ports_.sent[5].held().endpoints_size(), 1);
    EXPECT_EQ(ports_.sent[5].held().endpoints(0).id(), 56u);
    EXPECT_FALSE(ports_.sent[5].held().last());
    ASSERT_EQ(ports_.sent[6].held().channels_size(), 1);
    EXPECT_TRUE(ports_.sent[6].held().last());
}

TEST_F(CoreInParts, TheLastPartIsSaidEvenIfNothingIsLeft) {
    register_agent();
    hello(1, {{"endpoints",
               {{{"endpoint", 55u}, {"vertex", 1u}}, {{"endpoint", 56u}, {"vertex", 0u}}}}});
    core_.session_broken(1, "broken", now_);
    while (!ports_.open) wait(Milliseconds(1));
    ASSERT_TRUE(ports_.sent.back().register_().more());
    core_.application_left(1, "its process has ended", now_);
    register_agent();
    EXPECT_TRUE(ports_.sent.back().held().last());
    EXPECT_EQ(ports_.sent.back().held().endpoints_size(), 0);
}

}  // namespace
}  // namespace mgi::control::test
