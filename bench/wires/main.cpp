// bench_wires: what a link gives over TCP, beside plain sockets in the same run.
//
//     bench_wires receive ADDRESS:PORT...
//     bench_wires send LOCAL:0=ADDRESS:PORT... [--wires N] [--rounds N] [--segments N] [--bytes N]
//                      [--relay ADDRESS:PORT] [--drive]
//     bench_wires relay ADDRESS:PORT TO:PORT...
//
// One address for each NIC; `receive` also takes the next port of each, for the plain sockets. `send`
// prints one JSON object; links and plain sockets take turns, medians are given. bench/wires.sh runs
// both in network namespaces. `receive` ends with the sender. With --relay the link's wires go through
// `relay`, which passes them on, and plain sockets go straight. With --drive, given to both ends, who waits drives
// the wires meanwhile, as kernels do.
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "transport/ucx/ucx.hpp"
#include "wires/command.hpp"
#include "wires/ends.hpp"
#include "wires/plain.hpp"

namespace {

using mgi::Error;
using mgi::ErrorCode;
using mgi::transport::wire::Address;
using mgi::transport::wire::Route;
using mgi::transport::wire::WireThread;
using mgi::transport::wire::WireThreadOptions;

struct Options {
    std::vector<std::string> ways;
    std::string relay;
    std::uint32_t wires = 2;  // of each NIC
    bool driven = false;
    WireThreadOptions thread;
    std::size_t rounds = 7;
    std::size_t segments = 4000;
    std::size_t bytes = std::size_t(256) << 10;
};

Options options_from(int count, char** arguments) {
    Options options;
    for (int i = 2; i < count; ++i) {
        std::string const word = arguments[i];
        auto const number = [&] { return mgi::bench::number_behind(i, count, arguments); };
        if (word == "--wires") {
            options.wires = std::uint32_t(number());
        } else if (word == "--ucx") {
            options.thread.medium = mgi::transport::ucx::open();
        } else if (word == "--encrypt") {
            options.thread.encryption.on = true;
        } else if (word == "--kernel-tls") {
            options.thread.encryption.in_kernel = true;
        } else if (word == "--drive") {
            options.driven = true;
        } else if (word == "--rounds") {
            options.rounds = number();
        } else if (word == "--segments") {
            options.segments = number();
        } else if (word == "--bytes") {
            options.bytes = number();
        } else if (word == "--relay" && i + 1 < count) {
            options.relay = arguments[++i];
        } else {
            options.ways.push_back(word);
        }
    }
    if (options.ways.empty()) throw Error(ErrorCode::InvalidArgument, "no address was given");
    return options;
}

// The plain sockets' address stands next to the link's.
Address next_port(std::string const& text) {
    std::size_t const colon = text.rfind(':');
    int const port = std::stoi(text.substr(colon + 1));
    return Address(text.substr(0, colon + 1) + std::to_string(port + 1));
}

double median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
}

double processor_seconds() {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    auto const seconds = [](timeval const& time) {
        return double(time.tv_sec) + double(time.tv_usec) * 1e-6;
    };
    return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

int receive(Options const& options) {
    std::vector<Address> link;
    std::vector<Address> plain;
    for (std::string const& way : options.ways) {
        link.emplace_back(way);
        plain.push_back(next_port(way));
    }
    mgi::bench::LinkSetup setup;
    setup.nics = std::uint32_t(link.size());
    setup.wires = options.wires * setup.nics;
    setup.driven = options.driven;
    mgi::bench::PlainReceiver const sockets(plain);
    WireThread thread(options.thread);
    thread.listen(link);
    mgi::bench::ReceivingEnd end(thread, setup);
    end.wait();
    return 0;
}

// Until it is killed.
int relay(Options const& options) {
    std::vector<Route> to;
    for (std::size_t i = 1; i < options.ways.size(); ++i)
        to.push_back({{}, Address(options.ways[i])});
    WireThread thread;
    thread.listen({Address(options.ways.front())});
    thread.pass_on(mgi::bench::bench_relays(), mgi::bench::bench_secret(),
                   [&](auto const& onward) -> std::optional<Route> {
                       if (onward.nic >= to.size()) return std::nullopt;
                       return to[onward.nic];
                   });
    pause();
    return 0;
}

int send(Options const& options) {
    std::vector<Route> routes;
    std::vector<Route> plain;
    for (std::uint32_t w = 0; w < options.wires; ++w) {
        for (std::uint32_t nic = 0; nic < options.ways.size(); ++nic) {
            std::string const& way = options.ways[nic];
            Route& route = routes.emplace_back(mgi::bench::route_of(way));
            plain.push_back({route.local, next_port(way.substr(way.find('=') + 1))});
            if (options.relay.empty()) continue;
            route.remote = Address(options.relay);
            route.relays = mgi::bench::bench_relays();
            route.onward = {{0, nic}};
        }
    }
    mgi::bench::LinkSetup setup;
    setup.nics = std::uint32_t(options.ways.size());
    setup.wires = std::uint32_t(routes.size());
    setup.routes = routes;
    setup.driven = options.driven;
    WireThread thread(options.thread);
    mgi::bench::SendingEnd link(thread, setup);

    constexpr std::size_t kTrips = 2000;
    std::vector<double> link_rates;
    std::vector<double> link_processor;
    std::vector<double> plain_rates;
    std::vector<double> link_trips;
    std::vector<double> plain_trips;
    double const total = double(options.segments) * double(options.bytes) * 1e-9;
    link.send(options.segments / 10 + 1, options.bytes);  // its rates are known from here on
    for (std::size_t round = 0; round < options.rounds; ++round) {
        double const busy = processor_seconds();
        link_rates.push_back(total / link.send(options.segments, options.bytes));
        link_processor.push_back((processor_seconds() - busy) / total);
        plain_rates.push_back(total /
                              mgi::bench::plain_send(plain, options.segments, options.bytes));
        link_trips.push_back(link.round_trips(kTrips) / double(2 * kTrips) * 1e6);
        plain_trips.push_back(mgi::bench::plain_round_trips(plain.front(), kTrips) /
                              double(2 * kTrips) * 1e6);
    }
    constexpr double kIdle = 3.0;
    double const before = processor_seconds();
    std::this_thread::sleep_for(std::chrono::duration<double>(kIdle));
    double const idle = (processor_seconds() - before) / kIdle;

    nlohmann::json const result = {
        {"nics", setup.nics},
        {"wires", setup.wires},
        {"segment_bytes", options.bytes},
        {"rounds", options.rounds},
        {"link_gbps_median", median(link_rates)},
        {"plain_gbps_median", median(plain_rates)},
        {"ratio_to_plain", median(link_rates) / median(plain_rates)},
        {"link_sender_processor_s_per_gb_median", median(link_processor)},
        {"link_one_way_us_median", median(link_trips)},
        {"plain_one_way_us_median", median(plain_trips)},
        {"idle_processor_percent", idle * 100},
    };
    std::printf("%s\n", result.dump().c_str());
    return 0;
}

}  // namespace

int main(int count, char** arguments) {
    return mgi::bench::run_end(
        "bench_wires",
        "usage: bench_wires receive ADDRESS:PORT... [--wires N] [--ucx] [--drive] [--encrypt] "
        "[--kernel-tls]\n"
        "       bench_wires send LOCAL:0=ADDRESS:PORT... [--wires N] [--rounds N] "
        "[--segments N] [--bytes N] [--relay ADDRESS:PORT] [--ucx] [--drive] [--encrypt] "
        "[--kernel-tls]\n"
        "       bench_wires relay ADDRESS:PORT TO:PORT...\n",
        count, arguments, options_from, {{"receive", receive}, {"send", send}, {"relay", relay}});
}
