#include "operators/host_memory.hpp"

#include <mgi/error.hpp>

#include "core/text.hpp"

namespace mgi::operators {

void HostMemory::take(u64 bytes) {
    if (used_.fetch_add(bytes, std::memory_order_relaxed) + bytes <= limit_) return;
    used_.fetch_sub(bytes, std::memory_order_relaxed);
    throw Error(ErrorCode::OutOfMemory,
                what_ + "'s results and parts take more than the " + bytes_text(limit_) +
                    " of the host's memory that they may have: raise OperatorOptions::spill_limit "
                    "(spill_limit in Python), or where that is 0 the runtime's memory_limit");
}

std::shared_ptr<void const> HostMemory::hold(u64 bytes) {
    take(bytes);
    return {this,
            [this, bytes](void const*) { used_.fetch_sub(bytes, std::memory_order_relaxed); }};
}

}  // namespace mgi::operators
