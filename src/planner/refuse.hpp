/// \file
/// How the planner refuses what it cannot plan with.
#pragma once

#include <string>

#include <mgi/error.hpp>

namespace mgi::planner {

[[noreturn]] inline void refuse(std::string const& text) {
    throw Error(ErrorCode::InvalidArgument, text);
}

}  // namespace mgi::planner
