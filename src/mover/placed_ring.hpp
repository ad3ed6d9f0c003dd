// A receive ring in memory of another process that this one can write.
#pragma once

#include <atomic>
#include <cstdint>

#include <mgi/device/assert.hpp>

namespace mgi::mover {

// Where the segments of one source for one destination go. `set` once, by who makes the channel.
class PlacedRing {
public:
    // `first`: the ring's first segment; the others lie behind it, `stride` bytes apart.
    void set(char* first, std::uint64_t stride) {
        stride_ = stride;
        first_.store(first, std::memory_order_release);
    }
    [[nodiscard]] bool is_set() const { return first_.load(std::memory_order_relaxed) != nullptr; }
    // Of place `index` in the ring, once it is set.
    [[nodiscard]] char* segment(std::uint64_t index) const {
        char* const first = first_.load(std::memory_order_acquire);
        MGI_ASSERT(first != nullptr, index, stride_);
        return first + index * stride_;
    }

private:
    std::atomic<char*> first_{nullptr};
    std::uint64_t stride_ = 0;
};

}  // namespace mgi::mover
