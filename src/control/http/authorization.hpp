/// \file
/// The token in a request's field `Authorization`.
#pragma once

#include <string>
#include <string_view>

namespace mgi::control {

/// What "Bearer TOKEN" says, or the password of "Basic base64(user:password)"; empty where it is neither.
std::string token_in(std::string_view authorization);

}  // namespace mgi::control
