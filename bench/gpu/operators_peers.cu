// operators: group-by, join, sort and exchange of tables on several GPUs, an endpoint on each, as large on each as others' words
// say: `gpus=4 lines=60000000 rounds=7 processes=0 peers=nccl one=BYTES` (OperatorOptions::one_endpoint_bytes). Every result is checked (order_tables.hpp). With processes=1
// each GPU has a process of its own; a call is then from the first one's start to the last one's end.
//
// Beside them what a program takes that partitions in two passes, exchanges by NCCL (uniform keys, the same bytes) and runs the
// same local kernels: its exchanges and MGI's operator of one endpoint, each measured in turn and added up.
#include <chrono>
#include <functional>
#include <map>
#include <sstream>
#include <string>

#include "contest.hpp"
#include "order_tables.hpp"
#include "support/meeting.hpp"
#include "team.hpp"

namespace mgi::bench {
namespace {

using Clock = std::chrono::steady_clock;
using Microseconds = std::chrono::duration<double, std::micro>;

/// What a call is about.
struct Wanted : orders::Size {
    u32 rounds = 7;
    bool processes = false;
    bool nccl = true;
    u64 one_endpoint_bytes = OperatorOptions().one_endpoint_bytes;
};

Wanted wanted_of(Context const& context) {
    Wanted wanted;
    wanted.gpus = u32(connected_gpus(8));
    if (context.quick()) wanted.lines = 6'000'000;
    for (std::string const& word : context.words()) {
        std::size_t const at = word.find('=');
        require(at != std::string::npos, "'" + word + "' is no word of operators");
        std::string const value = word.substr(at + 1);
        if (word.starts_with("gpus=")) {
            wanted.gpus = u32(std::atoi(value.c_str()));
        } else if (word.starts_with("lines=")) {
            wanted.lines = std::strtoull(value.c_str(), nullptr, 10);
        } else if (word.starts_with("rounds=")) {
            wanted.rounds = u32(std::max(1, std::atoi(value.c_str())));
        } else if (word.starts_with("processes=")) {
            wanted.processes = value == "1";
        } else if (word.starts_with("peers=")) {
            wanted.nccl = value.find("nccl") != std::string::npos;
        } else if (word.starts_with("one=")) {
            wanted.one_endpoint_bytes = std::strtoull(value.c_str(), nullptr, 10);
        } else {
            require(false, "'" + word + "' is no word of operators");
        }
    }
    auto const there = u32(connected_gpus(int(wanted.gpus)));
    require(wanted.gpus != 0 && there == wanted.gpus,
            "only " + std::to_string(there) + " GPUs are here and reach each other's memory");
    require(wanted.lines >= 4 && wanted.all_orders() % orders::kStride != 0,
            "at least 4 lines a GPU, and no multiple of " + std::to_string(4 * orders::kStride));
    return wanted;
}

/// The calls of an operator, and what the last one came to.
struct Calls {
    Timing timing;
    orders::Seen seen;
    std::vector<OperatorPhase> phases;
    bool at_one = false;
};

/// The processes that make calls of operators over all GPUs.
class Callers {
public:
    virtual ~Callers() = default;
    virtual Calls call(std::string const& name, Wanted const& wanted) = 0;
};

/// Calls `once()` so many times and once more ahead of them; it returns milliseconds.
Timing repeat(std::function<double()> const& once, u32 rounds) {
    Timing timing;
    (void)once();
    for (u32 i = 0; i < rounds; ++i) timing.ms.push_back(once());
    std::sort(timing.ms.begin(), timing.ms.end());
    return timing;
}

/// This process, with all GPUs.
class OneProcess final : public Callers {
public:
    explicit OneProcess(orders::Size const& size)
        : runtime(Runtime::local(options())), tables_(size, all_of(size)) {
        for (u32 g = 0; g < size.gpus; ++g) {
            all.push_back(runtime.create_endpoint("cuda:" + std::to_string(g)));
        }
    }

    Calls call(std::string const& name, Wanted const& wanted) override {
        std::vector<GpuTable> results;
        orders::Call call;
        call.name = name;
        call.options.one_endpoint_bytes = wanted.one_endpoint_bytes;
        Calls calls;
        calls.timing =
            timed([&] { return tables_.operate(call, runtime, all); }, wanted.rounds, results);
        calls.seen = tables_.seen_in(call, results);
        calls.phases = call.told.phases;
        calls.at_one = call.told.at_one;
        return calls;
    }

    using Work = std::function<std::vector<GpuTable>()>;
    /// The results of the last one stay.
    static Timing timed(Work const& work, u32 rounds, std::vector<GpuTable>& results) {
        return repeat(
            [&] {
                results.clear();
                auto const start = Clock::now();
                results = work();
                return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
            },
            rounds);
    }

    [[nodiscard]] orders::Tables const& tables() const { return tables_; }
    Runtime runtime;
    std::vector<Endpoint> all;

private:
    static RuntimeOptions options() {
        RuntimeOptions options;
        options.cpu_devices = 1;
        return options;
    }
    static std::vector<u32> all_of(orders::Size const& size) {
        std::vector<u32> all;
        for (u32 g = 0; g < size.gpus; ++g) all.push_back(g);
        return all;
    }
    orders::Tables tables_;
};

Load load_of(orders::Size const& size) {
    Load load;
    load.gpus = size.gpus;
    load.layout = Layout::Columns;
    load.words = 2;
    load.rows = size.lines;
    return load;
}

/// A process for each GPU.
class AProcessEach final : public Callers {
public:
    explicit AProcessEach(orders::Size const& size) : team_("operators", load_of(size)) {
        (void)team_.hear();
    }

    Calls call(std::string const& name, Wanted const& wanted) override {
        Calls calls;
        calls.timing = repeat(
            [&] {
                calls = {};
                return once(name + ' ' + std::to_string(wanted.one_endpoint_bytes), calls);
            },
            wanted.rounds);
        return calls;
    }

private:
    double once(std::string const& what, Calls& calls) {
        team_.say(what);
        double first = 0;
        double last = 0;
        for (std::string const& line : team_.hear()) {
            std::istringstream in(line);
            double start = 0;
            double end = 0;
            orders::Seen seen;
            in >> start >> end >> seen.rows >> seen.sum >> seen.wrong >> seen.first >> seen.last;
            in >> calls.at_one;
            require(bool(in), "a process did not say what its call came to");
            first = first == 0 ? start : std::min(first, start);
            last = std::max(last, end);
            calls.seen.join(seen);
            calls.phases.clear();  // those of the last one stay
            OperatorPhase phase;
            while (in >> phase.name >> phase.seconds) calls.phases.push_back(phase);
        }
        return (last - first) / 1e3;
    }

    Team team_;
};

/// Milliseconds of partition and NCCL, without reading, for so many rows of two words a GPU; 0 where there is no NCCL.
double nccl_ms(Wanted const& wanted, u64 rows) {
    if (!wanted.nccl || wanted.gpus < 2) return 0;
    Load load = load_of(wanted);
    load.rows = rows;
    try {
        peers::Gpus const gpus = peers::gpus_of(load);
        auto const nccl = by_nccl(load, gpus);
        return repeat([&] { return nccl->run().arrived; }, wanted.rounds).median_ms();
    } catch (std::exception const& error) {
        std::fprintf(stderr, "no figure of NCCL: %s\n", error.what());
        return 0;
    }
}

/// `peer_ms`: 0 where there is none.
void report(Context& context, Wanted const& wanted, std::string const& what, Calls const& calls,
            bool exact, double peer_ms) {
    u64 const rows = wanted.all_lines() + (what == "join" ? wanted.all_orders() : 0);
    Result result;
    calls.timing.fill(result, 16 * rows);
    result.with("operator", what).with("gpus", wanted.gpus);
    result.with("processes", wanted.processes ? wanted.gpus : 1);
    result.with("lines_per_gpu", wanted.lines);
    result.with("at_one", calls.at_one ? 1 : 0);
    result.figure("ms_median", calls.timing.median_ms());
    result.figure("ms_best", calls.timing.best_ms());
    if (peer_ms != 0) result.figure("ms_nccl", peer_ms);
    for (OperatorPhase const& phase : calls.phases) {
        result.figure("ms_" + phase.name, phase.seconds * 1e3);
    }
    result.exact = exact;
    context.add(result);
}

/// What one GPU's operator takes for its share of the rows, once it has them.
double alone_ms(OneProcess& callers, std::string const& name, u32 rounds) {
    orders::Tables const& tables = callers.tables();
    Runtime& runtime = callers.runtime;
    std::vector<Endpoint> const one{callers.all[0]};
    auto const share = [&](std::vector<GpuTable> const& parts, std::string const& key) {
        return exchange(runtime, callers.all, parts, {key})[0];
    };
    std::vector<GpuTable> results;
    if (name == "exchange") return 0;
    if (name == "sort") {
        return OneProcess::timed([&] { return sort(runtime, one, {tables.lines()[0]}, {{"key"}}); },
                                 rounds, results)
            .median_ms();
    }
    if (name == "join") {
        GpuTable const left = share(tables.lines(), "key");
        GpuTable const right = share(tables.orders(), "id");
        return OneProcess::timed(
                   [&] { return join(runtime, one, {left}, {right}, orders::Tables::spec()); },
                   rounds, results)
            .median_ms();
    }
    GpuTable const part = share(tables.values(), "key");
    return OneProcess::timed(
               [&] { return group_by(runtime, one, {part}, {"key"}, orders::Tables::sums()); },
               rounds, results)
        .median_ms();
}

void operators_on_peers(Context& context) {
    Wanted const wanted = wanted_of(context);
    double const lines_by_nccl = nccl_ms(wanted, wanted.lines);
    double const orders_by_nccl = nccl_ms(wanted, wanted.orders());
    orders::Expected const expected(wanted, "join");
    orders::Expected const few(wanted, "group_by_4");
    std::unique_ptr<OneProcess> one;
    std::unique_ptr<AProcessEach> several;
    // Memory for both at once there may not be.
    if (!wanted.processes || lines_by_nccl != 0) one = std::make_unique<OneProcess>(wanted);
    std::vector<std::string> const all{"exchange", "join", "group_by", "group_by_4", "sort"};
    std::map<std::string, double> peer_ms;
    for (std::string const& name : all) {
        // A program that makes few groups of many lines exchanges groups, not lines.
        if (lines_by_nccl == 0 || name == "group_by_4") continue;
        peer_ms[name] = lines_by_nccl + (name == "join" ? orders_by_nccl : 0) +
                        alone_ms(*one, name, wanted.rounds);
    }
    if (wanted.processes) {
        one.reset();
        several = std::make_unique<AProcessEach>(wanted);
    }
    Callers& callers = wanted.processes ? static_cast<Callers&>(*several) : *one;
    for (std::string const& name : all) {
        if (name == "exchange" && wanted.gpus == 1) continue;
        Calls const calls = callers.call(name, wanted);
        bool const exact = calls.seen.same_as((name == "group_by_4" ? few : expected).of(name));
        report(context, wanted, name, calls, exact, peer_ms[name]);
    }
}

Registration const registered{
    "operators",
    "group-by, join, sort and exchange of tables on several GPUs, beside NCCL's exchange",
    operators_on_peers};

}  // namespace

void operate(u32 rank, Load const& load, Leader& leader) {
    On const on{int(rank)};
    RuntimeOptions options;
    options.cpu_devices = 1;
    Runtime runtime = test::join_meeting(rank, load.gpus, options);
    Endpoint const mine = runtime.create_endpoint("cuda:" + std::to_string(rank));
    std::vector<Endpoint> const all = runtime.gather_endpoints({mine});
    orders::Size size;
    size.gpus = load.gpus;
    size.lines = load.rows;
    orders::Tables const tables(size, {rank});
    leader.say("ready");
    std::vector<GpuTable> results;
    for (std::string what; leader.hear(what);) {
        results.clear();
        (void)runtime.gather_endpoints({mine});  // they start together
        orders::Call call;
        std::istringstream(what) >> call.name >> call.options.one_endpoint_bytes;
        auto const start = Clock::now();
        results = tables.operate(call, runtime, all);
        auto const end = Clock::now();
        auto const us = [](Clock::time_point at) {
            return Microseconds(at.time_since_epoch()).count();
        };
        orders::Seen const seen = tables.seen_in(call, results);
        std::ostringstream out;
        out.precision(15);
        out << us(start) << ' ' << us(end) << ' ' << seen.rows << ' ' << seen.sum << ' '
            << seen.wrong << ' ' << seen.first << ' ' << seen.last << ' ' << call.told.at_one;
        for (OperatorPhase const& phase : call.told.phases) {
            out << ' ' << phase.name << ' ' << phase.seconds;
        }
        leader.say(out.str());
    }
}

}  // namespace mgi::bench
