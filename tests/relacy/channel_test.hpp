/// \file
/// What the scenarios of whole channels share: groups that send numbered rows and flush, groups that
/// receive until the end, and the account of what arrived.
#pragma once

#include <map>
#include <optional>

#include "scenario.hpp"
#include "tables.hpp"

namespace mgi::relacy {

/// A group of one thread, and its scratch.
struct Member {
    Group group;
    alignas(16) std::byte scratch[512];

    Member(u32 block, u32 blocks) : group{block, blocks, 0, 1, block, nullptr} {}
    [[nodiscard]] Shared shared() { return {scratch, sizeof(scratch)}; }
};

/// A channel, and the calls that the threads of a scenario make on it.
class Flow {
public:
    explicit Flow(TableOptions const& options) : tables(options) {}

    Tables tables;

    /// The value of a group's i-th row.
    static u32 value(u32 source, u32 block, u32 i) { return source << 16 | block << 8 | i; }

    /// Rows of a lane that a group has taken.
    struct Taken {
        u64 at = 0;
        u32 rows = 0;
    };

    /// Offers up to `rows` values from `first` on; how many there was room for. What SendCall does
    /// with the rows of one lane, but that they are checked variables. Half of the groups take rows and wait
    /// for their slot, the others claim what is free.
    u32 offer(u32 source, u32 lane, u32 block, u32 first, u32 rows, Taken& taken) {
        State& state = tables.state;
        Lane<A>& to = state.sources[source].lanes[lane];
        bool const takes = block % 2 == 0 && to.units == 0;
        if (takes && taken.rows == 0) taken = {to.take(rows), rows};
        Claim const claim = to.units != 0 ? claim_text(source, lane, rows)
                            : takes       ? Lane<A>::claim(taken.at, taken.rows, to.form())
                                          : to.claim_now(rows);
        if (claim.rows == 0) {
            if (to.mail != nullptr) collect(state, to);
            return 0;
        }
        if (takes) taken = {taken.at + claim.rows, taken.rows - claim.rows};
        for (u32 i = 0; i < claim.rows; ++i) {
            tables.row(state.pool + to.slots[claim.slot].offset, claim.row + i)
                .write(value(source, block, first + i));
        }
        state.sources[source].groups[block].last[lane] = claim.sequence + 1;
        if (to.commit(claim.slot, claim.rows, 0, claim.units)) {
            publish_slot(state, source, lane, claim.sequence);
        }
        return claim.rows;
    }

    [[nodiscard]] SendCall<A> sending(Member& member, u32 source) {
        return {member.group, member.shared(), tables.state, source};
    }
    [[nodiscard]] bool failed() { return tables.state.error() != ErrorCode::Ok; }

    /// Sends rows 0..rows-1 of a group to a lane, at most `at_once` with each claim. False when the
    /// channel failed.
    bool send(Member& member, u32 source, u32 lane, u32 rows, u32 at_once = 1, u32 first = 0) {
        Taken taken;
        for (u32 sent = first; sent < first + rows;) {
            if (sending(member, source).enter(false) != ErrorCode::Ok) return false;
            u32 const now = offer(source, lane, member.group.block, sent,
                                  min_of(at_once, first + rows - sent), taken);
            sent += now;
            if (now == 0) A::backoff(0);
        }
        return true;
    }

    /// Offers a value to one destination of a broadcast; whether there was room. What AddressedSend does, but that the
    /// row is a checked variable.
    bool offer_to(u32 source, u32 destination, u32 block, u32 row) {
        State& state = tables.state;
        Lane<A>& to = state.sources[source].lanes[0];
        Claim const claim =
            to.take_segment([&](u64 sequence) { publish_slot(state, source, 0, sequence); });
        if (claim.rows == 0) {
            if (to.mail != nullptr) collect(state, to);
            return false;
        }
        tables.row(state.pool + to.slots[claim.slot].offset, claim.row)
            .write(value(source, block, row));
        state.sources[source].groups[block].last[0] = claim.sequence + 1;
        to.note_alone(claim, 1, min_of(claim.units, 1u), destination + 1);
        publish_slot(state, source, 0, claim.sequence);
        return true;
    }

    /// Whom a row is for that is sent by turns: a destination, or all (their number).
    [[nodiscard]] u32 turn_of(u32 row) const { return row % (tables.options().destinations + 1); }
    /// Sends rows of a broadcast to each destination and to all, by turns. False when the channel failed.
    bool send_by_turns(Member& member, u32 source, u32 rows) {
        for (u32 i = 0; i < rows; ++i) {
            u32 const to = turn_of(i);
            if (to == tables.options().destinations) {
                if (!send(member, source, 0, 1, 1, i)) return false;
                continue;
            }
            for (;;) {
                if (sending(member, source).enter(false) != ErrorCode::Ok) return false;
                if (offer_to(source, to, member.group.block, i)) break;
                A::backoff(0);
            }
        }
        return true;
    }

    /// Of a lane with long strings: up to `rows`, each of which takes a unit.
    Claim claim_text(u32 source, u32 lane, u32 rows) {
        struct Fitting {
            u32 rows;
            u32 units;
        };
        auto const fit = [rows](u32 left, u32 units) -> Fitting {
            u32 const fitting = min_of(min_of(left, units), rows);
            return {fitting, fitting};
        };
        return tables.state.sources[source].lanes[lane].claim_fitting(
            fit, [&](u64 sequence) { publish_slot(tables.state, source, lane, sequence); });
    }

    /// One call of flush.
    Status try_flush(Member& member, u32 source) {
        SendCall<A> call = sending(member, source);
        if (call.enter(true) != ErrorCode::Ok) return Status::Error;
        return call.flush();
    }
    /// Flushes until it is done; false when the channel failed.
    bool flush(Member& member, u32 source) {
        for (;;) {
            Status const status = try_flush(member, source);
            if (status != Status::Pending) return status == Status::Ok;
            A::backoff(0);
        }
    }

    /// One call of recv, and the release of what it gave.
    Status receive(Member& member, u32 destination) {
        ReceiveCall<A> call(member.group, member.shared(), tables.state, destination);
        ReceivedBatch batch;
        ErrorCode code = ErrorCode::Ok;
        Status const status = call.receive(batch, code);
        if (status != Status::Ok) return status;
        for (u32 i = 0; i < batch.rows; ++i) {
            arrive(destination, tables.row(batch.segment, batch.row + i).read());
        }
        RL_ASSERT(next_sequence(destination, batch));
        call.release(batch);
        return status;
    }
    /// Receives until the end; false when the channel failed.
    bool drain(Member& member, u32 destination) {
        for (;;) {
            Status const status = receive(member, destination);
            if (status == Status::End) return true;
            if (status == Status::Error) return false;
            if (status == Status::Pending) A::backoff(0);
        }
    }

    [[nodiscard]] bool has_arrived(u32 destination, u32 value) const {
        return arrived_.contains({destination, value});
    }
    /// Values in the order in which a destination saw them.
    [[nodiscard]] std::vector<u32> const& seen(u32 destination) const { return seen_[destination]; }
    [[nodiscard]] std::size_t arrivals() const { return arrived_.size(); }

    /// Every slot is free again, and the watermarks stand behind the last one.
    [[nodiscard]] bool at_rest() const {
        State const& state = tables.state;
        for (u32 s = 0; s < state.source_count; ++s) {
            for (u32 l = 0; l < state.lane_count; ++l) {
                Lane<A> const& lane = state.sources[s].lanes[l];
                u64 const end = lane.closed.newest() - 1;
                if (lane.came == nullptr && lane.published.newest() != end) return false;
                if (lane.came != nullptr && !at_rest(*state.destinations[l].rings[s].inbox, end)) {
                    return false;
                }
                for (u32 i = 0; i <= lane.mask; ++i) {
                    Slot<A> const& slot = lane.slots[i];
                    u64 const sequence = slot.sequence.newest();
                    if (sequence < end || sequence > end + lane.mask) return false;
                    if (slot.committed.newest() != 0 || slot.readers.newest() != 0) return false;
                }
            }
        }
        for (u32 d = 0; d < state.destination_count; ++d) {
            Destination<A> const& to = state.destinations[d];
            for (u32 s = 0; s < state.source_count; ++s) {
                ReadRing<A> const& ring = to.rings[s];
                if ((ring.in_place && state.own_lanes()) || ring.inbox == nullptr) continue;
                if (!at_rest(*ring.inbox, to.counts[s].newest() - 1)) return false;
            }
        }
        return true;
    }

    /// Every chunk was taken and given back.
    [[nodiscard]] static bool at_rest(Inbox<A> const& inbox, u64 end) {
        for (u32 i = 0; i <= inbox.mask; ++i) {
            if (inbox.owed[i].newest() != inbox.chunks) return false;
        }
        return inbox.draws.newest() >> Inbox<A>::kOpenBits >= end * inbox.chunks;
    }

private:
    /// Rows arrive once.
    void arrive(u32 destination, u32 value) {
        RL_ASSERT(arrived_.emplace(std::pair(destination, value), true).second);
        if (seen_.size() <= destination) seen_.resize(destination + 1);
        seen_[destination].push_back(value);
    }
    /// An ordered channel delivers each lane's segments in sequence; every one names its own. Those of a broadcast that
    /// are for another destination are left out.
    bool next_sequence(u32 destination, ReceivedBatch const& batch) {
        if (!tables.state.ordered || !batch.whole) return true;
        u64& next = next_[{destination, batch.source}];
        bool const all = tables.state.routing != RoutingKind::Broadcast;
        bool const in_turn = all ? batch.sequence == next : batch.sequence >= next;
        next = batch.sequence + 1;
        return in_turn;
    }

    std::map<std::pair<u32, u32>, bool> arrived_;
    std::vector<std::vector<u32>> seen_ = std::vector<std::vector<u32>>(4);
    std::map<std::pair<u32, u32>, u64> next_;
};

/// Base of such a scenario.
template <class Derived, rl::thread_id_t threads>
class ChannelScenario : public Threads<threads> {
public:
    void prepare() { flow_.emplace(Derived::options()); }
    void after() {
        static_cast<Derived*>(this)->check();
        flow_.reset();
    }

protected:
    Flow& flow() { return *flow_; }

    /// A thread that sends `rows` rows into lane 0 of a source and flushes.
    void send_and_flush(u32 source, u32 block, u32 blocks, u32 rows, u32 at_once = 1) {
        Member me(block, blocks);
        RL_ASSERT(flow().send(me, source, 0, rows, at_once));
        RL_ASSERT(flow().flush(me, source));
    }
    /// The same of rows that are for a destination, or for all, by turns.
    void send_by_turns(u32 source, u32 block, u32 blocks, u32 rows) {
        Member me(block, blocks);
        RL_ASSERT(flow().send_by_turns(me, source, rows));
        RL_ASSERT(flow().flush(me, source));
    }
    /// A thread that receives to the end.
    void receive_all(u32 destination, u32 block = 0, u32 blocks = 1) {
        Member me(block, blocks);
        RL_ASSERT(flow().drain(me, destination));
    }
    /// One of two groups that send and flush; the first one receives behind its flush, and finds its rows.
    void flush_then_receive(unsigned index) {
        Member me(index, 2);
        RL_ASSERT(flow().send(me, 0, 0, 2 + index));
        RL_ASSERT(flow().flush(me, 0));
        if (index != 0) return;
        while (flow().receive(me, 0) == Status::Ok) {
        }
        RL_ASSERT(flow().has_arrived(0, Flow::value(0, 0, 1)));
        RL_ASSERT(flow().drain(me, 0));
    }
    /// Receives at all destinations in one thread, turn by turn.
    void receive_everywhere() {
        Member me(0, 1);
        u32 const destinations = flow().tables.options().destinations;
        std::vector<bool> ended(destinations);
        for (u32 open = destinations; open != 0;) {
            u32 const d = rl::rand(destinations);
            if (ended[d]) continue;
            Status const status = flow().receive(me, d);
            RL_ASSERT(status != Status::Error);
            if (status == Status::Pending) A::backoff(0);
            if (status != Status::End) continue;
            ended[d] = true;
            --open;
        }
    }
    /// Behind the end: everything arrived, every slot is free.
    void all_arrived(std::size_t rows) {
        RL_ASSERT(flow().arrivals() == rows);
        RL_ASSERT(flow().at_rest());
    }

    /// The same of rows that were sent by turns; how many times rows have arrived.
    std::size_t arrived_by_turns(u32 source, u32 block, u32 rows) {
        std::size_t count = 0;
        u32 const destinations = flow().tables.options().destinations;
        for (u32 i = 0; i < rows; ++i) {
            u32 const to = flow().turn_of(i);
            for (u32 d = 0; d < destinations; ++d) {
                bool const is_for = to == d || to == destinations;
                RL_ASSERT(flow().has_arrived(d, Flow::value(source, block, i)) == is_for);
                count += is_for ? 1 : 0;
            }
        }
        return count;
    }

private:
    std::optional<Flow> flow_;
};

/// What a group sends in such a scenario: so many rows, at most `at_once` with each claim.
struct Sends {
    u32 rows;
    u32 at_once = 1;
};

/// Base of one in which groups of one source send what `Derived::sends` says to one destination, whose
/// groups receive it to the end.
template <class Derived, u32 senders, u32 receivers>
class OneLane : public ChannelScenario<Derived, senders + receivers> {
public:
    void thread(unsigned index) {
        if (index < senders) {
            Sends const mine = Derived::sends[index];
            this->send_and_flush(0, index, senders, mine.rows, mine.at_once);
        } else {
            this->receive_all(0, index - senders, receivers);
        }
    }
    void check() {
        std::size_t rows = 0;
        for (Sends const& each : Derived::sends) rows += each.rows;
        this->all_arrived(rows);
    }
};

}  // namespace mgi::relacy
