// Inboxes: how the groups of a destination share out what sources have for it in place.

#include "channel_test.hpp"

namespace mgi::relacy {
namespace {

/// Two groups send, two receive: each segment goes to one of them, and its slot is filled anew behind it.
struct Claims : OneLane<Claims, 2, 2> {
    static TableOptions options() { return {.inbox = true}; }
    static constexpr Sends sends[] = {{3, 1}, {3, 2}};
};
Listed<Claims> const claims("inbox.claims", "no row lost or doubled, no early end", 60'000);

/// The chunks of a segment go to two groups; the last one frees its slot. The last segment has one chunk less.
struct Chunks : OneLane<Chunks, 1, 2> {
    static TableOptions options() { return {.chunk_rows = 1, .inbox = true}; }
    static constexpr Sends sends[] = {{5, 2}};
};
Listed<Chunks> const chunks("inbox.chunks", "a slot is filled anew when all its readers are done",
                            60'000);

/// Segments of one row, which several groups complete in any order.
struct Order : OneLane<Order, 2, 1> {
    static TableOptions options() { return {.capacity = 1, .ordered = true, .inbox = true}; }
    static constexpr Sends sends[] = {{3}, {3}};
};
Listed<Order> const order("inbox.order",
                          "an ordered destination gets a source's segments in sequence", 50'000);

/// Two sources, two groups that receive from both.
struct Sources : ChannelScenario<Sources, 4> {
    static TableOptions options() { return {.sources = 2, .capacity = 1, .inbox = true}; }
    void thread(unsigned index) {
        if (index < 2) {
            send_and_flush(index, 0, 1, 2);
        } else {
            receive_all(0, index - 2, 2);
        }
    }
    void check() { all_arrived(4); }
};
Listed<Sources> const sources("inbox.sources",
                              "the end comes behind the last row of all sources, and comes",
                              60'000);

/// A group looks a few times and is never called again, perhaps while it holds a number: another one gets all that it
/// has not got.
struct Leaves : ChannelScenario<Leaves, 3> {
    static TableOptions options() { return {.capacity = 1, .inbox = true}; }
    void thread(unsigned index) {
        if (index == 0) {
            send_and_flush(0, 0, 1, 5);
        } else if (index == 1) {
            Member me(0, 2);
            u32 const looks = rl::rand(4);
            for (u32 i = 0; i < looks; ++i) flow().receive(me, 0);
        } else {
            receive_all(0, 1, 2);
        }
    }
    void check() { all_arrived(5); }
};
Listed<Leaves> const leaves("inbox.leaves", "no row stays with a group that has left", 60'000);

/// More groups receive than there are places for what they hold, as those of several launches may.
struct Crowd : ChannelScenario<Crowd, 3> {
    static TableOptions options() { return {.groups = 1, .capacity = 1, .inbox = true}; }
    void thread(unsigned index) {
        if (index == 0) {
            send_and_flush(0, 0, 1, 4);
        } else {
            receive_all(0);
        }
    }
    void check() { all_arrived(4); }
};
Listed<Crowd> const crowd("inbox.crowd", "who finds no place for a number draws none", 60'000);

/// A host looks on: once it finds every number taken, no group holds one of a segment that comes.
struct Watched : ChannelScenario<Watched, 4> {
    static TableOptions options() { return {.capacity = 1, .inbox = true}; }
    void thread(unsigned index) {
        if (index == 0) {
            send_and_flush(0, 0, 1, 3);
        } else if (index < 3) {
            receive_all(0, index - 1, 2);
        } else {
            watch();
        }
    }
    void watch() {
        State const& state = flow().tables.state;
        Destination<A> const& at = state.destinations[0];
        for (u32 looks = 0; looks < 20; ++looks) {
            if (are_taken(*at.rings[0].inbox, at, state.max_groups, 0, 3)) {
                for (u32 g = 0; g < state.max_groups; ++g) {
                    u64 const held = at.inbox_receivers[g].holds[0].newest();
                    RL_ASSERT(held == 0 || held > 3);
                }
                return;
            }
            A::backoff(0);
        }
    }
    void check() { all_arrived(3); }
};
Listed<Watched> const watched("inbox.watched", "a host takes nothing for taken that is held",
                              450'000);

/// A host looks on while a group lets go of a number that nothing comes for; another group holds one that has come, and
/// is never called again.
struct LetGo : ChannelScenario<LetGo, 2> {
    static TableOptions options() { return {.capacity = 1, .inbox = true}; }
    void prepare() {
        ChannelScenario::prepare();
        send_and_flush(0, 0, 1, 2);
        Destination<A>& at = flow().tables.state.destinations[0];
        Inbox<A>& inbox = *at.rings[0].inbox;
        (void)inbox.draw();
        inbox.take();
        for (u32 g = 0; g < 2; ++g) at.inbox_receivers[g].holds[0].store(inbox.draw() + 1, relaxed);
    }
    void thread(unsigned index) {
        if (index == 0) {
            Member me(1, 2);
            RL_ASSERT(flow().receive(me, 0) == Status::Pending);
            return;
        }
        State const& state = flow().tables.state;
        Destination<A> const& at = state.destinations[0];
        for (u32 looks = 0; looks < 3; ++looks) {
            RL_ASSERT(!are_taken(*at.rings[0].inbox, at, state.max_groups, 0, 2));
        }
    }
    void check() {}
};
Listed<LetGo> const let_go("inbox.let-go", "a host takes nothing for taken that is still held",
                           20'000);

/// Two groups share segments and flush; what they sent can be received behind it.
struct Done : ChannelScenario<Done, 2> {
    static TableOptions options() { return {.slots = 4, .inbox = true}; }
    void thread(unsigned index) { flush_then_receive(index); }
    void check() { all_arrived(5); }
};
Listed<Done> const done("inbox.flush", "flush is done when the rows can be received", 50'000);

}  // namespace
}  // namespace mgi::relacy
