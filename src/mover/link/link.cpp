#include "mover/link/link.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include <mgi/device/assert.hpp>

#include "core/format.hpp"

namespace mgi::mover::link {
namespace {

// The longest that an owner's NIC counts as busy without another word of it.
constexpr Time kMostBusy = 50 * kMillisecond;

}  // namespace

Link::Link(LinkOptions options, LinkOwner& owner, NicBoard& board, Time now)
    : options_(std::move(options)),
      owner_(owner),
      board_(board),
      slots_(options_.slots.size()),
      counts_(std::make_shared<LinkCounts>(slots_.size())),
      now_(now),
      no_wire_since_(now),
      progress_(now),
      begun_(!options_.begins_later) {
    for (std::size_t i = 0; i < slots_.size(); ++i) {
        slots_[i].rate = options_.slots[i].rate;
        slots_[i].rest = options_.shortest_rest;
        slots_[i].missing_since = now;
        if (is_spare(i)) look_at_ = now;
    }
}

Link::~Link() {
    for (std::uint32_t i = 0; i < slots_.size(); ++i) let_go(i);
}

void Link::begin(Time now) {
    if (begun_) return;
    begun_ = true;
    if (no_wire_since_ != kNever) no_wire_since_ = now;
    for (Slot& slot : slots_) {
        if (slot.missing_since != kNever) slot.missing_since = now;
    }
    progress_ = now;
}

bool Link::hopeful(Time now) const {
    return begun_ && (no_wire_since_ == kNever || now < no_wire_since_ + kSecond);
}

void Link::start(Transfer transfer) {
    if (over_) return;
    if (!outstanding()) progress_ = now_;
    queue_.push(std::move(transfer));
}

void Link::say(Word word) {
    if (over_) return;
    if (!outstanding()) progress_ = now_;
    WordName const name = WordBook::name_of(word);
    book_.say(name, std::move(word));
}

bool Link::outstanding() const {
    return queue_.size() != 0 || !book_.empty() || !quarantine_.empty() ||
           std::any_of(slots_.begin(), slots_.end(),
                       [](Slot const& slot) { return slot.out.in_flight() != 0; });
}

// What was put off while the owner was being called.
void Link::settle() {
    if (inside_) return;
    if (over_ && !told_) {
        told_ = true;
        leave(std::uint64_t(code_), why_);
        owner_.failed(code_, why_);
    }
}

void Link::fail(ErrorCode code, std::string const& why) {
    if (over_) return;
    over_ = true;
    told_ = false;
    code_ = code;
    why_ = why;
}

void Link::close(ErrorCode code, std::string const& why) {
    if (over_) return;
    over_ = true;
    code_ = code;
    why_ = why;
    leave(std::uint64_t(code), why);
}

// Gives what waits to wires that have room.
void Link::assign(Time now) {
    assign_words(now);
    held_ = false;
    while (queue_.size() != 0) {
        bool const taken = queue_.offer([&](Transfer& transfer) {
            list_candidates(transfer, now);
            auto const choice =
                choose(candidates_, transfer.bytes() + kHeaderBytes, last_choice_, now);
            if (!choice) return false;
            last_choice_ = choice->slot;
            give(choice->slot, {std::move(transfer), choice->own}, now);
            return true;
        });
        if (!taken) return;
    }
}

void Link::give(std::uint32_t slot, Flight flight, Time now) {
    Slot& it = slots_[slot];
    MGI_ASSERT(it.state == State::Open && !over_, it.state, over_, slot);
    board_.shares().started(wish_of(flight.transfer, slot), now);
    bool const own = flight.own;
    if (!own) {
        it.lent += flight.transfer.bytes();
        board_.lend(way_of(slot).nic, flight.transfer.bytes(), now);
    }
    use(slot, now);
    (*counts_)[slot].in_flight.add(1);
    it.out.add(std::move(flight));
    if (own) note_owner(slot, now);
    note_load(slot);
}

// Its owner uses the slot's NIC, and has enough on its way for so long as that takes; how long is not known
// of a wire that has acknowledged nothing yet.
void Link::note_owner(std::uint32_t slot, Time now) {
    Slot const& it = slots_[slot];
    double const time = it.measured ? double(it.out.in_flight()) / it.rate : double(kMostBusy);
    board_.owner_is_busy(way_of(slot).nic, now + Time(std::min(time, double(kMostBusy))));
}

// What other links must know of the wire.
void Link::note_load(std::uint32_t slot) {
    Slot& it = slots_[slot];
    NicShares::Load load;
    load.bytes = it.state == State::Open ? it.out.in_flight() : 0;
    if (load.bytes != 0 && it.measured) load.rate = it.rate;
    board_.shares().change(way_of(slot).nic, it.load, load);
    it.load = load;
}

// A link that is over has nothing on its way.
void Link::let_go(std::uint32_t slot) {
    Slot& it = slots_[slot];
    std::uint32_t const nic = way_of(slot).nic;
    if (it.lent != 0) board_.give_back(nic, it.lent, now_);
    board_.shares().change(nic, it.load, {});
    it.lent = 0;
    it.load = {};
}

NicShares::Wish Link::wish_of(Transfer const& transfer, std::uint32_t slot) const {
    return {way_of(slot).nic, transfer.key.channel, queue_.weight(transfer.key.channel),
            transfer.bytes() + kHeaderBytes};
}

// Words are small and others wait for them: the wire that has least to do.
void Link::assign_words(Time now) {
    while (book_.has_waiting()) {
        std::uint32_t best = UINT32_MAX;
        double least = 0;
        for (std::uint32_t i = 0; i < slots_.size(); ++i) {
            if (slots_[i].state != State::Open || !usable(i)) continue;
            double const time = double(slots_[i].out.in_flight() + kHeaderBytes) / slots_[i].rate;
            if (best == UINT32_MAX || time < least) {
                best = i;
                least = time;
            }
        }
        if (best == UINT32_MAX) return;
        auto next = book_.next();
        if (!next) return;
        use(best, now);
        slots_[best].out.add(next->first, std::move(next->second));
    }
}

void Link::use(std::uint32_t slot, Time now) {
    slots_[slot].last_used = now;
    if (slots_[slot].out.in_flight() == 0) note_progress(slots_[slot]);
}

void Link::list_candidates(Transfer const& transfer, Time now) {
    candidates_.clear();
    std::uint64_t const bytes = transfer.bytes() + kHeaderBytes;
    bool any_own = false;
    for (std::uint32_t i = 0; i < slots_.size(); ++i) {
        Slot const& slot = slots_[i];
        if (slot.state != State::Open || !usable(i)) continue;
        Candidate wire;
        wire.slot = i;
        wire.in_flight = slot.out.in_flight();
        wire.rate = slot.rate;
        wire.window =
            std::min(slot.window, std::uint64_t(slot.rate * double(options_.window_time)));
        wire.window = std::max(wire.window, 2 * bytes);
        wire.last_used = slot.last_used;
        wire.relays = way_of(i).count;
        std::uint32_t const nic = way_of(i).nic;
        wire.own = transfer.nics == 0 || (transfer.nics >> nic & 1) != 0;
        any_own |= wire.own;
        if (!wire.own && board_.idle(nic, now)) {
            std::uint64_t const lent = board_.lent(nic, now);
            wire.lent = lent == 0 || lent + bytes <= options_.lent;
        }
        candidates_.push_back(wire);
    }
    if (!any_own) {
        // Its own NICs have no wire now: it may use the others as if they were its own.
        for (Candidate& wire : candidates_) wire.lent = true;
    }
    leave_to_others(transfer, now);
}

// Without wires whose NICs channels of other weights want, and are further behind.
void Link::leave_to_others(Transfer const& transfer, Time now) {
    std::erase_if(candidates_, [&](Candidate& wire) {
        if (!wire.own && !wire.lent) return true;
        NicShares::Wish const wish = wish_of(transfer, wire.slot);
        switch (board_.shares().turn(wish, slots_[wire.slot].load, now)) {
            case NicShares::Turn::Free: return false;
            case NicShares::Turn::Own: wire.window = UINT64_MAX; return false;
            case NicShares::Turn::Full: return true;  // its next acknowledgement changes that
            case NicShares::Turn::Others: held_ = true; return true;
        }
        return true;
    });
}

void Link::give_back(std::uint32_t slot, Flight const& flight) {
    (*counts_)[slot].in_flight.take(1);
    if (flight.own) return;
    MGI_ASSERT(slots_[slot].lent >= flight.transfer.bytes(), slot, slots_[slot].lent,
               flight.transfer.bytes());
    slots_[slot].lent -= flight.transfer.bytes();
    board_.give_back(way_of(slot).nic, flight.transfer.bytes(), now_);
}

void Link::finish(std::uint32_t slot, Flight const& flight) {
    progress_ = now_;
    WireCounts& counts = (*counts_)[slot];
    counts.segments.add(1);
    counts.bytes.add(flight.transfer.bytes());
    owner_.acknowledged(flight.transfer.token);
}

std::size_t Link::gather(std::uint32_t slot, std::span<iovec> pieces, Time now) {
    now_ = now;
    if (!over_) assign(now);
    State const state = slots_[slot].state;
    if (state != State::Open && state != State::Leaving) return 0;
    return slots_[slot].out.gather(pieces, now);
}

void Link::sent(std::uint32_t slot, std::size_t bytes, Time now) {
    now_ = now;
    Slot& it = slots_[slot];
    if (it.state != State::Open && it.state != State::Leaving) return;
    it.out.sent(bytes);
    if (it.state == State::Leaving && it.out.is_written()) {
        it.state = State::Resting;
        commands_.push_back({Command::Kind::Finish, slot, it.generation});
    }
}

std::size_t Link::scatter(std::uint32_t slot, std::span<iovec> pieces) {
    State const state = slots_[slot].state;
    if (state == State::Open) return slots_[slot].in.scatter(pieces);
    if (state != State::Leaving) return 0;
    // What comes behind the last word is of no interest, but has to be taken.
    pieces[0] = {nowhere_.data(), nowhere_.size()};
    return 1;
}

void Link::take_commands(std::vector<Command>& commands) {
    commands.insert(commands.end(), commands_.begin(), commands_.end());
    commands_.clear();
}

bool Link::finished() const {
    return over_ && std::all_of(slots_.begin(), slots_.end(),
                                [](Slot const& slot) { return slot.state == State::Resting; });
}

std::string Link::describe(Time now) const {
    std::string text = formatted("{} transfers wait, {} dead wires await a report", queue_.size(),
                                 quarantine_.size());
    for (std::uint32_t i = 0; i < slots_.size(); ++i) {
        Slot const& slot = slots_[i];
        if (slot.state == State::Open) {
            text += formatted(
                "; {}: {} bytes on their way, {} of them borrowed, {} MB/s, heard {} ms ago",
                name_of(i), slot.out.in_flight(), slot.lent, std::llround(slot.rate * 1e3),
                (now - std::min(now, slot.heard)) / kMillisecond);
        } else if (!is_spare(i)) {
            text += formatted("; {}: none", name_of(i));
        }
    }
    if (!last_trouble_.empty()) text += formatted("; last trouble: {}", last_trouble_);
    return text;
}

}  // namespace mgi::mover::link
