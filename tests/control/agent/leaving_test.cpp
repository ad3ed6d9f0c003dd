// Applications that leave a channel and end, whatever is restarted meanwhile, in virtual time.
#include <gtest/gtest.h>

#include <string>

#include "control/agent/parties.hpp"

namespace mgi::control::test {
namespace {

class LeavingAgents : public ClusterOfAgents {
protected:
    static void leave(Party const& party, std::uint32_t channel) {
        std::uint64_t const id =
            party.node->ask(party.application, {{"op", "leave_channel"}, {"channel", channel}});
        Json const answer = party.node->answer(party.application, id).value();
        EXPECT_TRUE(answer.contains("ok")) << answer;
    }
    /// As its client says it, which has left.
    Json gone(Party const& party, ClusterPlan const& plan, bool creator) {
        Json message = held(party, plan, false);
        Json& channel = message["channels"][0];
        channel["left"] = runs_of({party.endpoint});
        channel["gone"] = true;
        channel["creator_left"] = creator;
        return message;
    }
    static bool ended(Party const& party) {
        return !party.node->notices(party.application, "channel_ended").empty();
    }
    static void restart_controller(World& world) {
        world.kill_controller();
        world.run(Milliseconds(300));
        world.start_controller();
        world.run(Milliseconds(500));
    }
};

TEST_F(LeavingAgents, WhoHasLeftMayEnd) {
    World world(2);
    Party const a = party(world, 0);
    Party const b = party(world, 1);
    Party const c = party(world, 1);
    ClusterPlan const plan = channel(world, a, b);
    leave(a, plan.channel);
    a.node->leave(a.application);
    world.run(Milliseconds(15'000));
    EXPECT_TRUE(nobody_lost({b, c}));
    EXPECT_EQ(state_of(world, plan.channel), "running");
    EXPECT_EQ(a.node->core().status()["channels"], 0u);
    EXPECT_EQ(b.node->notices(b.application, "channel_left").size(), 1u);
    leave(b, plan.channel);
    ASSERT_TRUE(world.run_until([&] { return ended(b); }));
    EXPECT_EQ(b.node->notices(b.application, "channel_ended")[0]["failed"], false);
    EXPECT_EQ(b.node->core().status()["channels"], 0u);
}

TEST_F(LeavingAgents, OthersMayNotLeaveForOne) {
    World world(2);
    Party const a = party(world, 0);
    Party const b = party(world, 1);
    Party const other = party(world, 0);
    ClusterPlan const plan = channel(world, a, b);
    Json const answer = world.answer(*other.node, other.application,
                                     {{"op", "leave_channel"}, {"channel", plan.channel}});
    ASSERT_TRUE(answer.contains("error")) << answer;
    // What has ended is left already.
    leave(other, plan.channel + 100);
}

// Whatever dies at whatever moment, and in whatever order: who has left owes nothing.
TEST_F(LeavingAgents, SurvivesRestartsOfAgentsAndController) {
    for (int moment = 0; moment < 8; ++moment) {
        for (int what = 0; what < 6; ++what) {
            SCOPED_TRACE(std::to_string(moment) + " ms, case " + std::to_string(what));
            World world(2, std::uint64_t(moment) + 1);
            Party a = party(world, 0);
            Party b = party(world, 1);
            ClusterPlan const plan = channel(world, a, b);
            leave(a, plan.channel);
            world.run(Milliseconds(moment));
            auto const restart_a = [&] {
                // Its client knows that it has left, until it hears of the channel's end here.
                bool const knows = ended(a);
                a.node->kill();
                world.run(Milliseconds(200));
                a.node->start();
                world.run(Milliseconds(200));
                Json held_by_a = gone(a, plan, true);
                if (knows) held_by_a.erase("channels");
                a.application = a.node->application("query", held_by_a);
            };
            auto const restart_b = [&] {
                Json held_by_b = held(b, plan, false);
                if (!b.node->notices(b.application, "channel_left").empty()) {
                    held_by_b["channels"][0]["left"] = runs_of({a.endpoint});
                }
                b.node->kill();
                world.run(Milliseconds(200));
                b.node->start();
                world.run(Milliseconds(200));
                b.application = b.node->application("query", held_by_b);
                world.run(Milliseconds(200));  // only the controller may know who has left
            };
            switch (what) {
                case 0: restart_controller(world); break;
                case 1: restart_a(); break;
                case 2: restart_b(); break;
                case 3:
                    restart_a();
                    restart_controller(world);
                    break;
                case 4:
                    restart_b();
                    restart_controller(world);
                    break;
                default:
                    restart_controller(world);
                    restart_b();
                    restart_a();
            }
            world.run(Milliseconds(2000));
            a.node->leave(a.application);
            world.run(Milliseconds(15'000));
            ASSERT_TRUE(nobody_lost({b}));
            ASSERT_EQ(state_of(world, plan.channel), "running");
            restart_controller(world);
            world.run(Milliseconds(15'000));
            ASSERT_TRUE(nobody_lost({b}));
            ASSERT_EQ(state_of(world, plan.channel), "running");
            leave(b, plan.channel);
            ASSERT_TRUE(world.run_until([&] { return ended(b); }));
            ASSERT_EQ(b.node->notices(b.application, "channel_ended")[0]["failed"], false);
        }
    }
}

TEST_F(LeavingAgents, WithoutAControllerItIsSaidLater) {
    World world(2);
    Party const a = party(world, 0);
    Party const b = party(world, 1);
    ClusterPlan const plan = channel(world, a, b);
    world.kill_controller();
    world.run(Milliseconds(100));
    leave(a, plan.channel);
    a.node->leave(a.application);
    world.run(Milliseconds(1000));
    world.start_controller();
    world.run(Milliseconds(15'000));
    EXPECT_TRUE(nobody_lost({b}));
    EXPECT_EQ(state_of(world, plan.channel), "running");
    EXPECT_EQ(a.node->core().status()["channels"], 0u);
}

}  // namespace
}  // namespace mgi::control::test
