// One lane: several groups claim, commit, seal and publish over rings of two slots, through laps.

#include "channel_test.hpp"

namespace mgi::relacy {
namespace {

/// Two groups claim rows one by one and two at once, a third thread receives: laps, claims that end
/// at a slot's end, publication by whoever completes a slot, the end by count.
struct Claims : ChannelScenario<Claims, 3> {
    static TableOptions options() { return {}; }
    void thread(unsigned index) {
        if (index < 2) {
            send_and_flush(0, index, 2, 4, 1 + index);
        } else {
            receive_all(0);
        }
    }
    void check() { all_arrived(8); }
};
Listed<Claims> const claims("lane.claims", "no row lost or doubled, no early end", 50'000);

/// Segments of one row: every commit publishes, both groups deliver, one at a time and in sequence.
struct Deliver : ChannelScenario<Deliver, 3> {
    static TableOptions options() {
        TableOptions options;
        options.capacity = 1;
        options.ordered = true;
        return options;
    }
    void thread(unsigned index) {
        if (index < 2) {
            send_and_flush(0, index, 2, 3);
        } else {
            receive_all(0);
        }
    }
    void check() { all_arrived(6); }
};
Listed<Deliver> const deliver("lane.deliver", "segments come in sequence, none is left behind",
                              60'000);

/// One group fills slots, laps of them, while the other one pushes what is there: holes, in slots that
/// the pusher has never claimed in.
struct Seal : ChannelScenario<Seal, 3> {
    static TableOptions options() {
        TableOptions options;
        options.capacity = 3;
        options.chunk_rows = 3;
        return options;
    }
    void thread(unsigned index) {
        if (index == 0) {
            send_and_flush(0, 0, 2, 8, 2);
        } else if (index == 1) {
            Member me(1, 2);
            for (int i = 0; i < 4; ++i) {
                SendCall<A> call = flow().sending(me, 0);
                RL_ASSERT(call.enter(false) == ErrorCode::Ok);
                call.push();
            }
            send_and_flush(0, 1, 2, 1);
        } else {
            receive_all(0);
        }
    }
    void check() { all_arrived(9); }
};
Listed<Seal> const seal("lane.seal",
                        "rows of a slot that is closed early arrive, its hole does not", 50'000);

/// The rows of a slot go out in chunks to two groups; the last of them frees it.
struct Chunks : ChannelScenario<Chunks, 3> {
    static TableOptions options() {
        TableOptions options;
        options.chunk_rows = 1;
        return options;
    }
    void thread(unsigned index) {
        if (index == 0) {
            send_and_flush(0, 0, 1, 6, 2);
        } else {
            receive_all(0, index - 1, 2);
        }
    }
    void check() { all_arrived(6); }
};
Listed<Chunks> const chunks("lane.chunks", "a slot is filled anew when all its readers are done",
                            60'000);

}  // namespace
}  // namespace mgi::relacy
