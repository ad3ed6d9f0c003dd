#include "operators/columns.hpp"

#include <string>

#include <mgi/error.hpp>

namespace mgi::operators {

void refuse_text(i64 size) {
    throw Error(ErrorCode::InvalidArgument, "a text of " + std::to_string(size) +
                                                " bytes; operators take up to " +
                                                std::to_string(kLongestText) + " bytes a text");
}

}  // namespace mgi::operators
