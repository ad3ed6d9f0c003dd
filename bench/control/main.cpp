// bench_control: what a controller costs that serves many agents. The controller is a process of its
// own on one core; agents and clients are on the others. Heartbeats and calls leave by the clock, not
// when the last one is answered, so a controller that is too slow shows.
#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>
#include <string>
#include <thread>

#include "control/controller/service.hpp"
#include "control/controller/state_file.hpp"
#include "control/net/files.hpp"
#include "control/rpc/client_side.hpp"
#include "control/state/settings.hpp"
#include "load.hpp"

namespace mgi::control::bench {
namespace {

struct Options {
    std::uint32_t agents = 1000;
    std::uint32_t heartbeat_ms = 300;
    std::uint32_t creations = 1000;
    double seconds = 10;
    std::uint32_t poll_ms = 0;
    bool keep = false;
    std::string json;
};

/// Threads made later are bound like this one.
void bind_to(int first, int last) {
    cpu_set_t cores;
    CPU_ZERO(&cores);
    for (int core = first; core <= last; ++core) CPU_SET(core, &cores);
    if (sched_setaffinity(0, sizeof cores, &cores) != 0) std::perror("bench_control: cores");
}

/// Serves until the pipe closes. Its port goes out by `ready`.
int serve(Options const& options, int ready, int until) {
    bind_to(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    auto const folder =
        std::filesystem::temp_directory_path() / ("mgi-bench-" + std::to_string(getpid()));
    std::filesystem::create_directories(folder);
    {
        Security const security{SecurityOptions{}};
        StateFile storage(folder / "state");
        ControlService service(security, "127.0.0.1");
        auto server = service.serve("127.0.0.1:0");
        int const port = server->port();
        Settings settings;
        settings.heartbeat_ms = options.heartbeat_ms;
        settings.lease_ms = 4 * options.heartbeat_ms;
        service.lead(std::make_shared<Engine>(settings, storage, make_plans(), service));
        bool good = write(ready, &port, sizeof port) == sizeof port;
        char end = 0;
        while (good && read(until, &end, 1) < 0) {
        }
        service.retire();
        server.reset();
    }
    std::filesystem::remove_all(folder);
    return 0;
}

/// Seconds of processor time that a process has had.
double cpu_seconds(pid_t process) {
    std::ifstream file("/proc/" + std::to_string(process) + "/stat");
    std::string text;
    std::getline(file, text);
    // The name, in brackets, may hold anything; 11 fields are between it and the two.
    std::istringstream fields(text.substr(text.rfind(')') + 1));
    std::string skipped;
    for (int field = 0; field < 11; ++field) fields >> skipped;
    unsigned long long user = 0;
    unsigned long long system = 0;
    fields >> user >> system;
    return static_cast<double>(user + system) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

/// Somebody who looks at the status page all the time.
std::jthread poll_status(Options const& options, std::string const& address,
                         std::shared_ptr<Security const> const& security, Latencies& taken) {
    if (options.poll_ms == 0) return {};
    return std::jthread([=, &taken, every = std::chrono::milliseconds(options.poll_ms)](
                            std::stop_token const& stop) {
        for (auto next = Clock::now(); !stop.stop_requested(); next += every) {
            std::this_thread::sleep_until(next);
            auto const since = Clock::now();
            CallRequest request;
            request.mutable_status()->set_protocol(kProtocol);
            if (call_once(address, security, request).first.code() == Outcome::OK) {
                taken.add(since);
            }
        }
    });
}

nlohmann::ordered_json summary(std::vector<double> const& sorted) {
    auto const at = [&](double part) {
        return sorted.empty() ? 0.0
                              : sorted[static_cast<std::size_t>(
                                    part * static_cast<double>(sorted.size() - 1))];
    };
    return {
        {"count", sorted.size()}, {"median_us", at(0.5)}, {"p99_us", at(0.99)}, {"max_us", at(1)}};
}

int load(Options const& options, int port, pid_t controller) {
    int const cores = static_cast<int>(std::thread::hardware_concurrency());
    bind_to(cores > 1 ? 1 : 0, cores - 1);
    auto const security = std::make_shared<Security const>(SecurityOptions{});
    std::string const address = "127.0.0.1:" + std::to_string(port);
    Latencies beats;
    Latencies creations;
    Latencies deletions;
    std::vector<std::unique_ptr<LoadAgent>> agents;
    net::Client client;  // behind the agents, which it calls
    for (std::uint32_t i = 0; i < options.agents; ++i) {
        agents.push_back(std::make_unique<LoadAgent>("node" + std::to_string(i), beats));
        agents.back()->start(client, address, security);
        if (!agents.back()->wait_registered(std::chrono::seconds(30)) ||
            !agents.back()->create_endpoint()) {
            std::fprintf(stderr, "agent %u: %s\n", i, agents.back()->refused().c_str());
            std::_Exit(1);
        }
        // Those that are there must be heard of meanwhile.
        if (i % 200 == 199) {
            for (auto const& agent : agents) agent->heartbeat();
        }
    }

    std::atomic<std::uint64_t> failed{0};
    std::atomic<std::uint64_t> open{0};
    std::mt19937 random(1);
    auto const create = [&] {
        LoadAgent& from = *agents[random() % agents.size()];
        std::uint32_t const to = agents[random() % agents.size()]->endpoint();
        auto const since = Clock::now();
        ++open;
        from.create_channel(to, [&, since](std::uint32_t channel) {
            creations.add(since);
            if (channel == 0) ++failed;
            if (channel != 0 && !options.keep) {
                auto const then = Clock::now();
                from.delete_channel(channel, [&, then](bool deleted) {
                    deletions.add(then);
                    if (!deleted) ++failed;
                    --open;
                });
            } else {
                --open;
            }
        });
    };
    auto const run = [&](double seconds) {
        double const beats_each_us = 1e-3 * options.agents / options.heartbeat_ms;
        double const creations_each_us = 1e-6 * options.creations;
        auto const start = Clock::now();
        std::uint64_t beaten = 0;
        std::uint64_t created = 0;
        while (true) {
            double const at =
                std::chrono::duration<double, std::micro>(Clock::now() - start).count();
            if (at >= seconds * 1e6) return at * 1e-6;
            for (; static_cast<double>(beaten) < at * beats_each_us; ++beaten) {
                agents[beaten % agents.size()]->heartbeat();
            }
            for (; static_cast<double>(created) < at * creations_each_us; ++created) create();
            std::this_thread::sleep_for(std::chrono::microseconds(500));
        }
    };
    Latencies polls;
    auto const poller = poll_status(options, address, security, polls);
    run(2);  // until caches and connections are warm
    beats.take();
    creations.take();
    deletions.take();
    polls.take();
    double const busy_before = cpu_seconds(controller);
    double const own_before = cpu_seconds(getpid());
    double const took = run(options.seconds);
    double const busy = (cpu_seconds(controller) - busy_before) / took;
    double const own = (cpu_seconds(getpid()) - own_before) / took;
    nlohmann::ordered_json result{{"agents", options.agents},
                                  {"heartbeat_ms", options.heartbeat_ms},
                                  {"seconds", took},
                                  {"controller_core_share", busy},
                                  {"load_core_share", own}};
    result["heartbeats"] = summary(beats.take());
    result["creations"] = summary(creations.take());
    if (!options.keep) result["deletions"] = summary(deletions.take());
    if (options.poll_ms != 0) result["polls"] = summary(polls.take());
    for (int i = 0; i < 100 && open > 0; ++i) {
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    result["failed"] = failed.load();
    result["unanswered"] = open.load();
    for (auto const& agent : agents) agent->stop();

    fmt::print("{} agents, a heartbeat every {} ms, {} channels a second created{}; {:.1f} s\n",
               options.agents, options.heartbeat_ms, options.creations,
               options.keep ? "" : " and deleted", took);
    fmt::print("controller: {:.0f}% of its core; load: {:.0f}% of its own\n", busy * 100,
               own * 100);
    fmt::print("{:12} {:>9} {:>12} {:>12} {:>12}\n", "", "a second", "median us", "p99 us",
               "max us");
    for (char const* what : {"heartbeats", "creations", "deletions", "polls"}) {
        if (!result.contains(what)) continue;
        auto const& row = result[what];
        fmt::print("{:12} {:>9.0f} {:>12.0f} {:>12.0f} {:>12.0f}\n", what,
                   row["count"].get<double>() / took, row["median_us"].get<double>(),
                   row["p99_us"].get<double>(), row["max_us"].get<double>());
    }
    fmt::print("failed: {}, unanswered: {}\n", failed.load(), open.load());
    if (!options.json.empty()) std::ofstream(options.json) << result.dump(2) << '\n';
    return failed == 0 && open == 0 ? 0 : 1;
}

int run_bench(int argc, char** argv) {
    Options options;
    CLI::App app{"What a controller costs that serves many agents, on one core"};
    app.add_option("--agents", options.agents, "Servers")->check(CLI::Range(2u, 20'000u));
    app.add_option("--heartbeat", options.heartbeat_ms, "Milliseconds")
        ->check(CLI::Range(10u, 10'000u));
    app.add_option("--creations", options.creations, "Channels a second")
        ->check(CLI::Range(0u, 100'000u));
    app.add_option("--seconds", options.seconds, "Length")->check(CLI::Range(0.1, 600.0));
    app.add_option("--poll", options.poll_ms, "Milliseconds between two looks at the status")
        ->check(CLI::Range(10u, 60'000u));
    app.add_flag("--keep", options.keep, "Channels are not deleted again");
    app.add_option("--json", options.json, "Write the figures to this file");
    CLI11_PARSE(app, argc, argv);
    net::allow_many_files();
    int ready[2];
    int until[2];
    if (pipe2(ready, O_CLOEXEC) != 0 || pipe2(until, O_CLOEXEC) != 0) return 1;
    // Before there is another thread.
    pid_t const controller = fork();
    if (controller == 0) {
        close(until[1]);
        close(ready[0]);
        return serve(options, ready[1], until[0]);
    }
    close(ready[1]);
    int port = 0;
    if (read(ready[0], &port, sizeof port) != sizeof port) {
        std::fprintf(stderr, "bench_control: the controller did not start\n");
        return 1;
    }
    int const result = load(options, port, controller);
    close(until[1]);
    waitpid(controller, nullptr, 0);
    return result;
}

}  // namespace
}  // namespace mgi::control::bench

int main(int argc, char** argv) {
    return mgi::control::bench::run_bench(argc, argv);
}
