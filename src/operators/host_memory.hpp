// What an operator's rounds may take of the host's memory.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "operators/text.hpp"

namespace mgi::operators {

// Thread-safe.
class HostMemory {
public:
    // `what` names the operator in messages.
    HostMemory(std::string what, u64 limit) : what_(std::move(what)), limit_(limit) {}

    // Counts bytes in. Throws Error(OutOfMemory) when they are too many; then they are not counted.
    void take(u64 bytes);
    // The same until the last copy dies, which must be before this.
    std::shared_ptr<void const> hold(u64 bytes);

private:
    std::string const what_;
    u64 const limit_;
    std::atomic<u64> used_{0};
};

}  // namespace mgi::operators
