// Applications that leave channels in any order, in clusters whose agents and controllers are restarted at
// any moment, one after the other: whoever stays keeps the channel. In virtual time, by seed.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "control/agent/parties.hpp"
#include "support/cases.hpp"

namespace mgi::control::test {
namespace {

/// What an application's client remembers (control/local/client_held.cpp), over its agent's restarts.
struct Member {
    struct Held {
        ClusterPlan plan;
        bool created = false;
        std::set<std::uint32_t> left = {};
        bool gone = false;
        bool creator_left = false;
    };

    Party party;
    std::map<std::uint32_t, Held> channels = {};
    bool ended = false;
    std::vector<std::string> losses = {};

    /// What it was told so far.
    void listen() {
        Node& node = *party.node;
        for (Json const& notice : node.notices(party.application, "channel_left")) {
            auto const held = channels.find(notice["channel"].get<std::uint32_t>());
            if (held == channels.end()) continue;
            for (std::uint32_t const id : ids_in(notice, "endpoints")) held->second.left.insert(id);
        }
        for (Json const& notice : node.notices(party.application, "channel_ended")) {
            if (notice["failed"].get<bool>()) losses.push_back(notice.dump());
            channels.erase(notice["channel"].get<std::uint32_t>());
        }
        for (Json const& notice : node.notices(party.application, "endpoint_lost")) {
            losses.push_back(notice.dump());
        }
    }
    [[nodiscard]] Json hello() const {
        Json held = Json::array();
        for (auto const& [id, of] : channels) {
            Json channel = {{"channel", id},
                            {"generation", of.plan.generation},
                            {"request", of.plan.request},
                            {"created", of.created},
                            {"left", runs_of({of.left.begin(), of.left.end()})},
                            {"gone", of.gone},
                            {"creator_left", of.creator_left}};
            add_spec(channel, of.plan.spec);
            held.push_back(std::move(channel));
        }
        return {{"endpoints", {{{"endpoint", party.endpoint}, {"vertex", party.vertex}}}},
                {"channels", std::move(held)}};
    }
    void leave(std::uint32_t id) {
        listen();
        auto const held = channels.find(id);
        if (ended || held == channels.end() || held->second.gone) return;
        Json const leaving = {{"op", "leave_channel"}, {"channel", id}};
        std::uint64_t const request = party.node->ask(party.application, leaving);
        EXPECT_TRUE(party.node->answer(party.application, request)->contains("ok"));
        held->second.gone = true;
        held->second.creator_left = held->second.created;
        held->second.created = false;
        held->second.left.insert(party.endpoint);
    }
    [[nodiscard]] bool in_any() const {
        return std::any_of(channels.begin(), channels.end(),
                           [](auto const& held) { return !held.second.gone; });
    }
};

class LeavingWorlds : public ClusterOfAgents {
protected:
    void run(std::uint64_t seed) {
        World world(3, seed);
        std::mt19937_64 random(seed);
        auto const below = [&](std::size_t most) { return std::size_t(random() % most); };
        std::vector<Member> members;
        for (std::size_t i = 0; i < 6; ++i) members.push_back({party(world, below(3))});
        std::vector<std::uint32_t> channels;
        for (int i = 0; i < 4; ++i) channels.push_back(create(world, members, below));
        for (int step = 0; step < 40 && !HasFailure(); ++step) {
            Member& member = members[below(members.size())];
            std::size_t const what = below(12);
            if (what < 5) {
                member.leave(channels[below(channels.size())]);
            } else if (what < 7) {
                member.listen();
                if (!member.in_any() && !member.ended) {
                    member.party.node->leave(member.party.application);
                    member.ended = true;
                    world.run(Milliseconds(200));
                }
            } else if (what < 10) {
                restart(world, members, below(3), Milliseconds(below(300)));
            } else {
                world.kill_controller();
                world.run(Milliseconds(below(1000)));
                world.start_controller();
                world.run(Milliseconds(3000));
            }
            world.run(Milliseconds(below(20)));
            expect_nothing_lost(members);
        }
        world.run(Milliseconds(15'000));
        expect_nothing_lost(members);
        for (Member& member : members) {
            for (std::uint32_t const id : channels) member.leave(id);
        }
        EXPECT_TRUE(world.run_until([&] {
            for (std::size_t n = 0; n < world.size(); ++n) {
                if (world.node(n).core().status()["channels"] != 0u) return false;
            }
            auto const shown = world.snapshot().channels;
            return std::none_of(shown.begin(), shown.end(), [](ChannelView const& view) {
                return view.state == "running" || view.state == "recovering";
            });
        }));
        expect_nothing_lost(members);
    }

private:
    template <class Below>
    static std::uint32_t create(World& world, std::vector<Member>& members, Below const& below) {
        ClusterChannelSpec spec;
        spec.name = "flow";
        std::set<std::size_t> in;
        for (auto* ids : {&spec.sources, &spec.destinations}) {
            for (std::size_t i = 0; i < members.size(); ++i) {
                if (below(2) == 0 && !(ids->empty() && i + 1 == members.size())) continue;
                ids->push_back(members[i].party.endpoint);
                in.insert(i);
            }
        }
        Member& creator = members[*in.begin()];
        Json request = {{"op", "create_channel"}};
        add_spec(request, spec);
        Json const answer =
            world.answer(*creator.party.node, creator.party.application, std::move(request));
        EXPECT_TRUE(answer.contains("ok")) << answer;
        ClusterPlan const plan = plan_in(answer);
        world.run(Milliseconds(100));
        for (std::size_t const i : in) members[i].channels[plan.channel] = {plan};
        creator.channels[plan.channel].created = true;
        return plan.channel;
    }
    static void restart(World& world, std::vector<Member>& members, std::size_t node,
                        Milliseconds until_they_come) {
        for (Member& member : members) member.listen();
        world.node(node).kill();
        world.run(Milliseconds(200));
        world.node(node).start();
        world.run(until_they_come);
        for (Member& member : members) {
            if (member.party.node != &world.node(node) || member.ended) continue;
            member.party.application = member.party.node->application("query", member.hello());
        }
        world.run(Milliseconds(3000));
    }
    static void expect_nothing_lost(std::vector<Member>& members) {
        for (Member& member : members) {
            if (!member.ended) member.listen();
            for (std::string const& loss : member.losses) ADD_FAILURE() << loss;
            member.losses.clear();
        }
    }
};

TEST_F(LeavingWorlds, WhoStaysKeepsTheChannel) {
    for (std::uint64_t seed = 1; seed <= mgi::test::cases(60U) && !HasFailure(); ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        run(seed);
    }
}

}  // namespace
}  // namespace mgi::control::test
