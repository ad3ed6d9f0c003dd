/// \file
/// The exchange operator as a process of an exchange over processes: a call of `mgi::exchange` for each
/// run, with all that belongs to it. Variants "one" and "two" are its levels; columns only.
#pragma once

#include "peers/member.hpp"

namespace mgi::peers {

std::unique_ptr<Member> make_operator(Options const& options, OwnRows const& rows, Driver& driver);

}  // namespace mgi::peers
