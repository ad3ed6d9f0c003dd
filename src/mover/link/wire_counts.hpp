// What has gone over the wires of a link, for who looks on.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include <mgi/device/assert.hpp>

namespace mgi::mover::link {

// A number that one thread counts and any reads.
class Count {
public:
    // relaxed: it stands for itself. One writer, so that no read-modify-write is needed.
    void add(std::uint64_t more) { store(value() + more); }
    void take(std::uint64_t less) {
        std::uint64_t const before = value();
        MGI_ASSERT(before >= less, before, less);
        store(before - less);
    }
    void clear() { store(0); }
    void set(std::uint64_t value) { store(value); }
    [[nodiscard]] std::uint64_t value() const { return value_.load(std::memory_order_relaxed); }

private:
    void store(std::uint64_t value) { value_.store(value, std::memory_order_relaxed); }
    std::atomic<std::uint64_t> value_{0};
};

// Of all wires that a slot has had.
struct WireCounts {
    Count segments;   // that have arrived, as far as that is known here
    Count bytes;      // of these segments
    Count in_flight;  // segments given to the wire that is there now, and not known to have arrived
    Count resends;    // segments that were lost with a wire and begun again, on whichever one
    Count way;        // of a spare slot: by which the latest one went
    Count open;       // 1: there is one now
};

// By slot.
struct LinkCounts : std::vector<WireCounts> {
    using std::vector<WireCounts>::vector;
    Count wires;  // that there are now
    Count over;   // 1: there will be no more
};

}  // namespace mgi::mover::link
