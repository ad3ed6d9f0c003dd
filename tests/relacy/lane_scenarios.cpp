// One lane: several groups claim, commit, seal and publish over rings of two slots, through laps.

#include "channel_test.hpp"

namespace mgi::relacy {
namespace {

/// Two groups claim rows one by one and two at once, a third thread receives: laps, claims that end
/// at a slot's end, publication by whoever completes a slot, the end by count.
struct Claims : OneLane<Claims, 2, 1> {
    static TableOptions options() { return {}; }
    static constexpr Sends sends[] = {{4, 1}, {4, 2}};
};
Listed<Claims> const claims("lane.claims", "no row lost or doubled, no early end", 50'000);

/// The same of rows with long strings, which fill a slot's bytes before its rows: the rest of it is a hole.
struct Text : OneLane<Text, 2, 1> {
    static TableOptions options() { return {.capacity = 3, .chunk_rows = 3, .units = 2}; }
    static constexpr Sends sends[] = {{4, 1}, {4, 2}};
};
Listed<Text> const text("lane.text", "slots are opened, closed and filled anew by tickets", 50'000);

/// Segments of one row: every commit publishes, both groups deliver, one at a time and in sequence.
struct Deliver : OneLane<Deliver, 2, 1> {
    static TableOptions options() { return {.capacity = 1, .ordered = true}; }
    static constexpr Sends sends[] = {{3}, {3}};
};
Listed<Deliver> const deliver("lane.deliver", "segments come in sequence, none is left behind",
                              60'000);

/// One group fills slots, laps of them, while the other one pushes what is there: holes, in slots that
/// the pusher has never claimed in.
struct Seal : ChannelScenario<Seal, 3> {
    static TableOptions options() { return {.capacity = 3, .chunk_rows = 3}; }
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
struct Chunks : OneLane<Chunks, 1, 2> {
    static TableOptions options() { return {.chunk_rows = 1}; }
    static constexpr Sends sends[] = {{6, 2}};
};
Listed<Chunks> const chunks("lane.chunks", "a slot is filled anew when all its readers are done",
                            60'000);

}  // namespace
}  // namespace mgi::relacy
