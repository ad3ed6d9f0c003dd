// `mgi controller`: the options, the server, and who leads.
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <stop_token>
#include <thread>

#include <mgi/error.hpp>

#include "control/cli/commands.hpp"
#include "control/cli/options.hpp"
#include "control/controller/engine.hpp"
#include "control/controller/service.hpp"
#include "control/controller/state_file.hpp"
#include "control/election/election.hpp"
#include "control/election/etcd_storage.hpp"
#include "control/election/fence.hpp"
#include "control/http/controller_metrics.hpp"
#include "control/http/page.hpp"
#include "control/http/server.hpp"
#include "control/net/files.hpp"
#include "core/log.hpp"
#include "core/private_files.hpp"

namespace mgi::control {

namespace {

constexpr std::chrono::seconds kAfterFailure{3};  // until it campaigns again

struct ControllerOptions {
    std::string listen = kDefaultController;
    std::string advertise;
    std::string state;
    HttpOptions http{"127.0.0.1:7071"};
    SecurityOptions security;
    Settings settings;
    EtcdOptions etcd;
    int etcd_lease_s = 5;
    std::string log_level = "info";
};

/// Where this user keeps what programs remember.
std::string default_state() {
    // NOLINTBEGIN(concurrency-mt-unsafe): before there is another thread
    char const* const given = std::getenv("XDG_STATE_HOME");
    char const* const home = std::getenv("HOME");
    // NOLINTEND(concurrency-mt-unsafe)
    if (given != nullptr && *given != '\0') return std::string(given) + "/mgi/controller.state";
    if (geteuid() == 0 || home == nullptr) return "/var/lib/mgi/controller.state";
    return std::string(home) + "/.local/state/mgi/controller.state";
}

std::string own_address(ControllerOptions const& options) {
    if (!options.advertise.empty()) {
        check_address("--advertise", options.advertise);
        return options.advertise;
    }
    std::size_t const colon = options.listen.rfind(':');
    std::string const host = options.listen.substr(0, colon);
    if (host != "0.0.0.0" && host != "[::]") return options.listen;
    char name[256] = "localhost";
    gethostname(name, sizeof name - 1);
    return name + options.listen.substr(colon);
}

void lead(ControllerOptions const& options, Storage& storage, ControlService& service,
          Outlet& outlet) {
    service.lead(std::make_shared<Engine>(options.settings, storage, make_plans(), outlet));
}

/// A term, whatever ends it: the service leads no more before its storage goes.
class Reign {
public:
    Reign(ControlService& service, Fence& fence, Term const& term)
        : service_(service), fence_(fence) {
        fence_.open(term.sure_until);
    }
    Reign(Reign const&) = delete;
    Reign& operator=(Reign const&) = delete;
    ~Reign() {
        fence_.shut();
        service_.stand_by("");
    }

private:
    ControlService& service_;
    Fence& fence_;
};

/// Leads whenever it is elected, until it shall stop.
void lead_in_turn(ControllerOptions const& options, std::string const& address,
                  ControlService& service, Fence& fence, std::stop_token const& stop) {
    EtcdClient const etcd(options.etcd);
    Election election(etcd, options.etcd, address, stop);
    auto const other = [&](std::string const& leader) {
        if (!leader.empty()) log::info("controller: stands by; {} leads", leader);
        service.stand_by(leader);
    };
    while (auto const term = election.campaign(other)) {
        bool failed = false;
        try {
            EtcdStorage storage(etcd, options.etcd, *term, stop);
            Reign const reign(service, fence, *term);
            lead(options, storage, service, fence);
            std::string const why = election.hold(*term, fence);
            if (!why.empty()) log::error("controller: leads no more: {}", why);
        } catch (std::exception const& error) {
            failed = !stop.stop_requested();
            if (failed) log::error("controller: cannot lead: {}", error.what());
        }
        election.resign(*term);
        // Another one may do better, and nobody is helped by a thousand such lines.
        if (failed) election.pause(kAfterFailure);
    }
}

int run_controller(ControllerOptions& options) {
    start_log(options.log_level);
    net::allow_many_files();
    StopSignals const signals;
    Security const security(options.security);
    check_address("--listen", options.listen);
    check_listen_address("--listen", options.listen, security);
    if (options.http.address == "none") options.http.address.clear();
    if (!options.http.address.empty()) {
        check_web_address("--http", options.http.address, security);
    }
    check(options.settings);
    std::string const address = own_address(options);
    options.etcd.lease = std::chrono::seconds(options.etcd_lease_s);

    // Before anything listens: a state file that cannot be used ends the program here.
    std::unique_ptr<StateFile> storage;
    if (options.etcd.members.empty()) {
        std::filesystem::path const path(options.state.empty() ? default_state() : options.state);
        if (options.state.empty()) {
            make_folder(path.parent_path().string(),
                        "give --state a file in a folder of this user's");
        }
        storage = std::make_unique<StateFile>(path);
    } else {
        for (std::string const& member : options.etcd.members) check_address("--etcd", member);
    }

    ControlService service(security, address);
    Fence fence(service);
    std::unique_ptr<net::Server> server;
    try {
        server = service.serve(options.listen);
    } catch (Error const& error) {
        throw Error(ErrorCode::InvalidArgument,
                    fmt::format("--listen {}: that address cannot be listened on; is another "
                                "controller running, or is it another machine's address? {}",
                                options.listen, error.what()));
    }
    std::unique_ptr<HttpServer> http;
    if (!options.http.address.empty()) {
        http = std::make_unique<HttpServer>(
            options.http, security,
            HttpContent{status_page(), [&service] { return service.status(); },
                        [&service] {
                            auto const snapshot = service.snapshot();
                            return controller_metrics(*snapshot, snapshot->epoch != 0);
                        }});
    }

    std::jthread elections;
    if (storage) {
        lead(options, *storage, service, service);
    } else {
        elections = std::jthread([&](std::stop_token const& stop) {
            try {
                lead_in_turn(options, address, service, fence, stop);
            } catch (std::exception const& error) {
                log::error("controller: {}", error.what());
                signals.raise();
            }
        });
    }
    if (!security.guarded() && !is_loopback(options.listen)) {
        log::warn(
            "controller: no token (--token-file) and no certificates (--ca, --cert, --key): "
            "whoever "
            "reaches {} may use it, and everything is sent in the clear",
            options.listen);
    }
    fmt::print("mgi controller: agents reach it at {}{}{}\n", address,
               http ? ", its status page is " : "", http ? http->url() + "/" : "");
    std::fflush(stdout);

    signals.wait();
    log::info("controller: stops; what runs goes on without it");
    if (elections.joinable()) {
        elections.request_stop();
        elections.join();
    }
    // Agents first: they are to hear of it at once, whatever a reader of the page does.
    service.retire();
    server.reset();
    http.reset();
    return 0;
}

}  // namespace

Run add_controller(CLI::App& command) {
    auto const options = std::make_shared<ControllerOptions>();
    command.add_option("--listen", options->listen, "for agents and mgi status")
        ->type_name(kAddress)
        ->capture_default_str();
    command
        .add_option("--advertise", options->advertise, "that agents reach it by, if another one")
        ->type_name(kAddress);
    command
        .add_option("--state", options->state,
                    "keeps epoch and ids (default: " + default_state() + ")")
        ->type_name(kFile);
    command.add_option("--http", options->http.address, "of status page and metrics, or none")
        ->type_name(kAddress)
        ->capture_default_str();
    command.add_flag(
        "--insecure", options->security.insecure,
        "without token or certificates listen where other machines reach it, and serve "
        "all users of this one; without both serve the page so");
    add_security(command, options->security);
    command.add_flag("--any-server", options->security.any_server,
                     "any certificate of the CA may register any server's name");
    char const* const leases = "Leases (milliseconds)";
    auto const milliseconds = [&](char const* name, std::uint32_t& value, char const* about) {
        command.add_option(name, value, about)
            ->group(leases)
            ->type_name("MS")
            ->capture_default_str();
    };
    milliseconds("--heartbeat-ms", options->settings.heartbeat_ms, "an agent's word");
    milliseconds("--lease-ms", options->settings.lease_ms, "without a word: away");
    milliseconds("--grace-ms", options->settings.grace_ms, "away for so long: failed");
    char const* const etcd = "Several controllers, one of which leads";
    command
        .add_option("--etcd", options->etcd.members,
                    "host:port of etcd's members, with commas; takes the place of --state")
        ->group(etcd)
        ->delimiter(',');
    command.add_option("--etcd-prefix", options->etcd.prefix, "of all keys")
        ->group(etcd)
        ->capture_default_str();
    command
        .add_option("--etcd-lease", options->etcd_lease_s, "seconds until another one takes over")
        ->group(etcd)
        ->check(CLI::Range(2, 600))
        ->capture_default_str();
    auto const file = [&](char const* name, std::string& value, char const* about) {
        command.add_option(name, value, about)->group(etcd)->type_name(kFile);
    };
    file("--etcd-ca", options->etcd.security.ca, "PEM: who signs etcd's certificates");
    file("--etcd-cert", options->etcd.security.certificate, "PEM: our certificate for etcd");
    file("--etcd-key", options->etcd.security.key, "PEM: its private key");
    add_daemon(command, options->log_level);
    return [options] { return run_controller(*options); };
}

}  // namespace mgi::control
