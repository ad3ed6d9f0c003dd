// `mgi agent`: the options, this server's graph, and the agent's process.
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <mgi/error.hpp>

#include "control/agent/agent.hpp"
#include "control/cli/commands.hpp"
#include "control/cli/options.hpp"
#include "control/http/metric_text.hpp"
#include "control/http/server.hpp"
#include "control/net/files.hpp"
#include "core/log.hpp"
#include "topology/machine/local_nics.hpp"
#include "topology/machine/machine.hpp"
#include "topology/presets.hpp"
#include "topology/readers/corrections.hpp"
#include "topology/readers/read.hpp"

namespace mgi::control {

namespace {

struct AgentCommand {
    AgentOptions agent;
    std::string preset;
    std::string topology;
    std::string corrections;
    HttpOptions http;
    std::string log_level = "info";
};

std::string agent_metrics(std::string const& status) {
    nlohmann::json const json = nlohmann::json::parse(status);
    auto const number = [&](char const* name) { return json.at(name).get<double>(); };
    MetricText text;
    text.gauge("mgi_agent_registered", "1 while a controller has this agent registered",
               json.at("reached").get<bool>() ? 1 : 0);
    text.gauge("mgi_agent_epoch", "Epoch of the controller that it registered with",
               number("epoch"));
    text.counter("mgi_agent_sessions_total", "Sessions begun with controllers", number("sessions"));
    text.gauge("mgi_agent_applications", "Applications on this server",
               double(json.at("applications").size()));
    text.gauge("mgi_agent_endpoints", "Their endpoints", number("endpoints"));
    text.gauge("mgi_agent_channels", "Channels that run on this server", number("channels"));
    text.gauge("mgi_agent_requests", "Applications' requests that wait for an answer",
               number("requests"));
    return text.text();
}

/// This server's graph, wherever it comes from, as the file of corrections wants it; and its NICs that
/// are here.
void find_graph(AgentCommand& options) {
    topology::Corrections corrections;
    if (!options.corrections.empty()) {
        corrections = topology::read_corrections(topology::Source::of_file(options.corrections));
    }
    topology::Infrastructure found =
        !options.preset.empty() ? topology::preset_server(options.preset)
        : !options.topology.empty()
            ? topology::read_topology_file(options.topology, corrections.facts).infrastructure
            : topology::discover_machine(topology::MachineSources::of_this_machine(),
                                         corrections.facts);
    if (!options.corrections.empty()) found = topology::correct(found, corrections);
    for (std::string const& warning : found.warnings) log::warn("topology: {}", warning);
    bool const discovered = options.preset.empty() && options.topology.empty();
    options.agent.nics = topology::local_nics(found, corrections, discovered);
    options.agent.graph = std::move(found);
}

int run_agent_command(AgentCommand& options) {
    start_log(options.log_level);
    net::allow_many_files();
    StopSignals const signals;
    Security const security(options.agent.security);
    for (std::string const& address : options.agent.controllers) {
        check_address("--controller", address);
        check_connect_address("--controller", address, security);
    }
    if (!options.http.address.empty()) {
        check_web_address("--http", options.http.address, security);
    }
    find_graph(options);
    Agent agent(options.agent);
    std::unique_ptr<HttpServer> http;
    if (!options.http.address.empty()) {
        http = std::make_unique<HttpServer>(
            options.http, security,
            HttpContent{{},
                        [&agent] { return agent.status_json(); },
                        [&agent] { return agent_metrics(agent.status_json()); }});
    }
    fmt::print("mgi agent: applications reach it at {}{}{}\n", agent.socket(),
               http ? ", its metrics are at " : "", http ? http->url() + "/metrics" : "");
    std::fflush(stdout);
    std::thread waits([&] {
        signals.wait();
        agent.stop();
    });
    agent.run();
    waits.join();
    return 0;
}

}  // namespace

Run add_agent(CLI::App& command) {
    auto const options = std::make_shared<AgentCommand>();
    options->agent.controllers = {kDefaultController};
    command.add_option("--controller", options->agent.controllers, "of each controller")
        ->type_name(kAddresses)
        ->delimiter(',')
        ->allow_extra_args(false)
        ->envname("MGI_CONTROLLER")
        ->capture_default_str();
    command.add_option("--name", options->agent.name, "of this server (default: the host's)")
        ->type_name(kName);
    command.add_option("--socket", options->agent.socket, "where applications reach it")
        ->type_name(kFile)
        ->envname("MGI_AGENT");
    auto* const preset =
        command
            .add_option("--preset", options->preset,
                        "a known system's graph (mgi topo --preset), not this one's")
            ->type_name(kName);
    command.add_option("--topology", options->topology, "the graph from NCCL, hwloc or nvidia-smi")
        ->type_name(kFile)
        ->excludes(preset);
    command
        .add_option("--topology-config", options->corrections,
                    "corrects the graph, as mgi topo --config")
        ->type_name(kFile);
    command.add_option("--http", options->http.address, "of metrics (default: none)")
        ->type_name(kAddress);
    command
        .add_flag("--insecure", options->agent.security.insecure,
                  "without certificates or token speak to controllers of other machines and of "
                  "other users of this one, and serve them metrics")
        ->envname("MGI_INSECURE");
    command
        .add_option("--clock-shift-ms", options->agent.clock_shift_ms,
                    "for tests: its wall clock is so far off")
        ->group("");
    add_security(command, options->agent.security);
    add_daemon(command, options->log_level);
    return [options] { return run_agent_command(*options); };
}

}  // namespace mgi::control
