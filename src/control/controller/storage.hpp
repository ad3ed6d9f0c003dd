/// \file
/// What survives the controller: its epoch, and which ids are used up (docs/control.md).
#pragma once

#include <cstdint>

#include "control/state/ids.hpp"

namespace mgi::control {

/// Used by one thread at a time. Calls may block on a disk or the network.
class Storage {
public:
    virtual ~Storage() = default;
    /// Of this life of the controller: higher than any before. Fixed for the object's life.
    [[nodiscard]] virtual std::uint64_t epoch() const = 0;
    /// The next `count` ids of a kind: nobody gets them again, even if the controller dies right after.
    /// Throws Error: Refused where this controller may not reserve (another one leads, or the storage
    /// cannot be written; the text says what to do); OutOfMemory when 32 bits are used up.
    virtual IdBlock reserve(IdKind kind, std::uint32_t count) = 0;
};

}  // namespace mgi::control
