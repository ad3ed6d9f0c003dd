// mgi-control: `mgi controller`, `mgi agent` and `mgi status` run it.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "control/cli/commands.hpp"
#include "control/cli/options.hpp"

namespace {

constexpr int kFailed = 1;
constexpr int kWrongCall = 2;

int run(int count, char** arguments) {
    CLI::App app("MGI's control plane", "mgi");
    app.require_subcommand(1);
    app.get_formatter()->column_width(34);
    app.set_version_flag("--version", std::string("mgi ") + MGI_VERSION);
    app.failure_message([](CLI::App const* called, CLI::Error const& error) {
        CLI::App const* command = called;
        std::string name = "mgi";
        for (CLI::App const* chosen : called->get_subcommands()) command = chosen;
        if (command != called) name += " " + command->get_name();
        return fmt::format("{}: {}\n({} --help says more)\n", name, error.what(), name);
    });
    std::vector<std::pair<CLI::App*, mgi::control::Run>> commands;
    auto const add = [&](char const* name, char const* about, auto add_options) {
        CLI::App* const command = app.add_subcommand(name, about);
        commands.emplace_back(command, add_options(*command));
    };
    add("controller", "knows every server's graph and plans channels",
        mgi::control::add_controller);
    add("agent", "speaks for this server and its applications", mgi::control::add_agent);
    add("status", "shows servers, channels and failures", mgi::control::add_status);
    try {
        app.parse(count, arguments);
    } catch (CLI::ParseError const& error) {
        return app.exit(error) == 0 ? 0 : kWrongCall;
    }
    for (auto const& [command, start] : commands) {
        if (!command->parsed()) continue;
        try {
            return start();
        } catch (std::exception const& error) {
            std::fputs(fmt::format("mgi {}: {}\n", command->get_name(), error.what()).c_str(),
                       stderr);
            return kFailed;
        }
    }
    return kWrongCall;
}

}  // namespace

int main(int count, char** arguments) {
    try {
        return run(count, arguments);
    } catch (std::exception const& error) {
        std::fputs(fmt::format("mgi: {}\n", error.what()).c_str(), stderr);
        return kFailed;
    }
}
