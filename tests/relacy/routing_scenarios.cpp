// Broadcast, ordered broadcast and Balance, by reference.

#include <algorithm>

#include "channel_test.hpp"

namespace mgi::relacy {
namespace {

/// Both destinations read each segment; the last reader of both frees it. By queues, whose readers the slot counts, or by
/// inboxes, each of which counts its own.
template <bool inbox>
struct Broadcast : ChannelScenario<Broadcast<inbox>, 3> {
    static TableOptions options() {
        return {
            .destinations = 2, .chunk_rows = 1, .routing = RoutingKind::Broadcast, .inbox = inbox};
    }
    void thread(unsigned index) {
        if (index == 0) {
            this->send_and_flush(0, 0, 1, 5, 2);
        } else {
            this->receive_all(index - 1);
        }
    }
    void check() { this->all_arrived(10); }
};
Listed<Broadcast<false>> const broadcast("broadcast", "every destination gets every row, once",
                                         50'000);
Listed<Broadcast<true>> const inboxes("broadcast.inbox", "the same by inboxes", 50'000);

/// Two sources deliver under one word; a third thread reads both destinations, turn by turn.
struct OneOrder : ChannelScenario<OneOrder, 3> {
    static TableOptions options() {
        return {.sources = 2,
                .destinations = 2,
                .groups = 1,
                .capacity = 1,
                .chunk_rows = 1,
                .routing = RoutingKind::Broadcast,
                .ordered = true};
    }
    void thread(unsigned index) {
        if (index < 2) {
            send_and_flush(index, 0, 1, 3);
            return;
        }
        Member me(0, 1);
        for (bool ended[2] = {false, false}; !ended[0] || !ended[1];) {
            u32 const d = rl::rand(2);
            if (ended[d]) continue;
            Status const status = flow().receive(me, d);
            ended[d] = status == Status::End;
            if (status == Status::Pending) A::backoff(0);
        }
    }
    void check() {
        all_arrived(12);
        RL_ASSERT(flow().seen(0) == flow().seen(1));
    }
};
Listed<OneOrder> const one_order("broadcast.ordered", "all destinations see one order", 50'000);

/// One group takes whole segments, each for one destination, between rows for all; the other one takes rows ahead, or
/// what is free, and seals.
template <bool inbox, u32 units, u32 slots>
struct Addressed : ChannelScenario<Addressed<inbox, units, slots>, 4> {
    static TableOptions options() {
        return {.destinations = 2,
                .slots = slots,
                .capacity = 3,
                .chunk_rows = 2,
                .units = units,
                .routing = RoutingKind::Broadcast,
                .inbox = inbox};
    }
    void thread(unsigned index) {
        if (index == 0) this->send_and_flush(0, 0, 2, 4, 2);
        if (index == 1) {
            Member me(1, 2);
            for (u32 i = 0; i < 5; ++i) {
                SendCall<A> call = this->flow().sending(me, 0);
                RL_ASSERT(call.enter(false) == ErrorCode::Ok);
                // Where the slot behind the open one is the same one.
                if (slots == 1) call.push();
                send(me, i);
            }
            RL_ASSERT(this->flow().flush(me, 0));
        }
        if (index >= 2) this->receive_all(index - 2);
    }
    void send(Member& me, u32 row) {
        auto& flow = this->flow();
        u32 const to = flow.turn_of(row);
        if (to == 2) {
            RL_ASSERT(flow.send(me, 0, 0, 1, 1, row));
            return;
        }
        while (!flow.offer_to(0, to, 1, row)) {
            if (slots == 1) flow.sending(me, 0).push();
            A::backoff(0);
        }
    }
    void check() { this->all_arrived(8 + this->arrived_by_turns(0, 1, 5)); }
};
Listed<Addressed<true, 0, 2>> const addressed(
    "broadcast.named-inbox", "a row for one destination arrives there alone, and others' go on",
    50'000);
Listed<Addressed<false, 0, 2>> const addressed_queued("broadcast.named", "the same by queues",
                                                      50'000);
Listed<Addressed<true, 2, 2>> const addressed_text(
    "broadcast.named-text", "the same where slots are opened and closed by tickets", 50'000);
Listed<Addressed<true, 0, 1>> const addressed_one("broadcast.named-one", "the same with one slot",
                                                  30'000);

/// In one order, which rows for one destination do not change.
struct AddressedInOrder : ChannelScenario<AddressedInOrder, 3> {
    static TableOptions options() {
        TableOptions options = OneOrder::options();
        options.capacity = 2;
        return options;
    }
    void thread(unsigned index) {
        if (index < 2) send_by_turns(index, 0, 1, 5);
        if (index == 2) receive_everywhere();
    }
    void check() {
        all_arrived(arrived_by_turns(0, 0, 5) + arrived_by_turns(1, 0, 5));
        RL_ASSERT(for_all(0) == for_all(1));
        for (u32 d = 0; d < 2; ++d) {
            std::vector<u32> seen = flow().seen(d);
            std::stable_sort(seen.begin(), seen.end(),
                             [](u32 a, u32 b) { return a >> 16 < b >> 16; });
            RL_ASSERT(std::is_sorted(seen.begin(), seen.end()));
        }
    }
    [[nodiscard]] std::vector<u32> for_all(u32 destination) {
        std::vector<u32> found;
        for (u32 const value : flow().seen(destination)) {
            if (flow().turn_of(value & 0xff) == 2) found.push_back(value);
        }
        return found;
    }
};
Listed<AddressedInOrder> const addressed_in_order(
    "broadcast.named-ordered", "a source's rows stay in order, whomever they are for", 50'000);

/// Both destinations take from one queue.
struct Balance : ChannelScenario<Balance, 3> {
    static TableOptions options() { return {.destinations = 2, .routing = RoutingKind::Balance}; }
    void thread(unsigned index) {
        if (index == 0) {
            send_and_flush(0, 0, 1, 6);
        } else {
            receive_all(index - 1);
        }
    }
    void check() { all_arrived(6); }
};
Listed<Balance> const balance("balance", "a row goes to one destination, both see the end", 30'000);

}  // namespace
}  // namespace mgi::relacy
