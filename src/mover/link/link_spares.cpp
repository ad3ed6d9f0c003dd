// A link's spare slots: wires for NICs that lie idle for want of a direct one. A wire may join NICs that have
// none between them otherwise, or go through a third process, their relay; it is a wire like others, made,
// watched and quarantined as they are. Where direct wires do, none is made; one that is there yields to
// them, and ends when it was not needed for a time.
#include <fmt/format.h>

#include <algorithm>

#include "mover/link/link.hpp"
#include "mover/link/slots.hpp"

namespace mgi::mover::link {
namespace {

constexpr Time kMissing = 500 * kMillisecond;  // or slow; direct wires come back mostly sooner
constexpr Time kUnused = 2 * kSecond;          // then a wire that is not needed ends
constexpr Time kLook = 100 * kMillisecond;
constexpr double kFarSlower = 4.0;  // times, than the fastest wire

}  // namespace

Way Link::way_of(std::uint32_t slot, std::uint64_t generation) const {
    return link::way_of(options_.slots[slot], generation);
}

bool Link::is_relayed(std::uint32_t slot) const {
    return is_spare(slot) && way_of(slot).relay != Way::kDirect;
}

std::string Link::name_of(std::uint32_t slot) const {
    Way const way = way_of(slot);
    if (way.relay == Way::kDirect) return fmt::format("wire {} (NIC {})", slot, way.nic);
    return fmt::format("wire {} (NIC {}, through {})", slot, way.nic, options_.relays[way.relay]);
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

// The next one of a spare slot that is worth being dialed; 0: none is.
std::uint64_t Link::next_generation(std::uint32_t slot, Time now) const {
    std::uint64_t const last = slots_[slot].generation;
    for (std::uint64_t next = last + 1; next <= last + options_.slots[slot].ways.size(); ++next) {
        Time const since = idle_since(way_of(slot, next));
        if (since != kNever && now >= since + kMissing) return next;
    }
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
