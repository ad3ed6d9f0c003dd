// The place of a codec on a path: between a segment as it lies in memory and its bytes on a wire.
#pragma once

#include <sys/uio.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace mgi::mover::link {

// Makes segments smaller for wires on which that takes less time than sending them as they are. Both
// ends of a link know it by the same number. Called by the threads that drive links, and one codec may
// be several links': thread-safe. `encode` may throw std::bad_alloc, `decode` may not throw.
class Codec {
public:
    Codec() = default;
    Codec(Codec const&) = delete;
    Codec& operator=(Codec const&) = delete;
    virtual ~Codec() = default;

    // Appends a segment's bytes to `encoded`, in fewer than `most` bytes; false where that cannot be,
    // and it goes as it is. What is appended then does not matter.
    virtual bool encode(std::span<iovec const> segment, std::size_t most,
                        std::vector<char>& encoded) const = 0;
    // Writes what was encoded where the segment belongs. False where it says anything but as many bytes
    // as these pieces take; nothing is written beyond them.
    virtual bool decode(std::span<char const> encoded, std::span<iovec const> segment) const = 0;
};

// What an end of a link can decode: codec n is the one at n - 1. Number 0 is a segment as it lies.
using Codecs = std::vector<std::shared_ptr<Codec const>>;

// The codec of a number that came over a wire, or null.
inline Codec const* codec_of(Codecs const& codecs, std::uint16_t number) {
    return number == 0 || number > codecs.size() ? nullptr : codecs[number - 1].get();
}

}  // namespace mgi::mover::link
