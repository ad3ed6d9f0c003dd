#include "control/cli/options.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <csignal>
#include <cstdlib>

#include <mgi/error.hpp>
#include <mgi/runtime.hpp>

namespace mgi::control {

namespace {

constexpr std::array<int, 2> kSignals{SIGINT, SIGTERM};

sigset_t stop_signals() {
    sigset_t signals;
    sigemptyset(&signals);
    for (int const signal : kSignals) sigaddset(&signals, signal);
    return signals;
}

}  // namespace

void add_security(CLI::App& command, SecurityOptions& options) {
    char const* const group = "Security (the same for controller, agents and mgi status)";
    auto const add = [&](char const* name, std::string& value, char const* about) {
        return command.add_option(name, value, about)->group(group)->type_name(kFile);
    };
    add("--ca", options.ca, "PEM: who signs the others' certificates")->envname("MGI_CA");
    add("--cert", options.certificate, "PEM: our certificate, with its chain")->envname("MGI_CERT");
    add("--key", options.key, "PEM: its private key")->envname("MGI_KEY");
    add("--token-file", options.token_file, "its first line is the token")
        ->envname("MGI_TOKEN_FILE");
    add("--tls-name", options.tls_name, "in the controller's certificate, if not its address")
        ->type_name(kName);
}

void add_daemon(CLI::App& command, std::string& log_level) {
    command.add_option("--log-level", log_level, "trace, debug, info, warn or error")
        ->type_name("LEVEL")
        ->capture_default_str();
    command.set_config("--config", "", "options, a line each: lease-ms=1200")->type_name(kFile);
}

void start_log(std::string const& level) {
    // NOLINTNEXTLINE(concurrency-mt-unsafe): before there is another thread
    if (std::getenv("MGI_LOG") == nullptr) set_log_level(level);
}

void check_address(std::string const& option, std::string const& address) {
    std::size_t const colon = address.rfind(':');
    int port = 0;
    char const* const end = address.data() + address.size();
    bool good = colon != std::string::npos && colon > 0;
    if (good) {
        auto const [rest, problem] = std::from_chars(address.data() + colon + 1, end, port);
        good = problem == std::errc() && rest == end && port > 0 && port < 65'536;
    }
    if (!good) {
        throw Error(ErrorCode::InvalidArgument,
                    fmt::format("{} {}: not host:port with a port from 1 to 65535", option,
                                address.empty() ? "(empty)" : address));
    }
}

StopSignals::StopSignals() {
    sigset_t const signals = stop_signals();
    pthread_sigmask(SIG_BLOCK, &signals, nullptr);
    // A reader that went away is an error of that write, not of this program.
    (void)std::signal(SIGPIPE, SIG_IGN);
}

void StopSignals::wait() const {
    sigset_t const signals = stop_signals();
    int which = 0;
    sigwait(&signals, &which);
}

void StopSignals::raise() const {
    kill(getpid(), SIGTERM);
}

}  // namespace mgi::control
