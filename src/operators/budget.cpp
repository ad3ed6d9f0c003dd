#include "operators/budget.hpp"

#include <mgi/error.hpp>

#include "core/text.hpp"

namespace mgi::operators {

void Budget::refuse(u64 bytes) const {
    throw Error(ErrorCode::OutOfMemory,
                what_ + " need " + bytes_text(bytes) + " (" + std::to_string(bytes) +
                    " bytes) beside the " + bytes_text(used()) + " they have, and may have " +
                    bytes_text(limit_) + " (" + std::to_string(limit_) + " bytes) in all: raise " +
                    option_ + ", or the runtime's memory_limit where that is not given");
}

}  // namespace mgi::operators
