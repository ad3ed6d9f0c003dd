// The exchanges of runtime_exchange.cu with a process for each GPU: each is this program again, as a member of a meeting
// (tests/support/meeting.hpp). From the first process' launch to the last one's end; they have one clock.
#include "process_exchange.hpp"

#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <utility>

#include "runtime_exchange.hpp"
#include "support/meeting.hpp"

namespace mgi::bench {
namespace {

using namespace exchanges;

constexpr auto kPatience = std::chrono::seconds(60);

/// What members are to do.
struct Order {
    u32 size = 0;  ///< members
    Layout layout = Layout::Rows;
    u64 rows = 0;  ///< of each
    u32 words = 0;
    u32 runs = 0;
};

/// A file that goes with its owner.
class Note {
public:
    Note() {
        int const descriptor = mkstemp(path_.data());
        require(descriptor >= 0, "no file for what a process says");
        close(descriptor);
    }
    ~Note() { unlink(path_.c_str()); }
    Note(Note const&) = delete;
    Note& operator=(Note const&) = delete;
    [[nodiscard]] std::string const& path() const { return path_; }

private:
    std::string path_ = "/tmp/mgi_gpu_bench.XXXXXX";
};

std::string own_path() {
    std::array<char, 4096> path{};
    ssize_t const size = readlink("/proc/self/exe", path.data(), path.size());
    require(size > 0, "no path of this program");
    return {path.data(), std::size_t(size)};
}

/// What all runs of a member took, in its own words.
struct Said {
    bool exact = false;
    u32 blocks = 0;
    std::vector<std::array<double, 5>> runs;  ///< start, end, creating, launching, deleting, in us
};

Said said_in(std::string const& path, u32 runs) {
    Said said;
    std::ifstream in(path);
    in >> said.exact >> said.blocks;
    said.runs.resize(runs);
    for (auto& run : said.runs) {
        for (double& value : run) in >> value;
    }
    require(bool(in), "a process did not say what its runs took");
    return said;
}

void exchange(Context& context, Order const& order) {
    test::Meeting meeting(order.size);
    std::vector<std::unique_ptr<Note>> notes;
    for (u32 rank = 0; rank < order.size; ++rank) {
        notes.push_back(std::make_unique<Note>());
        meeting.start({own_path(), "--member", std::to_string(rank), std::to_string(order.size),
                       order.layout == Layout::Rows ? "rows" : "columns",
                       std::to_string(order.rows), std::to_string(order.words),
                       std::to_string(order.runs), notes.back()->path()});
    }
    for (u32 rank = 0; rank < order.size; ++rank) {
        std::string const ended = meeting.wait(rank, kPatience);
        require(ended.empty(), ("process " + std::to_string(rank) + ": " + ended).c_str());
    }
    std::vector<Said> all;
    bool exact = true;
    for (auto const& note : notes) {
        all.push_back(said_in(note->path(), order.runs));
        exact = exact && all.back().exact;
    }
    Series series;  // of the slowest
    for (u32 run = 0; run < order.runs; ++run) {
        std::array<double, 5> of = all[0].runs[run];
        for (Said const& said : all) {
            of[0] = std::min(of[0], said.runs[run][0]);
            for (int i = 1; i < 5; ++i) of[i] = std::max(of[i], said.runs[run][i]);
        }
        series.add((of[1] - of[0]) / 1e3, of[2], of[3], of[4]);
    }
    Result result;
    result.with("gpus", order.size).with("processes", order.size);
    result.exact = exact;
    report(context, std::move(result), {order.size, order.layout, order.rows, order.words},
           all[0].blocks, series);
}

void exchange_by_processes(Context& context) {
    auto const all = u32(connected_gpus(8));
    u64 const bytes = context.payload_bytes() * (context.quick() ? 1 : 2);
    auto const runs = u32(3 * peers::repeats(context));
    for (u32 count = 2; count <= all; count *= 2) {
        for (u64 const part : {1, 10, 100}) {
            exchange(context, {count, Layout::Rows, bytes / part / 32, 4, runs});
        }
        exchange(context, {count, Layout::Columns, bytes / 32, 4, runs});
    }
}

Registration const by_processes{"mgi_processes", "the same with a process for each GPU",
                                exchange_by_processes};

/// Its own rows, and what is to come of all.
OwnGpu own_gpu(u32 rank, Order const& order) {
    Sums wanted;
    for (u32 other = 0; other < order.size; ++other) {
        peers::Gpu const input(other, order.layout, order.rows, order.words, order.size);
        wanted += input.sent[rank];
    }
    return {rank,
            std::make_unique<peers::Gpu>(rank, order.layout, order.rows, order.words, order.size),
            wanted};
}

void take_part(u32 rank, Order const& order, std::string const& path) {
    On const on{int(rank)};
    RuntimeOptions options;
    options.cpu_devices = 1;
    Runtime runtime = test::join_meeting(rank, order.size, options);
    Endpoint const mine = runtime.create_endpoint("cuda:" + std::to_string(rank));
    std::vector<OwnGpu> gpus;
    gpus.push_back(own_gpu(rank, order));
    std::ofstream out(path);
    {
        auto const meet = [&] { (void)runtime.gather_endpoints({mine}); };
        Exchanges exchanges(runtime, runtime.gather_endpoints({mine}), gpus, meet);
        exchanges.run(true);
        std::vector<Took> runs;
        for (u32 i = 0; i < order.runs; ++i) runs.push_back(exchanges.run(false));
        out.precision(15);
        out << exchanges.exact() << ' ' << exchanges.blocks() << '\n';
        auto const us = [](Clock::time_point at) {
            return std::chrono::duration<double, std::micro>(at.time_since_epoch()).count();
        };
        for (Took const& took : runs) {
            out << us(took.start) << ' ' << us(took.end) << ' ' << took.create_us << ' '
                << took.launch_us << ' ' << took.delete_us << '\n';
        }
    }
    require(bool(out.flush()), "cannot write what the runs took");
}

}  // namespace

int run_member(std::vector<std::string> const& words) {
    try {
        require(words.size() == 7, "a member has seven words");
        auto const number = [&](std::size_t i) { return std::stoull(words[i]); };
        Order const order{u32(number(1)), words[2] == "rows" ? Layout::Rows : Layout::Columns,
                          number(3), u32(number(4)), u32(number(5))};
        take_part(u32(number(0)), order, words[6]);
        return 0;
    } catch (std::exception const& error) {
        std::fprintf(stderr, "process %s: %s\n", words.empty() ? "?" : words[0].c_str(),
                     error.what());
        return 1;
    }
}

}  // namespace mgi::bench
