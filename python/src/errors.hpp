/// \file
/// How a failure of the library's becomes a Python exception.
#pragma once

#include <cstdint>
#include <string>

#include <mgi/error.hpp>

namespace mgi::python {

/// A send that failed after some of the rows were accepted; `rows_accepted` of the exception.
class SendError : public Error {
public:
    SendError(ErrorCode code, std::string const& message, std::int64_t accepted)
        : Error(code, message), rows_accepted(accepted) {}

    std::int64_t rows_accepted;
};

/// As the exception classes name it.
ErrorCode code_named(std::string const& name);

}  // namespace mgi::python
