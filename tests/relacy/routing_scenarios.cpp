// Broadcast, ordered broadcast and Balance, by reference.

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
