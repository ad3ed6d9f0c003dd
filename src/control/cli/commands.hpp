/// \file
/// The commands of mgi-control. Each adds itself to the command line; what was chosen then runs.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

namespace mgi::control {

/// What a command does once the command line is read; the program's exit status.
using Run = std::function<int()>;

Run add_controller(CLI::App& app);
Run add_agent(CLI::App& app);
Run add_status(CLI::App& app);

}  // namespace mgi::control
