// Reads a process' place in its job from variables, wherever these come from.
#pragma once

#include <functional>

#include <mgi/job.hpp>

namespace mgi {

// The value of a variable, or null.
using Variables = std::function<char const*(char const* name)>;

// Job::from_environment for any set of variables; `host` is the server's name if none says it.
Job read_job(Variables const& variables, std::string const& host);

}  // namespace mgi
