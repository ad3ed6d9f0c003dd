// Between servers: the mover's own loop between lanes and a link, and what comes from the link put into
// receive rings. The link is a thread that does what both its ends' threads do, in any order.

#include <deque>
#include <optional>
#include <set>

#include <mgi/error.hpp>

#include "channel_test.hpp"
#include "late_copy.hpp"
#include "mover/channel_moves.hpp"
#include "mover/far_route.hpp"
#include "mover/intake.hpp"
#include "mover/placed_route.hpp"

namespace mgi::relacy {
namespace {

namespace link = mover::link;
using FarEnd = mover::BasicFarEnd<A>;
using FarFlow = mover::BasicFarFlow<A>;
using FarRoute = mover::BasicFarRoute<A>;
using Intake = mover::BasicIntake<A>;
using PlacedRoute = mover::BasicPlacedRoute<A>;
using mover::ChannelWord;

/// Segments of the only source on their way to the last destination, whose ring lies in the same tables.
/// What is started happens before it is carried; what is said comes without any order, as from a
/// machine with another memory.
class LateLink final : public link::Carrier {
public:
    /// `placed`: between processes of one server, of which the source's writes the ring itself; then what is said
    /// comes behind what was done before, as over a socket.
    LateLink(Tables& tables, bool placed)
        : tables_(tables),
          destination_(tables.options().destinations - 1),
          placed_(placed),
          flow_(tables.options().credits),
          intake_(tables.state, 0, {{0, destination_}},
                  placed ? Names{{0, destination_}} : Names{}) {
        mover::RingEnd<A> const ring(tables.state, 0, destination_);
        std::ptrdiff_t const stride = ring.size() > 1 ? ring.segment(1) - ring.segment(0) : 0;
        if (placed) ring_.set(ring.segment(0), std::uint64_t(stride));
    }

    void start(link::Transfer transfer) override {
        transfers_.push_back({std::move(transfer), {}, Stage::Started});
        started_.store(started_.newest() + 1, release);
    }
    void say(link::Word word) override {
        (void)said_.fetch_add(1, release);  // first: who sees the word sees this
        words_.push_back(std::move(word));
    }

    std::unique_ptr<mover::Route<A>> route(u32 source, u32 lane, u32 destination,
                                           transport::Transport& transport, u64 index) {
        if (destination != destination_) return nullptr;
        FarEnd const end{.carrier = this, .flow = &flow_, .ring = &ring_};
        if (!placed_)
            return std::make_unique<FarRoute>(tables_.state, source, lane, destination, end);
        return std::make_unique<PlacedRoute>(tables_.state, source, lane, destination, end,
                                             transport, index);
    }
    /// For the mover.
    [[nodiscard]] Intake& intake() { return intake_; }

    /// Carries until everything has arrived and is acknowledged.
    void carry_all() {
        while (tables_.state.failed.load(relaxed) == 0) {
            u64 const started = started_.load(acquire);
            if (transfers_.empty() && words_.empty() && intake_.done()) return;
            bool const moved = rl::rand(2) == 0 ? hear() : carry(started);
            if (!moved) A::backoff(0);
        }
    }

private:
    using Names = std::set<Intake::SourceAndDestination>;
    enum class Stage { Started, Written, Arrived };
    struct Carried {
        link::Transfer transfer;
        char* to;
        Stage stage;
    };

    /// One word, perhaps to be heard again.
    bool hear() {
        if (words_.empty()) return false;
        if (placed_) (void)said_.fetch_add(0, acquire);  // all that was said until now
        std::size_t const at = rl::rand(u32(words_.size()));
        link::Word const word = words_[at];
        if (rl::rand(4) != 0) words_.erase(words_.begin() + std::ptrdiff_t(at));
        if (ChannelWord(word.kind) == ChannelWord::End) {
            intake_.end({word.source, word.destination}, word.value);
        } else {
            flow_.allow(word.value);
        }
        return true;
    }

    /// The next stage of one of the transfers `started`.
    bool carry(u64 started) {
        u64 const under_way = started - acknowledged_;
        if (under_way == 0) return false;
        auto const at = transfers_.begin() + std::ptrdiff_t(rl::rand(u32(under_way)));
        auto& [transfer, to, stage] = *at;
        switch (stage) {
            case Stage::Started: write(*at); return true;
            case Stage::Written:
                // A wire may die under a segment, which then comes once more.
                if (rl::rand(8) == 0) {
                    write(*at);
                    return true;
                }
                intake_.arrived(transfer.key, transfer.tag);
                stage = Stage::Arrived;
                return true;
            case Stage::Arrived:
                flow_.acknowledge(transfer.token);
                transfers_.erase(at);
                ++acknowledged_;
                return true;
        }
        return false;
    }

    void write(Carried& carried) {
        link::Transfer const& transfer = carried.transfer;
        std::vector<iovec> pieces;
        bool refused = false;
        try {
            intake_.target(transfer.key, transfer.tag, transfer.bytes(), pieces);
        } catch (Error const&) {
            refused = true;
        }
        carried.stage = Stage::Written;
        RL_ASSERT(!refused && pieces.size() == transfer.pieces.size());
        RL_ASSERT(pieces.size() == (placed_ || transfer.tag == 0 ? 0 : 1));
        if (pieces.empty()) return;
        auto const* const from = static_cast<char const*>(transfer.pieces[0].iov_base);
        auto const* const to = static_cast<char const*>(pieces[0].iov_base);
        for (u32 i = 0; i < u32(transfer.tag); ++i) {
            tables_.row(to, i).write(tables_.row(from, i).read());
        }
    }

    Tables& tables_;
    u32 const destination_;
    bool const placed_;
    mover::PlacedRing ring_;
    FarFlow flow_;
    Intake intake_;
    std::deque<Carried> transfers_;
    std::vector<link::Word> words_;
    Word<u64> started_{0};
    Word<u64> said_{0};
    u64 acknowledged_ = 0;
};

template <class Derived, rl::thread_id_t threads, bool kPlaced = false>
class ByLink : public ChannelScenario<Derived, threads> {
public:
    void prepare() {
        ChannelScenario<Derived, threads>::prepare();
        link_.emplace(this->flow().tables, kPlaced);
    }
    void after() {
        ChannelScenario<Derived, threads>::after();
        link_.reset();
    }

protected:
    /// The movers of both servers: what they do is done by one thread, but they share nothing.
    void move_all() { move(true); }
    /// The one of the source alone.
    void move_out() { move(false); }
    /// The one of the destination alone.
    void say_credits() {
        while (!failed() && !link_->intake().done()) {
            if (!link_->intake().say_credits(*link_)) A::backoff(0);
        }
    }
    void carry_all() { link_->carry_all(); }

private:
    [[nodiscard]] bool failed() { return this->flow().tables.state.failed.load(relaxed) != 0; }
    void move(bool both) {
        mover::BasicChannelMoves<A> moves(
            this->flow().tables.state, {0}, std::make_unique<LateCopy>(this->flow().tables),
            [&](u32 source, u32 lane, u32 d, transport::Transport& transport, u64 index) {
                return link_->route(source, lane, d, transport, index);
            });
        while (!failed() && !(moves.done() && (!both || link_->intake().done()))) {
            bool const moved = !moves.done() && moves.step();
            bool const said = both && link_->intake().say_credits(*link_);
            if (!said && !moved) A::backoff(0);
        }
    }

    std::optional<LateLink> link_;
};

/// One lane, as few credits as there can be.
struct Credits : ByLink<Credits, 4> {
    static TableOptions options() { return {.groups = 1, .chunk_rows = 1, .by_reference = false}; }
    void thread(unsigned index) {
        if (index == 0) send_and_flush(0, 0, 1, 5, 2);
        if (index == 1) move_all();
        if (index == 2) carry_all();
        if (index == 3) receive_all(0);
    }
    void check() { all_arrived(5); }
};
Listed<Credits> const credits("link.credits", "a segment is overwritten when its readers are done",
                              30'000);

/// The source's process writes the ring itself, and the link says so.
struct Placed : ByLink<Placed, 5, true> {
    static TableOptions options() {
        return {.groups = 1, .chunk_rows = 1, .credits = 2, .by_reference = false};
    }
    void thread(unsigned index) {
        if (index == 0) send_and_flush(0, 0, 1, 5, 2);
        if (index == 1) move_out();
        if (index == 2) say_credits();
        if (index == 3) carry_all();
        if (index == 4) receive_all(0);
    }
    void check() { all_arrived(5); }
};
Listed<Placed> const placed("link.placed",
                            "who writes another process' ring does so when its readers are done",
                            30'000);

/// Several segments are under way, and arrive in any order.
struct Flights : ByLink<Flights, 4> {
    static TableOptions options() {
        return {.groups = 1,
                .slots = 4,
                .capacity = 1,
                .credits = 3,
                .ordered = true,
                .by_reference = false};
    }
    void thread(unsigned index) {
        if (index == 0) send_and_flush(0, 0, 1, 6);
        if (index == 1) move_all();
        if (index == 2) carry_all();
        if (index == 3) receive_all(0);
    }
    void check() { all_arrived(6); }
};
Listed<Flights> const flights("link.flights", "segments are read in sequence, however they arrive",
                              30'000);

/// Flush between servers is done when the segments stand in the queue; only then does anybody receive.
struct Delivered : ByLink<Delivered, 4> {
    static TableOptions options() { return {.credits = 4, .by_reference = false}; }
    void thread(unsigned index) {
        if (index < 2) flush_then_receive(index);
        if (index == 2) move_all();
        if (index == 3) carry_all();
    }
    void check() { all_arrived(5); }
};
Listed<Delivered> const delivered("link.flush", "flush is done when the segments have arrived",
                                  20'000);

/// To one destination by copy, to the other one by link.
struct BroadcastFar : ByLink<BroadcastFar, 4> {
    static TableOptions options() {
        return {.destinations = 2,
                .groups = 1,
                .routing = RoutingKind::Broadcast,
                .by_reference = false};
    }
    void thread(unsigned index) {
        if (index == 0) send_and_flush(0, 0, 1, 3);
        if (index == 1) move_all();
        if (index == 2) carry_all();
        if (index == 3) receive_everywhere();
    }
    void check() { all_arrived(6); }
};
Listed<BroadcastFar> const broadcast("link.broadcast",
                                     "the last of copy and link frees the source's segment",
                                     20'000);

/// One destination reads in place, in chunks; to the other one by link.
struct BroadcastNearAndFar : ByLink<BroadcastNearAndFar, 5> {
    static TableOptions options() {
        return {.destinations = 2,
                .groups = 1,
                .chunk_rows = 1,
                .routing = RoutingKind::Broadcast,
                .by_reference = false,
                .near = 1};
    }
    void thread(unsigned index) {
        if (index == 0) send_and_flush(0, 0, 1, 5, 2);
        if (index == 1) move_all();
        if (index == 2) carry_all();
        if (index >= 3) receive_all(index - 3);
    }
    void check() { all_arrived(10); }
};
Listed<BroadcastNearAndFar> const near_and_far(
    "link.broadcast.near", "the last of readers in place and the mover frees the segment", 30'000);

/// The same of segments of which some are for one destination.
template <bool placed>
struct NamedNearAndFar : ByLink<NamedNearAndFar<placed>, 5, placed> {
    static TableOptions options() {
        TableOptions options = BroadcastNearAndFar::options();
        options.destinations = 3;
        return options;
    }
    void thread(unsigned index) {
        if (index == 0) this->send_by_turns(0, 0, 1, 5);
        if (index == 1) this->move_all();
        if (index == 2) this->carry_all();
        if (index == 3) this->receive_all(0);
        if (index == 4) receive_far();
    }
    /// At the destinations that do not read in place.
    void receive_far() {
        Member me(0, 1);
        for (bool ended[2] = {false, false}; !ended[0] || !ended[1];) {
            u32 const d = rl::rand(2);
            if (ended[d]) continue;
            Status const status = this->flow().receive(me, 1 + d);
            RL_ASSERT(status != Status::Error);
            if (status == Status::Pending) A::backoff(0);
            ended[d] = status == Status::End;
        }
    }
    void check() { this->all_arrived(this->arrived_by_turns(0, 0, 5)); }
};
Listed<NamedNearAndFar<false>> const named(
    "link.named", "a segment goes without rows where they are for another one", 20'000);
Listed<NamedNearAndFar<true>> const named_placed(
    "link.named-placed", "the same where the source's process writes the ring", 20'000);

/// Flush is done when the rows stand in both queues; only then does anybody receive.
struct BroadcastDelivered : ByLink<BroadcastDelivered, 3> {
    static TableOptions options() {
        return {.destinations = 2,
                .groups = 1,
                .slots = 4,
                .credits = 4,
                .routing = RoutingKind::Broadcast,
                .by_reference = false,
                .near = 1};
    }
    void thread(unsigned index) {
        if (index == 0) {
            send_and_flush(0, 0, 1, 3);
            Member me(0, 1);
            for (u32 d = 0; d < 2; ++d) {
                while (flow().receive(me, d) == Status::Ok) {
                }
                RL_ASSERT(flow().has_arrived(d, Flow::value(0, 0, 2)));
            }
            receive_everywhere();
        }
        if (index == 1) move_all();
        if (index == 2) carry_all();
    }
    void check() { all_arrived(6); }
};
Listed<BroadcastDelivered> const broadcast_delivered(
    "link.broadcast.flush", "flush is done when the rows stand in queues near and far", 20'000);

}  // namespace
}  // namespace mgi::relacy
