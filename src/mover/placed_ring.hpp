// A receive ring in memory of another process that this one can write.
#pragma once

#include <cstdint>

#include <mgi/device/assert.hpp>

namespace mgi::mover {

// Where the segments of one source for one destination go. `set` once, by the thread that makes the channel, before
// any group can send on it. A mover looks only for a segment that was published, which it has acquired, and which comes
// behind `set`.
class PlacedRing {
public:
    // `first`: the ring's first segment; the others lie behind it, `stride` bytes apart.
    void set(char* first, std::uint64_t stride) {
        first_ = first;
        stride_ = stride;
    }
    [[nodiscard]] bool is_set() const { return first_ != nullptr; }
    // Of place `index` in the ring, once it is set.
    [[nodiscard]] char* segment(std::uint64_t index) const {
        MGI_ASSERT(first_ != nullptr, index, stride_);
        return first_ + index * stride_;
    }

private:
    char* first_ = nullptr;
    std::uint64_t stride_ = 0;
};

}  // namespace mgi::mover
