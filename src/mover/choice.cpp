#include "mover/choice.hpp"

#include <mgi/device/assert.hpp>

namespace mgi::mover {
namespace {

constexpr double kClearlyBetter = 0.9;  // of the time that the present way would take
constexpr double kBorrowed = 1.1;       // times the time, for a NIC that is another device's
constexpr double kRelay = 0.25;         // as much more, for each relay that a way leads through

bool has_room(Candidate const& way, std::uint64_t bytes) {
    // A way that carries nothing takes any segment, however large.
    return !way.full && (way.in_flight == 0 || way.in_flight + bytes <= way.window);
}

double time_on(Candidate const& way, std::uint64_t bytes, std::uint32_t last) {
    double const time =
        double(way.in_flight + bytes) / way.rate * (1.0 + kRelay * double(way.relays));
    if (!way.own) return time * kBorrowed;
    return way.slot == last ? time * kClearlyBetter : time;
}

}  // namespace

std::optional<Choice> choose(std::span<Candidate const> candidates, std::uint64_t bytes,
                             std::uint32_t last, std::uint64_t now) {
    Candidate const* best = nullptr;
    Candidate const* rusty = nullptr;
    double least = 0;
    for (Candidate const& way : candidates) {
        if (!way.own && !way.lent) continue;
        MGI_ASSERT(way.rate > 0, way.rate, way.slot);
        if (way.in_flight == 0 && !way.full && now >= way.last_used + kProbeAfter) rusty = &way;
        double const time = time_on(way, bytes, last);
        if (best == nullptr || time < least || (time == least && way.own && !best->own)) {
            best = &way;
            least = time;
        }
    }
    if (best == nullptr) return std::nullopt;
    if (rusty != nullptr && best->last_used != 0 && now < best->last_used + kProbeAfter) {
        return Choice{rusty->slot, rusty->own};
    }
    if (!has_room(*best, bytes)) return std::nullopt;
    return Choice{best->slot, best->own};
}

}  // namespace mgi::mover
