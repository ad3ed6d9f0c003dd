#include "mover/intake.hpp"

#include <mgi/error.hpp>

namespace mgi::mover {

void refuse(link::Key const& key, std::string const& what) {
    throw Error(ErrorCode::Internal, "the other end broke the protocol: segment " +
                                         std::to_string(key.sequence) + " of source number " +
                                         std::to_string(key.source) + " for destination number " +
                                         std::to_string(key.destination) + " " + what);
}

}  // namespace mgi::mover
