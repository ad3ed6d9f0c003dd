// `mgi status`: what the controller says of its cluster, as tables or JSON.
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include <mgi/error.hpp>

#include "control/cli/commands.hpp"
#include "control/cli/options.hpp"
#include "control/cli/status_text.hpp"
#include "control/rpc/client_side.hpp"
#include "control/state/settings.hpp"

namespace mgi::control {

namespace {

using Json = nlohmann::json;

constexpr std::size_t kShown = 40;

struct StatusOptions {
    std::vector<std::string> controllers{kDefaultController};
    SecurityOptions security;
    bool json = false;
    bool all = false;
    double watch_s = 0;
};

Json ask(std::string const& address, std::shared_ptr<Security const> const& security) {
    CallRequest request;
    request.mutable_status()->set_protocol(kProtocol);
    auto const [how, answer] = call_once(address, security, request);
    if (how.code() != Outcome::OK) throw Error(ErrorCode::Refused, how.text());
    try {
        return Json::parse(answer.status().json());
    } catch (Json::exception const& error) {
        throw Error(ErrorCode::Internal,
                    fmt::format("controller {}: its status is no JSON: {}", address, error.what()));
    }
}

/// Of the controllers, the one that leads; else one that stands by, else what the last one failed of.
Json ask_any(StatusOptions const& options, std::shared_ptr<Security const> const& security) {
    Json standby;
    std::string trouble;
    for (std::string const& address : options.controllers) {
        try {
            Json answer = ask(address, security);
            if (answer.at("leader").get<bool>()) return answer;
            standby = std::move(answer);
        } catch (Error const& error) {
            trouble += (trouble.empty() ? "" : "\n") + std::string(error.what());
        }
    }
    if (!standby.is_null()) return standby;
    throw Error(ErrorCode::Refused, trouble);
}

void show(StatusOptions const& options, std::shared_ptr<Security const> const& security) {
    Json const status = ask_any(options, security);
    std::string text;
    try {
        text = options.json
                   ? status.dump(2) + "\n"
                   : status_text(status,
                                 options.all ? std::numeric_limits<std::size_t>::max() : kShown);
    } catch (Json::exception const& error) {
        throw Error(ErrorCode::Refused,
                    fmt::format("the controller's status lacks something; is it of another "
                                "version? {}",
                                error.what()));
    }
    bool const clear = options.watch_s > 0 && !options.json && isatty(STDOUT_FILENO) == 1;
    fmt::print("{}{}", clear ? "\x1b[H\x1b[2J" : "", text);
    std::fflush(stdout);
}

int run_status(StatusOptions const& options) {
    start_log("warn");
    auto const security = std::make_shared<Security const>(options.security);
    for (std::string const& address : options.controllers) {
        check_address("--controller", address);
        check_connect_address("--controller", address, *security);
    }
    if (options.watch_s <= 0) {
        show(options, security);
        return 0;
    }
    // Until Ctrl-C; a controller that is away may come back.
    while (std::ferror(stdout) == 0) {
        try {
            show(options, security);
        } catch (Error const& error) {
            fmt::print(stderr, "mgi status: {}\n", error.what());
        }
        std::this_thread::sleep_for(std::chrono::duration<double>(options.watch_s));
    }
    return 1;
}

}  // namespace

Run add_status(CLI::App& command) {
    auto const options = std::make_shared<StatusOptions>();
    command.add_option("--controller", options->controllers, "of each controller")
        ->type_name(kAddresses)
        ->delimiter(',')
        ->allow_extra_args(false)
        ->envname("MGI_CONTROLLER")
        ->capture_default_str();
    command
        .add_flag("--insecure", options->security.insecure,
                  "ask controllers on other machines without certificates or token")
        ->envname("MGI_INSECURE");
    command.add_flag("--json", options->json, "the whole status as JSON (docs/control.md)");
    command.add_flag("--all", options->all, "every server, channel and failure");
    command.add_option("--watch", options->watch_s, "again every so often (1), until Ctrl-C")
        ->type_name("SECONDS")
        ->expected(0, 1)
        ->default_str("1")
        ->check(CLI::Range(0.1, 3600.0));
    add_security(command, options->security);
    return [options] { return run_status(*options); };
}

}  // namespace mgi::control
