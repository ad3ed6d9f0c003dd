/// \file
/// Options that several commands have, and what daemons share.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>

#include "control/rpc/security.hpp"

namespace mgi::control {

inline constexpr char const* kDefaultController = "127.0.0.1:7070";

// What the help calls an option's value.
inline constexpr char const* kAddress = "HOST:PORT";
inline constexpr char const* kAddresses = "HOST:PORT,...";
inline constexpr char const* kFile = "FILE";
inline constexpr char const* kName = "NAME";

/// --ca, --cert, --key, --token-file, --tls-name.
void add_security(CLI::App& command, SecurityOptions& options);

/// --log-level and --config.
void add_daemon(CLI::App& command, std::string& log_level);
/// Before anything is logged: the level. MGI_LOG wins.
void start_log(std::string const& level);

/// Refuses what is no "host:port".
void check_address(std::string const& option, std::string const& address);

/// Blocks SIGINT and SIGTERM in this thread and those it starts; made before them.
class StopSignals {
public:
    StopSignals();
    /// Waits for one of them.
    void wait() const;
    /// Ends the wait, from any thread.
    void raise() const;
};

}  // namespace mgi::control
