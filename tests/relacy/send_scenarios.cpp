// The whole device API: send with its tile and carry buffer, and stage buffers with their sorter. The
// rows are bytes in segments here, compared by value.

#include <mgi/device/channel.hpp>

#include "channel_test.hpp"

namespace mgi::relacy {
namespace {

using Endpoint = BasicChannel<A>;

/// One call of recv on the channel; notes the values that came.
Status receive(Endpoint const& channel, Member& me, std::vector<u32>& values) {
    Shared shared = me.shared();
    ReceivedBatch batch;
    Status const status = channel.recv(me.group, shared, batch);
    if (status != Status::Ok) return status;
    u32 const* const column = batch.column<u32>(0);
    values.insert(values.end(), column, column + batch.rows);
    channel.release(me.group, shared, batch);
    return status;
}

bool drain(Endpoint const& channel, Member& me, std::vector<u32>& values) {
    for (;;) {
        Status const status = receive(channel, me, values);
        if (status == Status::End) return true;
        if (status == Status::Error) return false;
        if (status == Status::Pending) A::backoff(0);
    }
}

bool are(std::vector<u32> values, std::vector<u32> const& expected) {
    std::sort(values.begin(), values.end());
    return values == expected;
}

/// Two groups send tiles of two rows to two destinations by the paper's modulo; a third thread
/// receives at both.
struct Whole : ChannelScenario<Whole, 3> {
    static TableOptions options() { return {.destinations = 2, .routing = RoutingKind::Partition}; }
    u32 const key = 0;
    std::vector<u32> came[2];

    void thread(unsigned index) {
        State& state = flow().tables.state;
        if (index < 2) {
            Member me(index, 2);
            Shared shared = me.shared();
            Endpoint const channel(&state, 0, Endpoint::kNone);
            u32 rows[4];
            for (u32 i = 0; i < 4; ++i) rows[i] = 10 * index + i;
            for (u32 sent = 0; sent < 4;) {
                SendResult const result =
                    channel.send_rows(me.group, shared, rows + sent, 4 - sent);
                RL_ASSERT(result.status != Status::Error);
                sent += u32(result.rows);
                if (result.status == Status::Pending) A::backoff(0);
            }
            RL_ASSERT(channel.flush_wait(me.group, shared) == Status::Ok);
        } else {
            Member me(0, 1);
            for (bool ended[2] = {false, false}; !ended[0] || !ended[1];) {
                u32 const d = rl::rand(2);
                if (ended[d]) continue;
                Status const status = receive({&state, Endpoint::kNone, d}, me, came[d]);
                RL_ASSERT(status != Status::Error);
                if (status == Status::Pending) A::backoff(0);
                ended[d] = status == Status::End;
            }
        }
    }
    void prepare() {
        ChannelScenario::prepare();
        State& state = flow().tables.state;
        state.keys = &key;
        state.key_count = 1;
        state.hash = HashKind::Modulo;
    }
    void check() {
        RL_ASSERT(are(came[0], {0, 2, 10, 12}));
        RL_ASSERT(are(came[1], {1, 3, 11, 13}));
        RL_ASSERT(flow().at_rest());
    }
};
Listed<Whole> const whole("send.whole", "what send accepts arrives where it belongs, once", 30'000);

/// A group takes rows for which there is no slot, and is not called again until the other one's rows have
/// arrived, which lie in the same segment or behind: that one places both's, and is not called again itself once its
/// push is done. Slots come free in any order.
template <u32 slots, bool inbox>
struct Helped : ChannelScenario<Helped<slots, inbox>, 3> {
    using Base = ChannelScenario<Helped, 3>;
    using Base::flow;
    static TableOptions options() {
        u32 const capacity = slots == 1 ? 3 : 2;
        return {.slots = slots, .capacity = capacity, .chunk_rows = capacity, .inbox = inbox};
    }
    Word<u32> heard{0};
    std::vector<u32> came;

    void thread(unsigned index) {
        Endpoint const channel(&flow().tables.state, 0, 0);
        index == 2 ? receive_all(channel) : send_all(channel, index);
    }
    void receive_all(Endpoint const& channel) {
        Member me(0, 1);
        Shared shared = me.shared();
        std::vector<ReceivedBatch> batches;
        for (Status status = Status::Ok; status != Status::End || !batches.empty();) {
            ReceivedBatch batch;
            if (status != Status::End) status = channel.recv(me.group, shared, batch).status;
            RL_ASSERT(status != Status::Error);
            if (status == Status::Ok) {
                u32 const* const column = batch.column<u32>(0);
                came.insert(came.end(), column, column + batch.rows);
                batches.push_back(batch);
            }
            if (status == Status::Pending) A::backoff(0);
            if (batches.empty() || (status == Status::Ok && rl::rand(2) == 0)) continue;
            auto const one = batches.begin() + rl::rand(unsigned(batches.size()));
            channel.release(me.group, shared, *one);
            batches.erase(one);
        }
    }
    void send_all(Endpoint const& channel, u32 index) {
        Member me(index, 2);
        Shared shared = me.shared();
        u32 rows[4];
        for (u32 i = 0; i < 4; ++i) rows[i] = 10 * index + i;
        for (u32 sent = 0; sent < 4;) {
            SendResult const result =
                channel.send_rows_to(me.group, shared, 0, rows + sent, 4 - sent);
            RL_ASSERT(result.status != Status::Error);
            sent += u32(result.rows);
            if (result.rows == 0) A::backoff(0);
        }
        if (index == 0) {
            while (heard.load(relaxed) == 0) A::backoff(0);
        } else {
            while (channel.push(me.group, shared) == Status::Pending) A::backoff(0);
            for (u32 const row : rows) {
                while (!has_come(row)) A::backoff(0);
            }
            heard.store(1, relaxed);
        }
        RL_ASSERT(channel.flush_wait(me.group, shared) == Status::Ok);
    }
    /// By looking at what no thread could rely on: iterations run one thread at a time.
    [[nodiscard]] bool has_come(u32 value) const {
        return std::find(came.begin(), came.end(), value) != came.end();
    }
    void prepare() {
        Base::prepare();
        flow().tables.state.destination_ids = &id;
    }
    void check() {
        RL_ASSERT(are(came, {0, 1, 2, 3, 10, 11, 12, 13}));
        RL_ASSERT(flow().at_rest());
    }
    u32 const id = 0;
};
Listed<Helped<1, false>> const held("send.held",
                                    "rows do not wait for a group that is not called again",
                                    30'000);
Listed<Helped<2, false>> const pushed("send.pushed", "the same, where slots come free in any order",
                                      30'000);
Listed<Helped<2, true>> const sent_for("send.inbox", "the same, with an inbox", 30'000);

/// Two groups' rows share a segment, which either of them publishes. Whoever hears that a push is done finds the rows
/// at the first look.
struct Seen : ChannelScenario<Seen, 3> {
    static TableOptions options() { return {}; }
    u32 const id = 0;
    Word<u32> pushed{0};
    std::vector<u32> came;

    void thread(unsigned index) {
        Endpoint const channel(&flow().tables.state, 0, 0);
        if (index == 2) {
            Member me(0, 1);
            while (pushed.load(acquire) == 0) A::backoff(0);
            while (receive(channel, me, came) == Status::Ok) {
            }
            RL_ASSERT(std::find(came.begin(), came.end(), 10) != came.end());
            RL_ASSERT(drain(channel, me, came));
            return;
        }
        Member me(index, 2);
        Shared shared = me.shared();
        u32 const row = 10 * index;
        RL_ASSERT(channel.send_rows_to(me.group, shared, 0, &row, 1).rows == 1);
        if (index == 1) {
            while (channel.push(me.group, shared) == Status::Pending) A::backoff(0);
            pushed.store(1, release);
        }
        RL_ASSERT(channel.flush_wait(me.group, shared) == Status::Ok);
    }
    void prepare() {
        ChannelScenario::prepare();
        flow().tables.state.destination_ids = &id;
    }
    void check() {
        RL_ASSERT(are(came, {0, 10}));
        RL_ASSERT(flow().at_rest());
    }
};
Listed<Seen> const seen("send.seen", "rows can be received where a push is known to be done",
                        30'000);

/// A group appends to its stage buffer, a sorter moves the rows on, in its seat if it has one, where the
/// group may be before it; the group receives once its flush is done.
template <bool seated>
struct Staged : Threads<2> {
    std::optional<Tables> channel;
    std::optional<Tables> stage;
    State* stages[1];
    SorterSeat<A> seat;
    std::vector<u32> came;

    void prepare() {
        TableOptions options;
        options.groups = 1;
        options.slots = 4;
        options.tile_rows = 4;
        channel.emplace(options);
        options.slots = 2;
        stage.emplace(options);
        stage->state.takes_ahead = false;
        stages[0] = &stage->state;
        channel->state.stages = stages;
        if (seated) {
            stage->state.seats = &seat;
            stage->state.seat_count = 1;
        }
    }
    void thread(unsigned index) {
        Member me(0, 1);
        Shared shared = me.shared();
        if (index == 1) {
            Sorter<A> const sort;
            RL_ASSERT(sort(me.group, shared, &channel->state, 0, &stage->state) == ErrorCode::Ok);
            return;
        }
        Endpoint const endpoint(&channel->state, 0, 0);
        for (u32 i = 0; i < 5;) {
            SendResult const result = endpoint.send_row(me.group, i);
            RL_ASSERT(result.status != Status::Error);
            result.rows == 0 ? A::backoff(0) : void(++i);
        }
        RL_ASSERT(endpoint.flush_wait(me.group, shared) == Status::Ok);
        while (receive(endpoint, me, came) == Status::Ok) {
        }
        RL_ASSERT(are(came, {0, 1, 2, 3, 4}));
        RL_ASSERT(drain(endpoint, me, came));
    }
    void after() {
        RL_ASSERT(are(came, {0, 1, 2, 3, 4}));
        channel.reset();
        stage.reset();
    }
};
Listed<Staged<false>> const staged("send.staged",
                                   "flush of a stage is done when the sorters' rows stand", 30'000);
Listed<Staged<true>> const helped("send.helped", "the same, where the sender sorts with the sorter",
                                  30'000);

/// A sorter comes to its seat, and two senders take it when it is free. What who sits there does is
/// as one thread's.
struct Seated : Threads<3> {
    SorterSeat<A> seat;
    Plain<u32> work;
    u32 turns = 0;

    void thread(unsigned index) {
        if (index == 0) {
            work.write(work.read() + 1);
            ++turns;
            seat.leave();
        }
        for (u32 i = 0; i < 3; ++i) {
            if (!seat.take()) continue;
            work.write(work.read() + 1);
            ++turns;
            seat.leave();
        }
    }
    void after() { RL_ASSERT(work.read() == turns); }
};
Listed<Seated> const seated("stage.seat", "one sorts at a time, and sees what the one before did",
                            20'000);

}  // namespace
}  // namespace mgi::relacy
