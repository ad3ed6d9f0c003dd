// By copy: the mover's own loop between lanes and receive pools, with a transport whose copies complete
// late and in any order.

#include <numeric>

#include "channel_test.hpp"
#include "late_copy.hpp"
#include "mover/channel_moves.hpp"

namespace mgi::relacy {
namespace {

template <class Derived, rl::thread_id_t threads>
struct ByCopy : ChannelScenario<Derived, threads> {
    void move_all() {
        Tables const& tables = this->flow().tables;
        std::vector<u32> sources(tables.options().sources);
        std::iota(sources.begin(), sources.end(), 0u);
        move(sources);
    }
    void move(std::vector<u32> const& sources) {
        Tables& tables = this->flow().tables;
        mover::BasicChannelMoves<A> moves(tables.state, sources,
                                          std::make_unique<LateCopy>(tables));
        while (!moves.done()) {
            if (!moves.step()) A::backoff(0);
        }
    }
};

/// One lane, as few credits as there can be.
struct Credits : ByCopy<Credits, 3> {
    static TableOptions options() { return {.groups = 1, .chunk_rows = 1, .by_reference = false}; }
    void thread(unsigned index) {
        if (index == 0) send_and_flush(0, 0, 1, 7, 2);
        if (index == 1) move_all();
        if (index == 2) receive_all(0);
    }
    void check() { all_arrived(7); }
};
Listed<Credits> const credits("copy.credits", "a segment is overwritten when its readers are done",
                              30'000);

/// Two groups fill the lane, several copies are under way.
struct Flights : ByCopy<Flights, 4> {
    static TableOptions options() {
        return {.slots = 4, .capacity = 1, .credits = 3, .ordered = true, .by_reference = false};
    }
    void thread(unsigned index) {
        if (index < 2) send_and_flush(0, index, 2, 3);
        if (index == 2) move_all();
        if (index == 3) receive_all(0);
    }
    void check() { all_arrived(6); }
};
Listed<Flights> const flights("copy.flights", "copies arrive in sequence, however they complete",
                              30'000);

/// Flush by copy is done when the copies stand in the queue; only then does anybody receive.
struct Delivered : ByCopy<Delivered, 3> {
    static TableOptions options() { return {.credits = 4, .by_reference = false}; }
    void thread(unsigned index) {
        if (index < 2) flush_then_receive(index);
        if (index == 2) move_all();
    }
    void check() { all_arrived(5); }
};
Listed<Delivered> const delivered("copy.flush", "flush is done when the copies have arrived",
                                  30'000);

struct BroadcastCopy : ByCopy<BroadcastCopy, 3> {
    static TableOptions options() {
        return {.destinations = 2,
                .groups = 1,
                .routing = RoutingKind::Broadcast,
                .by_reference = false};
    }
    void thread(unsigned index) {
        if (index == 0) send_and_flush(0, 0, 1, 5);
        if (index == 1) move_all();
        if (index == 2) receive_everywhere();
    }
    void check() { all_arrived(10); }
};
Listed<BroadcastCopy> const broadcast("copy.broadcast", "the last copy frees the source's segment",
                                      30'000);

struct BalanceCopy : ByCopy<BalanceCopy, 3> {
    static TableOptions options() {
        TableOptions options = BroadcastCopy::options();
        options.routing = RoutingKind::Balance;
        options.capacity = 1;
        return options;
    }
    void thread(unsigned index) {
        if (index == 0) send_and_flush(0, 0, 1, 5);
        if (index == 1) move_all();
        if (index == 2) receive_everywhere();
    }
    void check() { all_arrived(5); }
};
Listed<BalanceCopy> const balance("copy.balance", "a segment goes to one destination", 30'000);

struct InTurn : ByCopy<InTurn, 4> {
    static TableOptions options() {
        TableOptions options = BroadcastCopy::options();
        options.sources = 2;
        options.capacity = 1;
        options.ordered = true;
        return options;
    }
    void thread(unsigned index) {
        if (index < 2) send_and_flush(index, 0, 1, 2);
        if (index == 2) move_all();
        if (index == 3) receive_everywhere();
    }
    void check() {
        all_arrived(8);
        RL_ASSERT(flow().seen(0) == flow().seen(1));
    }
};
Listed<InTurn> const in_turn("copy.ordered", "all destinations see one order", 30'000);

/// Where a destination's groups find what comes by mail: of two sources the second one's alone by an inbox.
enum class By { Queue, Inbox, Both };

TableOptions with_mail(TableOptions options, By by) {
    options.mail = true;
    options.inbox = by != By::Queue;
    options.queued = by == By::Both ? 1 : 0;
    return options;
}

/// The same where the mover hears by mail, as of a GPU's endpoints. One lane, as few credits as there can be:
/// both sides go round their words.
template <By by>
struct MailCredits : ByCopy<MailCredits<by>, 3> {
    static TableOptions options() { return with_mail(Credits::options(), by); }
    void thread(unsigned index) {
        if (index == 0) this->send_and_flush(0, 0, 1, 7, 2);
        if (index == 1) this->move_all();
        if (index == 2) this->receive_all(0);
    }
    void check() { this->all_arrived(7); }
};
Listed<MailCredits<By::Queue>> const mail_credits(
    "mail.credits", "a segment is overwritten when its readers are done", 30'000);
Listed<MailCredits<By::Inbox>> const inbox_credits("mail.credits-inbox", "the same by an inbox",
                                                   30'000);

/// Two groups fill the lane and take over what was moved; two look for what arrived.
template <By by>
struct MailGroups : ByCopy<MailGroups<by>, 5> {
    static TableOptions options() {
        return with_mail({.slots = 2, .capacity = 1, .credits = 2, .by_reference = false}, by);
    }
    void thread(unsigned index) {
        if (index < 2) this->send_and_flush(0, index, 2, 3);
        if (index == 2) this->move_all();
        if (index > 2) this->receive_all(0, index - 3, 2);
    }
    void check() { this->all_arrived(6); }
};
Listed<MailGroups<By::Queue>> const mail_groups("mail.groups",
                                                "one takes over, and others go on from there",
                                                30'000);
Listed<MailGroups<By::Inbox>> const inbox_groups("mail.groups-inbox", "the same by an inbox",
                                                 30'000);

/// Flush by mail is done when the mover has brought the rows; only then does anybody receive.
template <By by>
struct MailDelivered : ByCopy<MailDelivered<by>, 3> {
    static TableOptions options() { return with_mail(Delivered::options(), by); }
    void thread(unsigned index) {
        if (index < 2) this->flush_then_receive(index);
        if (index == 2) this->move_all();
    }
    void check() { this->all_arrived(5); }
};
Listed<MailDelivered<By::Queue>> const mail_delivered("mail.flush",
                                                      "flush is done when the rows are brought",
                                                      30'000);
Listed<MailDelivered<By::Inbox>> const inbox_delivered("mail.flush-inbox", "the same by an inbox",
                                                       30'000);

/// Two sources and their ends in one book of arrivals, which goes round; `movers` write them down.
template <By by, u32 movers>
struct MailSources : ByCopy<MailSources<by, movers>, 3 + movers> {
    static TableOptions options() {
        return with_mail({.sources = 2, .groups = 1, .capacity = 1, .by_reference = false}, by);
    }
    void thread(unsigned index) {
        if (index < 2) this->send_and_flush(index, 0, 1, 4);
        if (index == 2) this->receive_all(0);
        if (index > 2 && movers == 1) this->move_all();
        if (index > 2 && movers == 2) this->move({index - 3});
    }
    void check() { this->all_arrived(8); }
};
Listed<MailSources<By::Queue, 1>> const mail_sources("mail.sources",
                                                     "no arrival is written over before it is read",
                                                     30'000);
Listed<MailSources<By::Queue, 2>> const mail_movers("mail.movers",
                                                    "movers follow each other round the book",
                                                    30'000);
Listed<MailSources<By::Inbox, 2>> const inbox_movers("mail.movers-inbox", "the same by inboxes",
                                                     30'000);
Listed<MailSources<By::Both, 2>> const both_movers(
    "mail.movers-both", "queue and inbox beside each other: no row is lost, and the end comes",
    30'000);

/// Some read in place, to others the mover brings it: the last of all frees the segment.
template <By by>
struct MailBroadcast : ByCopy<MailBroadcast<by>, 3> {
    static TableOptions options() {
        TableOptions options = with_mail(BroadcastCopy::options(), by);
        options.near = 1;
        return options;
    }
    void thread(unsigned index) {
        if (index == 0) this->send_and_flush(0, 0, 1, 5);
        if (index == 1) this->move_all();
        if (index == 2) this->receive_everywhere();
    }
    void check() { this->all_arrived(10); }
};
Listed<MailBroadcast<By::Queue>> const mail_broadcast(
    "mail.broadcast", "the last of readers in place and the mover frees the segment", 30'000);
Listed<MailBroadcast<By::Inbox>> const inbox_broadcast("mail.broadcast-inbox",
                                                       "the same by inboxes", 30'000);

/// One destination's segments are brought on to the next one, from where they are read and given back meanwhile.
struct MailPassedOn : ByCopy<MailPassedOn, 3> {
    static TableOptions options() {
        TableOptions options = BroadcastCopy::options();
        options.destinations = 3;
        options.capacity = 1;
        options.chunk_rows = 1;
        options.near = 1;
        options.mail = true;
        return options;
    }
    void thread(unsigned index) {
        if (index == 0) send_and_flush(0, 0, 1, 4);
        if (index == 1) move_all();
        if (index == 2) receive_everywhere();
    }
    void check() { all_arrived(12); }
};
Listed<MailPassedOn> const passed_on("mail.passed-on",
                                     "a segment stays until it was brought on from where it came",
                                     30'000);

/// The same of segments of which some are for one destination, which no other ring has.
template <By by>
struct NamedPassedOn : ByCopy<NamedPassedOn<by>, 3> {
    static TableOptions options() {
        TableOptions options = with_mail(MailPassedOn::options(), by);
        options.capacity = 2;
        return options;
    }
    void thread(unsigned index) {
        if (index == 0) this->send_by_turns(0, 0, 1, 7);
        if (index == 1) this->move_all();
        if (index == 2) this->receive_everywhere();
    }
    void check() { this->all_arrived(this->arrived_by_turns(0, 0, 7)); }
};
Listed<NamedPassedOn<By::Queue>> const named_passed_on(
    "mail.named", "rows for one destination come from the source, and to none else", 30'000);
Listed<NamedPassedOn<By::Inbox>> const named_inbox("mail.named-inbox", "the same by inboxes",
                                                   30'000);

/// The channel fails while copies are under way: the mover ends.
struct AbortCopy : ByCopy<AbortCopy, 3> {
    static TableOptions options() { return Credits::options(); }
    void thread(unsigned index) {
        if (index == 0) {
            Member me(0, 1);
            if (flow().send(me, 0, 0, 7)) flow().flush(me, 0);
        }
        if (index == 1) move_all();
        if (index == 2) {
            Member me(0, 1);
            u32 const looks = rl::rand(20);
            for (u32 i = 0; i < looks; ++i) flow().receive(me, 0);
            flow().tables.state.failed.store(u32(ErrorCode::Closed), release);
        }
    }
    void check() {}
};
Listed<AbortCopy> const abort("copy.abort", "a failure ends the mover", 50'000);

}  // namespace
}  // namespace mgi::relacy
