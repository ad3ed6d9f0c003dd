/// \file
/// What every failing host call throws: a code to branch on, and a text that says what failed,
/// where, and what to do (DESIGN section 4, promise 6).
#pragma once

#include <stdexcept>
#include <string>

#include <mgi/device/status.hpp>

namespace mgi {

/// The name of a code, for logs and messages ("InvalidArgument").
char const* to_string(ErrorCode code) noexcept;

/// Thrown by every host call that fails. Never thrown by device calls, which return a status.
class Error : public std::runtime_error {
public:
    Error(ErrorCode code, std::string const& message) : std::runtime_error(message), code_(code) {}
    [[nodiscard]] ErrorCode code() const noexcept { return code_; }

private:
    ErrorCode code_;
};

}  // namespace mgi
