/// \file
/// Applications with an endpoint each, and channels between them, in a cluster in virtual time.
#pragma once

#include <gtest/gtest.h>

#include <initializer_list>
#include <string>

#include "control/agent/world.hpp"
#include "control/local/words.hpp"

namespace mgi::control::test {

struct Party {
    Node* node = nullptr;
    ApplicationId application = 0;
    std::uint32_t endpoint = 0;
    std::uint32_t vertex = 0;
};

class ClusterOfAgents : public ::testing::Test {
protected:
    Party party(World& world, std::size_t node, std::string const& name = "query") {
        Party made{&world.node(node), world.node(node).application(name), 0, 0};
        Json const answer = world.answer(*made.node, made.application, {{"op", "create_endpoint"}});
        EXPECT_TRUE(answer.contains("endpoint")) << answer;
        made.endpoint = answer.value("endpoint", 0u);
        made.vertex = answer.value("vertex", 0u);
        return made;
    }

    Json channel_request(Party const& from, Party const& to) {
        ClusterChannelSpec spec;
        spec.name = "flow";
        spec.sources = {from.endpoint};
        spec.destinations = {to.endpoint};
        Json request = {{"op", "create_channel"}};
        add_spec(request, spec);
        return request;
    }

    ClusterPlan channel(World& world, Party const& from, Party const& to) {
        Json const answer = world.answer(*from.node, from.application, channel_request(from, to));
        EXPECT_TRUE(answer.contains("ok")) << answer;
        return plan_in(answer);
    }

    /// As a client says it after its agent's restart.
    Json held(Party const& party, ClusterPlan const& plan, bool created) {
        Json channel = {{"channel", plan.channel},
                        {"generation", plan.generation},
                        {"request", plan.request},
                        {"created", created}};
        add_spec(channel, plan.spec);
        return {{"endpoints", {{{"endpoint", party.endpoint}, {"vertex", party.vertex}}}},
                {"channels", {channel}}};
    }

    static std::string state_of(World& world, std::uint32_t channel) {
        for (ChannelView const& view : world.snapshot().channels) {
            if (view.id == channel) return view.state;
        }
        return "none";
    }
    static std::string server_state(World& world, std::string const& name) {
        for (ServerView const& view : world.snapshot().servers) {
            if (view.name == name) return view.state;
        }
        return "none";
    }
    /// Told of no channel's failure and of no endpoint's loss.
    static bool nobody_lost(std::initializer_list<Party> parties) {
        for (Party const& party : parties) {
            if (!party.node->notices(party.application, "channel_ended").empty()) return false;
            if (!party.node->notices(party.application, "endpoint_lost").empty()) return false;
        }
        return true;
    }
};

}  // namespace mgi::control::test
