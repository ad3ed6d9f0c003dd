#include "operators/budget.hpp"

#include <mgi/error.hpp>

#include "core/text.hpp"

namespace mgi::operators {

void Budget::refuse() const {
    throw Error(ErrorCode::OutOfMemory, what_ + " take more than the " + bytes_text(limit_) +
                                            " they may have: raise OperatorOptions::" + option_ +
                                            ", or the runtime's memory_limit where that is 0");
}

}  // namespace mgi::operators
