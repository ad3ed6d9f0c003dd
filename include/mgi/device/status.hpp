/// \file
/// What device calls return, and the error codes that host and device share.
#pragma once

#include <mgi/device/config.hpp>

namespace mgi {

/// Why a call failed. Stable values: they cross the language border.
enum class ErrorCode : std::uint32_t {
    Ok = 0,
    InvalidArgument = 1,  ///< the caller's arguments name something that is absent or contradictory
    NotFound = 2,         ///< an endpoint, channel or device that does not exist (any more)
    OutOfMemory = 3,      ///< a memory limit would be passed, or the machine has no more
    Refused = 4,          ///< a row or a call that this channel can never take
    Closed = 5,           ///< a call after flush, or by a group that its source does not count
    Timeout = 6,          ///< the caller's own time limit passed
    Stalled = 7,          ///< no row moved and what was awaited is gone, or the stall limit passed
    GroupFailed = 8,      ///< a user's kernel threw, or ended without flushing
    Deleted = 9,          ///< the channel or endpoint was deleted while in use
    Interrupted = 10,     ///< the user asked to stop (Ctrl-C)
    Internal = 11,        ///< a defect of MGI; please report it
};

namespace device {

/// How a device call ended.
enum class Status : std::uint8_t {
    Ok,       ///< done, or rows were taken
    Pending,  ///< nothing to do or no room now; call again
    End,      ///< recv only: no row will come any more
    Error,    ///< see the result's code; after a channel's failure every call returns this
};

/// Result of a send: a prefix of the offered rows was accepted.
struct SendResult {
    std::uint64_t rows = 0;
    Status status = Status::Ok;
    ErrorCode code = ErrorCode::Ok;
};

/// Result of the other calls: how it ended, which it stands for where that is all one asks, and with
/// Error why: the channel's failure, or what is wrong with this call of a channel that goes on.
struct CallResult {
    Status status = Status::Ok;
    ErrorCode code = ErrorCode::Ok;

    MGI_HD operator Status() const { return status; }
    [[nodiscard]] MGI_HD static CallResult error(ErrorCode why) { return {Status::Error, why}; }
};

}  // namespace device
}  // namespace mgi
