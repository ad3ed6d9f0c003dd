#include "mover/link/nic_shares.hpp"

#include <algorithm>

#include <mgi/device/assert.hpp>

namespace mgi::mover::link {

namespace {

// A wish holds for so long: who has it looks again before.
constexpr Time kWishHolds = 5 * NicShares::kLookAgain;
// Who was not seen for so long was idle, and has saved nothing.
constexpr Time kIdle = 20 * kMillisecond;
constexpr Time kForgotten = kSecond;
constexpr std::uint64_t kEach = 256;  // what a transfer costs beside its bytes
// What is on its way by a NIC that is shared by weight: so much of its time, and at least so many transfers.
constexpr Time kAtOnce = 5 * kMillisecond / 2;
constexpr std::uint64_t kLeastOfAll = 8;
constexpr std::uint64_t kLeastOfOne = 2;
// Who is waited for has so much more time than the NIC needs, and this beside it; then so long nobody waits.
constexpr double kPatience = 3;
constexpr Time kAnyway = 5 * kMillisecond;
constexpr Time kLongest = kSecond;
constexpr Time kExcused = 3 * kSecond;

std::uint64_t most_of_all(double rate, std::uint64_t bytes) {
    return std::max(std::uint64_t(rate * double(kAtOnce)), kLeastOfAll * bytes);
}

}  // namespace

void NicShares::change(std::uint32_t nic, Load before, Load after) {
    std::lock_guard const lock(mutex_);
    Nic& it = nics_[nic];
    MGI_ASSERT(it.bytes >= before.bytes, nic, it.bytes, before.bytes, after.bytes);
    it.bytes += after.bytes - before.bytes;
    it.rate += (after.bytes != 0 ? after.rate : 0) - (before.bytes != 0 ? before.rate : 0);
}

// By its weight, or by its rate where that is more.
std::uint64_t NicShares::most_of_one(Nic const& nic, Wish const& wish, double rate, Time now) {
    double weights = wish.weight;
    for (auto const& [id, flow] : nic.flows) {
        if (id != wish.channel && flow.seen + kIdle > now) weights += flow.weight;
    }
    double const by_rate = nic.rate > rate ? 2 * rate / nic.rate : 2;
    double const share = std::max(wish.weight / weights, rate == 0 ? 2 : by_rate);
    return std::max(kLeastOfOne * wish.bytes,
                    std::uint64_t(share * double(most_of_all(nic.rate, wish.bytes))));
}

// How far clocks may be apart: for the heaviest channel a part of what may be on its way. With turns of
// less the NIC would be idle between them.
double NicShares::slack(Nic const& nic, std::uint64_t bytes, Time now) {
    double heaviest = 0;
    for (auto const& [id, flow] : nic.flows) {
        if (flow.seen + kIdle > now) heaviest = std::max(heaviest, flow.weight);
    }
    return heaviest == 0 ? 0 : double(most_of_all(nic.rate, bytes)) / 4 / heaviest;
}

// The channel's. One that is new, or was idle, starts where the others are; one that wants less than its
// share saves little of it.
NicShares::Flow& NicShares::flow_of(Nic& nic, Wish const& wish, Time now) {
    auto const [at, is_new] = nic.flows.try_emplace(wish.channel);
    Flow& flow = at->second;
    if (is_new) {
        std::erase_if(nic.flows, [&](auto const& entry) {
            return entry.first != wish.channel && entry.second.seen + kForgotten <= now;
        });
    }
    bool const was_idle = is_new || flow.seen + kIdle <= now;
    flow.weight = wish.weight;
    flow.seen = now;
    double const saved = was_idle ? 0 : 4 * slack(nic, wish.bytes, now);
    flow.clock = std::max(flow.clock, nic.clock - saved);
    return flow;
}

// Of those that `flow` is to wait for; null: none.
NicShares::Flow* NicShares::furthest_behind(Nic& nic, Flow const& flow, double slack, Time now) {
    Flow* last = nullptr;
    for (auto& [id, other] : nic.flows) {
        bool const wants = other.wants != 0 && other.wants + kWishHolds > now;
        if (&other == &flow || !wants || other.excused_until > now) continue;
        if (other.clock + slack >= flow.clock) continue;
        if (last == nullptr || other.clock < last->clock) last = &other;
    }
    return last;
}

NicShares::Turn NicShares::turn(Wish const& wish, Load own, Time now) {
    std::lock_guard const lock(mutex_);
    Nic& nic = nics_[wish.nic];
    bool const alike = std::none_of(nic.flows.begin(), nic.flows.end(), [&](auto const& entry) {
        Flow const& other = entry.second;
        return entry.first != wish.channel && other.weight != wish.weight &&
               other.seen + kIdle > now;
    });
    if (alike) return Turn::Free;
    Flow& flow = flow_of(nic, wish, now);
    if (own.bytes != 0 && own.bytes + wish.bytes > most_of_one(nic, wish, own.rate, now)) {
        flow.wants = now;
        return Turn::Full;
    }
    double const apart = slack(nic, wish.bytes, now);
    while (Flow* const other = furthest_behind(nic, flow, apart, now)) {
        flow.wants = now;
        if (flow.waits_until == kNever) {
            // What is on its way already goes first.
            double const lacks =
                (flow.clock - apart - other->clock) * other->weight + double(nic.bytes);
            double const time = nic.rate > 0 ? kPatience * lacks / nic.rate : double(kLongest);
            flow.waits_until = now + kAnyway + Time(std::min(time, double(kLongest)));
        }
        if (now < flow.waits_until) return Turn::Others;
        other->excused_until = now + kExcused;
        flow.waits_until = kNever;
    }
    return Turn::Own;
}

void NicShares::started(Wish const& wish, Time now) {
    std::lock_guard const lock(mutex_);
    Nic& nic = nics_[wish.nic];
    MGI_ASSERT(wish.weight > 0, wish.weight, wish.channel, wish.nic);
    Flow& flow = flow_of(nic, wish, now);
    flow.wants = 0;
    flow.waits_until = kNever;
    nic.clock = std::max(nic.clock, flow.clock);
    flow.clock += double(wish.bytes + kEach) / wish.weight;
}

}  // namespace mgi::mover::link
