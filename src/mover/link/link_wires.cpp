// A link's wires: how they come, are watched, and go.
#include <algorithm>
#include <utility>

#include <mgi/device/assert.hpp>

#include "core/format.hpp"
#include "core/log.hpp"
#include "mover/link/link.hpp"

namespace mgi::mover::link {
namespace {

// Reports of a slot that are remembered: a wire that long ago is nobody's any more.
constexpr std::size_t kMostReports = 64;
// Of a new wire: a slow one must not get much before that is known.
constexpr std::uint64_t kWindowAtFirst = 1U << 20;

}  // namespace

bool Link::opened(std::uint32_t slot, std::uint64_t generation, Time now) {
    now_ = now;
    if (over_ || slot >= slots_.size()) return false;
    Slot& it = slots_[slot];
    if (options_.dials) {
        if (it.state != State::Dialing || generation != it.generation) return false;
        if (it.reported.contains(generation)) {
            not_made(slot, generation, way_of(slot).count, "the other end has closed it", now);
            return false;
        }
    } else {
        if (generation <= it.generation) return false;
        if (it.state == State::Open) down(slot, "the other end has made a new wire", true);
        it.generation = generation;
    }
    it.state = State::Open;
    counts_->wires.add(1);
    std::uint16_t const codec = options_.slots[slot].codec;
    it.out.restart(options_.checksums, codec, codec_of(options_.codecs, codec));
    it.in.restart(options_.largest_segment, &options_.codecs);
    it.window = std::min(kWindowAtFirst, options_.window);
    it.measured = false;
    it.opened = it.heard = it.said = now;
    it.missing_since = it.slow_since = kNever;
    (*counts_)[slot].open.set(1);
    if (is_spare(slot)) {
        (*counts_)[slot].way.set(generation % options_.slots[slot].ways.size());
        Way const way = way_of(slot);
        for (std::uint32_t hop = 0; hop <= way.count; ++hop) dead_ends_.erase(way.hop(hop));
        log::info("link: {}, generation {}, is there", name_of(slot), generation);
    }
    note_progress(it);
    it.say_by = kNever;
    it.together_until = 0;
    it.said_bytes = 0;
    no_wire_since_ = still_since_ = kNever;
    return true;
}

// A process that says nothing on any wire, for so long after which its machine still answered, stands
// still: of one that is cut off, both end at the same time.
void Link::answered(std::uint32_t slot, std::uint64_t generation, Time when, Time now) {
    now_ = now;
    bool const known = slot < slots_.size() && slots_[slot].generation == generation;
    // It was a relay's machine that answered.
    if (!known || way_of(slot).count != 0 || options_.still_limit == kNever) return;
    Time heard = 0;
    for (Slot const& it : slots_) heard = std::max(heard, it.heard);
    // The wire may have been closed since nothing was acknowledged, which is a little earlier.
    bool const silent = now >= heard + options_.silence_limit / 2;
    if (silent && when >= heard + options_.silence_limit / 3) still_since_ = heard;
}

void Link::not_made(std::uint32_t slot, std::uint64_t generation, std::uint32_t hop,
                    std::string const& why, Time now) {
    now_ = now;
    if (slot >= slots_.size()) return;
    Slot& it = slots_[slot];
    if (it.generation != generation || it.state != State::Dialing) return;
    it.state = State::Resting;
    if (is_spare(slot)) {
        Way const way = way_of(slot);
        note_dead_end(way.hop(std::min(hop, way.count)), now);
        look_at_ = now;  // for another way
    } else {
        it.rest_until = now + it.rest;
        it.rest = std::min(2 * it.rest, options_.longest_rest);
        last_trouble_ = formatted("wire {}: {}", slot, why);
    }
    settle();
}

void Link::closed(std::uint32_t slot, std::uint64_t generation, std::string const& why, Time now) {
    now_ = now;
    if (slot >= slots_.size() || slots_[slot].generation != generation) return;
    switch (slots_[slot].state) {
        case State::Open: down(slot, why, false); break;
        case State::Leaving: slots_[slot].state = State::Resting; break;
        case State::Dialing:
        case State::Resting: break;
    }
    settle();
}

// `still_open`: whoever moves bytes has to close it.
void Link::down(std::uint32_t slot, std::string const& why, bool still_open) {
    Slot& it = slots_[slot];
    MGI_ASSERT(it.state == State::Open, it.state, slot, it.generation);
    if (!is_spare(slot)) last_trouble_ = formatted("wire {}: {}", slot, why);
    log::info("link: {}, generation {}, is gone: {}", name_of(slot), it.generation, why);
    if (still_open) commands_.push_back({Command::Kind::Close, slot, it.generation});
    it.state = State::Resting;
    counts_->wires.take(1);
    (*counts_)[slot].open.clear();
    it.missing_since = now_;
    degraded_ = true;
    if (now_ - it.opened > options_.longest_rest) it.rest = options_.shortest_rest;
    it.rest_until = now_ + it.rest;
    it.rest = std::min(2 * it.rest, options_.longest_rest);

    WireSender::Remains remains = it.out.take_remains();
    for (auto const& [number, flight] : remains.begun) give_back(slot, flight);
    for (Flight const& flight : remains.waiting) give_back(slot, flight);
    for (auto at = remains.waiting.rbegin(); at != remains.waiting.rend(); ++at) {
        queue_.push_again(std::move(at->transfer));
    }
    MGI_ASSERT(it.lent == 0 && it.out.in_flight() == 0, it.lent, it.out.in_flight(), slot);
    note_load(slot);
    for (WordName const& name : remains.words) book_.lost(name);
    if (!remains.begun.empty()) {
        quarantine_[{slot, it.generation}] = {std::move(remains.begun), remains.written, now_};
    }
    report(slot, it.generation, it.in.frames());
    bool const any = std::any_of(slots_.begin(), slots_.end(),
                                 [](Slot const& other) { return other.state == State::Open; });
    if (!any) no_wire_since_ = now_;
}

void Link::report(std::uint32_t slot, std::uint64_t generation, std::uint64_t frames) {
    auto& reported = slots_[slot].reported;
    if (!reported.try_emplace(generation, frames).second) return;
    if (reported.size() > kMostReports) reported.erase(reported.begin());
    Word word;
    word.channel = generation;
    word.source = slot;
    word.value = frames;
    book_.say({FrameKind::Report, generation, 0, slot, 0}, std::move(word));
}

void Link::dial(std::uint32_t slot, Time now) {
    Slot& it = slots_[slot];
    if (!options_.dials || !begun_ || it.state != State::Resting || now < it.rest_until) return;
    std::uint64_t const generation =
        is_spare(slot) ? next_generation(slot, now) : it.generation + 1;
    if (generation == 0) return;
    it.state = State::Dialing;
    it.generation = generation;
    commands_.push_back({Command::Kind::Dial, slot, it.generation});
}

// A process that is stopped is silent on all wires, a NIC that is down on its own: so time in which
// others are heard counts for more, and a gap in which nobody is does not.
void Link::count_lag(std::uint32_t heard, Time now) {
    for (std::uint32_t i = 0; i < slots_.size(); ++i) {
        if (i == heard) continue;
        Slot& it = slots_[i];
        it.lag += std::min(now - it.lag_at, 2 * options_.heartbeat);
        it.lag_at = now;
    }
}

void Link::note_progress(Slot& slot) const {
    slot.progress = now_;
    slot.lag = 0;
    slot.lag_at = now_;
}

void Link::watch(std::uint32_t slot, Time now) {
    Slot& it = slots_[slot];
    if (it.state != State::Open) return;
    if (now >= it.heard + options_.silence_limit) {
        down(slot, formatted("nothing was heard for {} ms", (now - it.heard) / kMillisecond), true);
    } else if (it.out.in_flight() != 0 &&
               (now >= it.progress + options_.silence_limit || it.lag >= options_.lag_limit)) {
        down(slot,
             formatted("nothing was acknowledged for {} ms, {} bytes are on their way",
                       (now - it.progress) / kMillisecond, it.out.in_flight()),
             true);
    } else if (now >= it.say_by || now >= it.said + options_.heartbeat) {
        it.out.acknowledge(it.in.frames(), it.in.bytes());
        it.said = now;
        it.together_until = now + kWordsTogether;
        it.said_bytes = it.in.bytes();
        it.say_by = kNever;
    }
}

Time Link::next_time(std::uint32_t slot) const {
    Slot const& it = slots_[slot];
    if (it.state == State::Resting && options_.dials && begun_ && !is_spare(slot)) {
        return it.rest_until;
    }
    if (it.state != State::Open) return kNever;
    Time next = std::min(it.say_by, it.said + options_.heartbeat);
    next = std::min(next, it.heard + options_.silence_limit);
    if (it.out.in_flight() != 0) next = std::min(next, it.progress + options_.silence_limit);
    return next;
}

Time Link::tick(Time now) {
    now_ = now;
    if (over_) return kNever;
    for (std::uint32_t i = 0; i < slots_.size(); ++i) {
        watch(i, now);
        if (!is_spare(i)) dial(i, now);
    }
    if (now >= look_at_) look_at_spares(now);
    bool const awaiting = outstanding();
    if (!awaiting || !begun_) progress_ = now;
    Time next = degraded_ && options_.dials ? look_at_ : kNever;
    auto const limit = [&](Time since, Time most, auto&& why) {
        if (since == kNever) return;
        if (now >= since + most) {
            fail(ErrorCode::Stalled, why());
        } else {
            next = std::min(next, since + most);
        }
    };
    limit(begun_ ? no_wire_since_ : kNever, options_.link_limit, [&] {
        return formatted(
            "there was no wire to the other end for {} ms ({}); look whether its process "
            "runs and its network is up",
            (now - no_wire_since_) / kMillisecond,
            last_trouble_.empty() ? "none was made" : last_trouble_);
    });
    Time const still_limit = std::max(options_.still_limit, options_.silence_limit);
    limit(begun_ ? still_since_ : kNever, still_limit, [&] {
        return formatted(
            "the process at the other end stands still: it has said nothing for {} ms, and its "
            "machine answers; look whether it was stopped",
            (now - still_since_) / kMillisecond);
    });
    for (auto const& quarantined : quarantine_) {
        auto const since = quarantined.second.since;
        limit(since, options_.link_limit, [&] {
            return formatted(
                "the other end has not said for {} ms what had arrived on wire {} when it "
                "died",
                (now - since) / kMillisecond, quarantined.first.first);
        });
    }
    if (awaiting) {
        limit(progress_, options_.progress_limit, [&] {
            return formatted("nothing arrived at the other end for {} ms ({})",
                             (now - progress_) / kMillisecond, describe(now));
        });
    }
    settle();
    if (over_) return kNever;
    if (queue_.size() != 0) assign(now);
    if (held_ && queue_.size() != 0) next = std::min(next, now + NicShares::kLookAgain);
    for (std::uint32_t i = 0; i < slots_.size(); ++i) next = std::min(next, next_time(i));
    return next;
}

// The last word, on wires that can still carry one; the others are closed.
void Link::leave(std::uint64_t code, std::string const& why) {
    for (std::uint32_t i = 0; i < slots_.size(); ++i) {
        Slot& slot = slots_[i];
        if (slot.state == State::Open && slot.out.end_with(code, why)) {
            slot.state = State::Leaving;
        } else if (slot.state != State::Resting) {
            slot.state = State::Resting;
            commands_.push_back({Command::Kind::Close, i, slot.generation});
        }
    }
    queue_.clear();
    quarantine_.clear();
    for (std::uint32_t i = 0; i < slots_.size(); ++i) let_go(i);
    for (WireCounts& counts : *counts_) {
        counts.in_flight.clear();
        counts.open.clear();
    }
    counts_->wires.clear();
    counts_->over.set(1);
}

}  // namespace mgi::mover::link
