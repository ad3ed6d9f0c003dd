// How bytes move: what a mover drives. A transport knows of memory and links, not of channels.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <mgi/error.hpp>

#include "memory/segment_layout.hpp"

namespace mgi::transport {

// A copy of some parts of a segment to the same parts of another.
struct Copy {
    std::uint64_t token = 0;  // of the caller's; comes back when the copy is complete
    char const* from = nullptr;
    char* to = nullptr;
    std::span<memory::Range const> ranges;  // read during `submit` only
    bool straight = false;                  // by no other way, whatever there is
};

// Moves segments between two memories. Used by one thread, its mover's.
class Transport {
public:
    virtual ~Transport() = default;

    // Starts a copy; false when the transport has no room for another one now. Both memories stay
    // untouched by others until the copy is complete.
    virtual bool submit(Copy const& copy) = 0;

    // Appends the tokens of copies that have become complete, in any order. Their bytes are visible
    // to the calling thread. Never blocks. Whether any copy has got on, complete or not.
    virtual bool poll(std::vector<std::uint64_t>& complete) = 0;

    // Whether straight copies from there to there go over links of these two devices alone, so that who has a segment may
    // pass it on while its source serves others.
    [[nodiscard]] virtual bool links([[maybe_unused]] char const* from,
                                     [[maybe_unused]] char const* to) const {
        return false;
    }
};

// A copy that will not be complete, and does not touch memory any more.
struct FailedCopy {
    std::uint64_t token = 0;
    Error error;
};

// What makes single copies, each of which may fail by itself. Used as a transport is.
class Engines {
public:
    virtual ~Engines() = default;

    // As Transport::submit. What fails is said by `poll`.
    virtual bool submit(Copy const& copy) = 0;
    // Appends what is complete as Transport::poll, and what has failed.
    virtual void poll(std::vector<std::uint64_t>& complete, std::vector<FailedCopy>& failed) = 0;
};

}  // namespace mgi::transport
