#include "mover/link/choice.hpp"

namespace mgi::mover::link {
namespace {

constexpr double kClearlyBetter = 0.9;  // of the time that the present wire would take
constexpr double kBorrowed = 1.1;       // times the time, for a NIC that is another device's
constexpr double kRelay = 0.25;         // as much more, for each process that a wire goes through

bool has_room(Candidate const& wire, std::uint64_t bytes) {
    // A wire that carries nothing takes any segment, however large.
    return wire.in_flight == 0 || wire.in_flight + bytes <= wire.window;
}

double time_on(Candidate const& wire, std::uint64_t bytes, std::uint32_t last) {
    double const time =
        double(wire.in_flight + bytes) / wire.rate * (1.0 + kRelay * double(wire.relays));
    if (!wire.own) return time * kBorrowed;
    return wire.slot == last ? time * kClearlyBetter : time;
}

}  // namespace

std::optional<Choice> choose(std::span<Candidate const> candidates, std::uint64_t bytes,
                             std::uint32_t last, Time now) {
    Candidate const* best = nullptr;
    Candidate const* rusty = nullptr;
    double least = 0;
    for (Candidate const& wire : candidates) {
        if (!wire.own && !wire.lent) continue;
        if (wire.in_flight == 0 && now >= wire.last_used + kProbeAfter) rusty = &wire;
        double const time = time_on(wire, bytes, last);
        if (best == nullptr || time < least || (time == least && wire.own && !best->own)) {
            best = &wire;
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

}  // namespace mgi::mover::link
