// The exchanges of runtime_exchange.cu with a process for each GPU. From the first process' launch to the last one's end; they
// have one clock.
#include <algorithm>
#include <array>
#include <sstream>

#include "runtime_exchange.hpp"
#include "support/meeting.hpp"
#include "team.hpp"

namespace mgi::bench {
namespace exchanges {
namespace {

using Microseconds = std::chrono::duration<double, std::micro>;

class ByProcesses final : public ChannelRuns {
public:
    explicit ByProcesses(Load const& load) : team_("mgi", load) {
        for (std::string const& line : team_.hear())
            blocks_ = std::min(blocks_, u32(std::stoul(line)));
    }

    Took run(bool check_rows) override {
        team_.say(check_rows ? "check" : "run");
        std::array<double, 4> slowest{};  // end, creating, launching, deleting
        double first = 0;
        for (std::string const& line : team_.hear()) {
            std::istringstream in(line);
            bool exact = false;
            double start = 0;
            in >> exact >> start;
            for (double& value : slowest) {
                double mine = 0;
                in >> mine;
                value = std::max(value, mine);
            }
            require(bool(in), "a process did not say what its run took");
            first = first == 0 ? start : std::min(first, start);
            exact_ = exact_ && exact;
        }
        auto const at = [](double us) {
            return Clock::time_point(std::chrono::duration_cast<Clock::duration>(Microseconds(us)));
        };
        return {at(first), at(slowest[0]), slowest[1], slowest[2], slowest[3]};
    }
    [[nodiscard]] u32 blocks() const override { return blocks_; }
    [[nodiscard]] bool exact() const override { return exact_; }

private:
    Team team_;
    u32 blocks_ = ~0u;
    bool exact_ = true;
};

}  // namespace

std::unique_ptr<ChannelRuns> by_processes(Load const& load) {
    return std::make_unique<ByProcesses>(load);
}

namespace {

void exchange_by_processes(Context& context) {
    auto const all = u32(connected_gpus(8));
    u64 const bytes = context.payload_bytes() * (context.quick() ? 1 : 2);
    auto const exchange = [&](Load const& load) {
        Result result;
        result.with("gpus", load.gpus).with("processes", load.gpus);
        measure(context, std::move(result), load, *by_processes(load));
    };
    for (u32 count = 2; count <= all; count *= 2) {
        for (u64 const part : {1, 10, 100}) exchange({count, Layout::Rows, bytes / part / 32});
        exchange({count, Layout::Columns, bytes / 32});
    }
}

Registration const registered{"mgi_processes", "the same with a process for each GPU",
                              exchange_by_processes};

}  // namespace
}  // namespace exchanges

void exchange_by_channel(u32 rank, Load const& load, Leader& leader) {
    using namespace exchanges;
    On const on{int(rank)};
    RuntimeOptions options;
    options.cpu_devices = 1;
    Runtime runtime = test::join_meeting(rank, load.gpus, options);
    Endpoint const mine = runtime.create_endpoint("cuda:" + std::to_string(rank));
    peers::Gpu const gpu(rank, load);
    auto const meet = [&] { (void)runtime.gather_endpoints({mine}); };
    Exchanges exchanges(runtime, load, runtime.gather_endpoints({mine}),
                        {{rank, &gpu, peers::wanted_at(load, rank)}}, meet);
    leader.say(std::to_string(exchanges.blocks()));
    auto const us = [](Clock::time_point at) {
        return Microseconds(at.time_since_epoch()).count();
    };
    for (std::string line; leader.hear(line);) {
        Took const took = exchanges.run(line == "check");
        std::ostringstream out;
        out.precision(15);
        out << exchanges.exact() << ' ' << us(took.start) << ' ' << us(took.end) << ' '
            << took.create_us << ' ' << took.launch_us << ' ' << took.delete_us;
        leader.say(out.str());
    }
}

}  // namespace mgi::bench
