#include <mgi/error.hpp>

namespace mgi {

char const* to_string(ErrorCode code) noexcept {
    switch (code) {
        case ErrorCode::Ok: return "Ok";
        case ErrorCode::InvalidArgument: return "InvalidArgument";
        case ErrorCode::NotFound: return "NotFound";
        case ErrorCode::OutOfMemory: return "OutOfMemory";
        case ErrorCode::Refused: return "Refused";
        case ErrorCode::Closed: return "Closed";
        case ErrorCode::Timeout: return "Timeout";
        case ErrorCode::Stalled: return "Stalled";
        case ErrorCode::GroupFailed: return "GroupFailed";
        case ErrorCode::Deleted: return "Deleted";
        case ErrorCode::Interrupted: return "Interrupted";
        case ErrorCode::Internal: return "Internal";
    }
    return "Unknown";
}

}  // namespace mgi
