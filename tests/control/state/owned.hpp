/// \file
/// The state machine on a bench, asked by several owners.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "control/state/rig.hpp"

namespace mgi::control::test {

struct Owned : ::testing::Test {
    explicit Owned(Settings const& settings = {}, std::uint64_t epoch = 1,
                   std::uint32_t first_id = 1)
        : rig(settings, epoch, first_id) {}

    Rig rig;

    CallId endpoint(Agent const& agent, std::string const& request, std::string const& owner) {
        return rig.call([&](CallId call, Now now, Effects& effects) {
            CreateEndpointRequest asked;
            *asked.mutable_sender() = agent.sender;
            asked.set_request(request);
            asked.set_vertex(1);
            asked.set_owner(owner);
            rig.cluster.create_endpoint(call, asked, now, effects);
        });
    }
    CallId channel(Agent const& agent, std::string const& request, std::uint32_t from,
                   std::uint32_t to, std::string const& owner) {
        return rig.call([&](CallId call, Now now, Effects& effects) {
            CreateChannelRequest asked;
            *asked.mutable_sender() = agent.sender;
            asked.set_request(request);
            asked.mutable_spec()->set_name("flow");
            asked.mutable_spec()->add_sources(from);
            asked.mutable_spec()->add_destinations(to);
            asked.set_owner(owner);
            rig.cluster.create_channel(call, asked, now, effects);
        });
    }
    CallId gather(Agent const& agent, std::string const& request, std::uint32_t rank,
                  std::string const& owner, std::string const& key = "key",
                  std::uint32_t size = 2) {
        return rig.call([&](CallId call, Now now, Effects& effects) {
            GatherRequest asked;
            *asked.mutable_sender() = agent.sender;
            asked.set_request(request);
            asked.set_key(key);
            asked.set_rank(rank);
            asked.set_size(size);
            asked.set_data(owner);
            asked.set_owner(owner);
            rig.cluster.gather(call, asked, now, effects);
        });
    }
    /// What the planner has before it, planned and accepted by that agent.
    void settle_some(Agent const& agent) {
        auto const asked = rig.plans;
        rig.plan();
        for (MakePlan const& plan : asked) rig.accept(agent, plan.channel, plan.generation);
    }
    /// The same for all that is asked for.
    void settle(Agent const& agent) {
        while (!rig.plans.empty()) settle_some(agent);
    }
    std::uint32_t made(CallId call) {
        EXPECT_EQ(problem(call), Problem::None) << rig.answers.at(call).text;
        return rig.answers.at(call).id;
    }
    void change_link(Agent const& agent, double gbps) {
        AgentMessage change;
        Link& link = *change.mutable_link_change()->mutable_link();
        link.set_from(0);
        link.set_to(1);
        link.set_gbps(gbps);
        rig.say(agent, change);
    }
    Problem problem(CallId call) const { return rig.answers.at(call).problem; }
};

}  // namespace mgi::control::test
