// A link's spare slots: wires for NICs that lie idle for want of a direct one. A wire may join NICs that have
// none between them otherwise, or go through other processes, its relays; it is a wire like others, made,
// watched and quarantined as they are. Where direct wires do, none is made; one that is there yields to
// them, and ends when it was not needed for a time.
//
// A way is looked for by trying: ways are many, hops are few, and one that did not lead on rules out all ways
// with it for a time. So there are no more tries than hops.
#include <algorithm>

#include "core/format.hpp"
#include "mover/link/link.hpp"
#include "mover/link/slots.hpp"

namespace mgi::mover::link {
namespace {

constexpr Time kMissing = 500 * kMillisecond;  // or slow; direct wires come back mostly sooner
constexpr Time kUnused = 2 * kSecond;          // then a wire that is not needed ends
constexpr Time kLook = 100 * kMillisecond;
constexpr double kFarSlower = 4.0;  // times, than the fastest wire
constexpr Time kShortestDeadEnd = kSecond;
constexpr Time kLongestDeadEnd = 30 * kSecond;
constexpr Time kLongestWithoutWire = 2 * kSecond;  // where no wire is there
constexpr int kMostLooks = 1000;                   // at ways, before others have their turn

}  // namespace

Way Link::way_of(std::uint32_t slot, std::uint64_t generation) const {
    return link::way_of(options_.slots[slot], generation);
}

std::string Link::name_of(std::uint32_t slot) const {
    Way const way = way_of(slot);
    std::string text = formatted("wire {} (NIC {}", slot, way.nic);
    for (std::uint32_t const relay : way.relays()) {
        text += relay == way.by[0] ? ", through " : ", ";
        text += options_.relays[relay];
    }
    return text + ")";
}

// Since when no direct wire uses the NICs of a way as it could; kNever: one does.
Time Link::idle_since(Way const& way) const {
    Time since = kNever;
    for (std::uint32_t i = 0; i < slots_.size(); ++i) {
        SlotOptions const& direct = options_.slots[i];
        if (is_spare(i) || (direct.nic != way.nic && direct.far_nic != way.far_nic)) continue;
        Time const poor = std::min(slots_[i].missing_since, slots_[i].slow_since);
        if (poor == kNever) return kNever;
        since = since == kNever ? poor : std::max(since, poor);
    }
    return since;
}

// A spare wire may carry something.
bool Link::usable(std::uint32_t slot) const {
    return !is_spare(slot) || idle_since(way_of(slot)) != kNever;
}

void Link::note_dead_end(Hop const& hop, Time now) {
    if (is_dead_end(hop, now)) return;  // another slot has been there
    DeadEnd& it = dead_ends_[hop];
    it.seen = now;
    it.rest = std::clamp(2 * it.rest, kShortestDeadEnd, kLongestDeadEnd);
}

bool Link::is_dead_end(Hop const& hop, Time now) const {
    auto const at = dead_ends_.find(hop);
    if (at == dead_ends_.end()) return false;
    // Who has no wire at all must not rely on what was true a while ago.
    Time const longest = no_wire_since_ == kNever ? kLongestDeadEnd : kLongestWithoutWire;
    return now < at->second.seen + std::min(at->second.rest, longest);
}

// The next one of a spare slot that is worth being dialed; 0: none is, for now.
std::uint64_t Link::next_generation(std::uint32_t slot, Time now) {
    Slot& it = slots_[slot];
    Ways const& ways = options_.slots[slot].ways;
    std::uint64_t idle = 0;  // by NIC of the other end
    for (std::uint32_t far = 0; far < ways.far_nics(); ++far) {
        Time const since = idle_since(Way{ways.nic(), far});
        if (since != kNever && now >= since + kMissing) idle |= 1ULL << far;
    }
    if (idle == 0) {
        it.looked = 0;  // the next search begins with the short ways
        return 0;
    }
    std::uint64_t next = std::max(it.generation, it.looked) + 1;
    for (int looks = 0; next <= it.generation + ways.size(); ++looks) {
        if (looks == kMostLooks) {
            it.looked = next - 1;
            return 0;
        }
        std::uint64_t const index = next % ways.size();
        Way const way = ways.at(index);
        std::uint32_t hop = 0;
        while (hop <= way.count && !ways.returns(way, hop) && !is_dead_end(way.hop(hop), now)) {
            ++hop;
        }
        if (hop > way.count && (idle >> way.far_nic & 1) != 0) return next;
        next += ways.behind(index, hop) - index;
    }
    it.looked = 0;
    it.rest_until = now + it.rest;
    it.rest = std::min(2 * it.rest, options_.longest_rest);
    return 0;
}

void Link::compare_rates(Time now) {
    double fastest = 0;
    for (Slot const& slot : slots_) {
        if (slot.state == State::Open && slot.measured) fastest = std::max(fastest, slot.rate);
    }
    bool const wanted = queue_.size() != 0;
    if (wanted) wanted_at_ = now;
    for (Slot& slot : slots_) {
        bool const slow =
            slot.state == State::Open && slot.measured && slot.rate * kFarSlower < fastest;
        // What a wire could carry shows only while all have as much as they can take.
        if (slow && wanted) {
            slot.slow_since = std::min(slot.slow_since, now);
        } else if (!slow || now < slot.slow_since + kMissing || now >= wanted_at_ + kUnused) {
            slot.slow_since = kNever;
        }
    }
}

void Link::look_at_spares(Time now) {
    look_at_ = now + kLook;
    compare_rates(now);
    bool degraded = false;
    for (std::uint32_t i = 0; i < slots_.size(); ++i) {
        Slot const& it = slots_[i];
        if (!is_spare(i)) {
            degraded |= it.missing_since != kNever || it.slow_since != kNever;
            continue;
        }
        dial(i, now);
        if (it.state != State::Open) continue;
        degraded = true;
        Time const used = std::max({it.last_used, it.came, it.opened});
        if (options_.dials && !usable(i) && it.out.in_flight() == 0 && !it.in.arriving() &&
            now >= used + kUnused) {
            down(i, "direct wires do without it", true);
        }
    }
    degraded_ = degraded;
}

}  // namespace mgi::mover::link
