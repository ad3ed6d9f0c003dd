/// \file
/// MGI's own process of an exchange over processes. One process alone has all endpoints.
#pragma once

#include "peers/member.hpp"

namespace mgi::peers {

/// Runs a process of MGI's exchange, of the limit's or of the operator's (`kind` is "mgi", "limit" or
/// "operator"), by words as `read_options` takes them. Returns its exit status.
int run_own_member(std::string const& kind, std::vector<std::string> const& words);

}  // namespace mgi::peers
