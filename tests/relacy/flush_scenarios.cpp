// Flush, the end, and failure.

#include "channel_test.hpp"

namespace mgi::relacy {
namespace {

/// Whether the segments that hold a group's rows stand in the only queue there is. Looks at the newest
/// values, whatever the caller could see.
bool stands_in_queue(Tables& tables, u32 block) {
    GroupState<A> const& group = tables.state.sources[0].groups[block];
    ReceiveQueue<A> const& queue = *tables.state.destinations[0].queue;
    u64 const last = group.last[0];
    if (last == 0) return true;
    u64 const position = last - 1;
    return u32(queue.entries[position & queue.mask].state.newest() >> 32) >= u32(last);
}

/// Three groups share segments and flush; nobody receives until the first one is done with that.
struct Done : ChannelScenario<Done, 3> {
    static TableOptions options() { return {.groups = 3, .slots = 4}; }
    void thread(unsigned index) {
        Member me(index, 3);
        u32 const rows = index == 0 ? 1 : 2;
        RL_ASSERT(flow().send(me, 0, 0, rows));
        RL_ASSERT(flow().flush(me, 0));
        RL_ASSERT(stands_in_queue(flow().tables, index));
        if (index != 0) return;
        // What flush says is true for who heard it: the rows can be received now.
        while (flow().receive(me, 0) == Status::Ok) {
        }
        RL_ASSERT(flow().has_arrived(0, Flow::value(0, 0, 0)));
        RL_ASSERT(flow().drain(me, 0));
    }
    void check() { all_arrived(5); }
};
Listed<Done> const done("flush.done", "flush is done when the rows stand in the queue", 50'000);

/// A group flushes while the other one goes on sending, until it hears that the first is done: its
/// rows in a half-full segment must not wait.
struct Early : ChannelScenario<Early, 2> {
    static TableOptions options() { return {.slots = 4, .capacity = 3}; }
    Word<u32> heard{0};
    void thread(unsigned index) {
        Member me(index, 2);
        RL_ASSERT(flow().send(me, 0, 0, 1));
        if (index == 0) {
            RL_ASSERT(flow().flush(me, 0));
            RL_ASSERT(stands_in_queue(flow().tables, 0));
            heard.store(1, relaxed);
            return;
        }
        while (heard.load(relaxed) == 0) A::backoff(0);
        RL_ASSERT(flow().send(me, 0, 0, 1, 1, 1));
        RL_ASSERT(flow().flush(me, 0));
        RL_ASSERT(flow().drain(me, 0));
    }
    void check() { all_arrived(3); }
};
Listed<Early> const early("flush.early", "a flush does not wait for who goes on sending", 30'000);

/// Whoever flushes last closes the lane, with what the others have claimed just before.
struct Close : ChannelScenario<Close, 3> {
    static TableOptions options() {
        return {.groups = 3, .slots = 4, .capacity = 3, .chunk_rows = 3};
    }
    void thread(unsigned index) {
        Member me(index, 3);
        RL_ASSERT(flow().send(me, 0, 0, index + 1));
        while (flow().try_flush(me, 0) == Status::Pending) {
            if (index == 0) flow().receive(me, 0);
            A::backoff(0);
        }
        if (index == 0) {
            RL_ASSERT(flow().drain(me, 0));
            RL_ASSERT(flow().arrivals() == 6);
        }
    }
    void check() { all_arrived(6); }
};
Listed<Close> const close("flush.close", "the last to flush closes behind everybody's rows",
                          60'000);

/// Two sources end while one group receives from both.
struct Sources : ChannelScenario<Sources, 3> {
    static TableOptions options() { return {.sources = 2, .groups = 1}; }
    void thread(unsigned index) {
        if (index < 2) {
            send_and_flush(index, 0, 1, 3);
            return;
        }
        receive_all(0);
        RL_ASSERT(flow().arrivals() == 6);
    }
    void check() { all_arrived(6); }
};
Listed<Sources> const sources("end.sources", "the end comes behind the last row, and comes",
                              60'000);

/// One source sends nothing, and two groups wait for the end.
struct Nothing : OneLane<Nothing, 1, 2> {
    static TableOptions options() { return {}; }
    static constexpr Sends sends[] = {{0}};
};
Listed<Nothing> const nothing("end.nothing", "an empty source ends too, for every group", 50'000);

/// The channel fails in the middle; nobody receives, so the groups that send are stuck by then.
struct Abort : ChannelScenario<Abort, 3> {
    static TableOptions options() { return {.capacity = 1}; }
    void thread(unsigned index) {
        if (index < 2) {
            Member me(index, 2);
            if (flow().send(me, 0, 0, 3)) flow().flush(me, 0);
        } else {
            Member me(0, 1);
            u32 const looks = rl::rand(4);
            for (u32 i = 0; i < looks; ++i) flow().receive(me, 0);
            flow().tables.state.failed.store(u32(ErrorCode::Closed), release);
            RL_ASSERT(flow().receive(me, 0) == Status::Error);
        }
    }
    void check() {}
};
Listed<Abort> const abort("abort", "a failure reaches every call that waits", 30'000);

}  // namespace
}  // namespace mgi::relacy
