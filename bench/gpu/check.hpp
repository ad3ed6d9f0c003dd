/// \file
/// CUDA errors as exceptions that say what failed and where.
#pragma once

#include <cuda_runtime.h>

#include <source_location>
#include <stdexcept>
#include <string>

namespace mgi::bench {

/// What failed, where, and CUDA's word for it.
class Failure : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

[[noreturn]] inline void fail(std::string const& what, std::source_location const at) {
    std::string file = at.file_name();
    file = file.substr(file.find_last_of('/') + 1);
    throw Failure(what + " (" + file + ":" + std::to_string(at.line()) + ")");
}

inline void check(cudaError_t const error, char const* what,
                  std::source_location const at = std::source_location::current()) {
    if (error == cudaSuccess) return;
    cudaGetLastError();  // else a later launch would report it again
    fail(std::string(what) + ": " + cudaGetErrorName(error) + ", " + cudaGetErrorString(error), at);
}

/// After a kernel launch.
inline void check_launch(char const* what,
                         std::source_location const at = std::source_location::current()) {
    check(cudaGetLastError(), what, at);
}

inline void require(bool const holds, char const* what,
                    std::source_location const at = std::source_location::current()) {
    if (!holds) fail(what, at);
}
inline void require(bool const holds, std::string const& what,
                    std::source_location const at = std::source_location::current()) {
    if (!holds) fail(what, at);
}

}  // namespace mgi::bench
