// What a far route and its link's thread tell each other about the segments of one source for one
// destination.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <memory>

#include <mgi/device/state.hpp>

namespace mgi::mover {

// How far a flow is, read word by word: the numbers need not be of one moment.
struct FarProgress {
    std::uint64_t started = 0;    // segments
    std::uint64_t in_flight = 0;  // of them: that have not arrived
    std::uint64_t kept = 0;       // that have arrived and were not given back
    bool has_credit = false;      // for another one
};

// `allow` and `acknowledge` are for the link's thread, `set_...` for the route's; all may look.
template <class A>
class BasicFarFlow {
public:
    // `credits`: segments of the receive ring; no more may be on their way.
    explicit BasicFarFlow(std::uint32_t credits)
        : window_(credits),
          mask_(std::bit_ceil(credits) - 1),
          arrived_(std::make_unique<Count[]>(mask_ + 1)),
          credits_(credits) {}

    [[nodiscard]] std::uint32_t window() const { return window_; }

    // The destination has free segments for sequences below `sequence`; older news changes nothing.
    // release, with the acquire below: the segment may be one that the route itself writes (placed_route.hpp).
    void allow(std::uint64_t sequence) {
        if (credits_.load(device::relaxed) < sequence) credits_.store(sequence, device::release);
    }
    [[nodiscard]] std::uint64_t allowed() const { return credits_.load(device::acquire); }
    // Segments that consumers have given back, as far as it is known here.
    [[nodiscard]] std::uint64_t freed() const { return allowed() - window_; }

    // The segment has arrived. Sequences by their lowest bits, as tokens have them.
    // release: the link is done with the source's memory, which is about to be written again.
    void acknowledge(std::uint64_t sequence) {
        arrived_[sequence & mask_].store(sequence + 1, device::release);
    }
    // Of a sequence that is on its way. Its place is no other's: no more than a window is.
    [[nodiscard]] bool is_acknowledged(std::uint64_t sequence) const {
        return arrived_[sequence & mask_].load(device::acquire) == sequence + 1;
    }

    // How many were started and have not arrived, which was started last, and that the end was said.
    void set_in_flight(std::uint64_t count) { in_flight_.store(count, device::relaxed); }
    void set_sent(std::uint64_t sequence) { sent_.store(sequence, device::relaxed); }
    // relaxed: what follows the end goes through the same carrier, behind it.
    void set_ended() { ended_.store(true, device::relaxed); }
    [[nodiscard]] bool ended() const { return ended_.load(device::relaxed); }
    [[nodiscard]] FarProgress progress() const {
        FarProgress progress;
        progress.in_flight = in_flight_.load(device::relaxed);
        progress.started = sent_.load(device::relaxed);
        std::uint64_t const gone = progress.in_flight + freed();
        progress.kept = progress.started - std::min(progress.started, gone);
        progress.has_credit = progress.started < allowed();
        return progress;
    }

private:
    using Count = typename A::template System<std::uint64_t>;

    std::uint32_t const window_;
    std::uint32_t const mask_;
    std::unique_ptr<Count[]> const arrived_;  // by place in the window: a sequence that has, plus 1
    Count credits_;
    Count sent_{0};
    Count in_flight_{0};
    typename A::template System<bool> ended_{false};
};

// The flow of production code.
using FarFlow = BasicFarFlow<device::LibcuAtomics>;

}  // namespace mgi::mover
