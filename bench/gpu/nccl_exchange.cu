// What programs do without MGI: each GPU partitions its rows in two passes, NCCL exchanges the parts in one group of sends
// and receives, and the rows are read where they arrived.
#include <algorithm>
#include <chrono>
#include <memory>
#include <vector>

#include "contest.hpp"
#include "nccl.hpp"
#include "partitioned.hpp"

namespace mgi::bench {
namespace {

using Clock = std::chrono::steady_clock;

double ms_since(Clock::time_point start) {
    return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

class ByNccl final : public Contestant {
public:
    ByNccl(Load const& load, peers::Gpus const& gpus)
        : load_(load), nccl_(int(load.gpus)), wanted_(peers::wanted_by(load, gpus)) {
        for (u32 gpu = 0; gpu < load.gpus; ++gpu) {
            On const on{int(gpu)};
            sides_.push_back(std::make_unique<Partitioned>(load, *gpus[gpu], wanted_[gpu].rows));
        }
    }

    [[nodiscard]] int version() const { return nccl_.version(); }

    Turn run() override {
        auto const start = Clock::now();
        on_each([](u32, Partitioned& side) { side.start_partition(); });
        on_each([](u32, Partitioned& side) { side.end_partition(); });
        nccl_.start();
        on_each([&](u32 gpu, Partitioned& side) {
            load_.to_all() ? broadcast(gpu, side) : exchange(gpu, side);
        });
        nccl_.end();
        wait_for_all();
        Turn turn{ms_since(start), 0};
        on_each([](u32, Partitioned& side) { side.start_read(); });
        wait_for_all();
        turn.read = ms_since(start);
        return turn;
    }

    bool exact() override {
        bool exact = true;
        on_each([&](u32 gpu, Partitioned& side) { exact = exact && side.has(wanted_[gpu]); });
        return exact;
    }

private:
    template <class Work>
    void on_each(Work const& work) {
        for (u32 gpu = 0; gpu < load_.gpus; ++gpu) {
            On const on{int(gpu)};
            work(gpu, *sides_[gpu]);
        }
    }
    void wait_for_all() {
        on_each([](u32, Partitioned& side) {
            check(cudaStreamSynchronize(side.stream()), "wait for an exchange");
        });
    }
    void exchange(u32 gpu, Partitioned& side) {
        for (u32 d = 0; load_.sends(gpu) && d < load_.destinations(); ++d) {
            side.each_run_for(d, [&](u64 const* words, u64 bytes) {
                nccl_.send(int(gpu), int(load_.destination(d)), words, bytes / 8, side.stream());
            });
        }
        u64 at = 0;
        for (u32 from = 0; load_.receives(gpu) && from < load_.sources(); ++from) {
            u64 const rows = sides_[from]->rows_for(gpu - load_.destination(0));
            side.each_run_from(at, rows, [&](u64* words, u64 bytes) {
                nccl_.receive(int(gpu), int(from), words, bytes / 8, side.stream());
            });
            at += rows;
        }
    }
    void broadcast(u32 gpu, Partitioned& side) {
        std::vector<u64 const*> from;  // on the root; others' is not looked at
        sides_[0]->each_run_for(0, [&](u64 const* words, u64) { from.push_back(words); });
        std::size_t run = 0;
        side.each_run_from(0, load_.rows, [&](u64* words, u64 bytes) {
            u64 const* const mine = gpu == 0 ? from[run] : words;
            ++run;
            nccl_.broadcast(int(gpu), 0, mine, words, bytes / 8, side.stream());
        });
    }

    Load const load_;
    Nccl const nccl_;
    std::vector<Sums> const wanted_;
    std::vector<std::unique_ptr<Partitioned>> sides_;
};

void exchange(Context& context, Load const& load) {
    peers::Gpus const gpus = peers::gpus_of(load);
    ByNccl nccl(load, gpus);
    nccl.run();
    bool const exact = nccl.exact();
    Timing arrived;
    Timing read;
    for (int i = 0; i < 3 * peers::repeats(context); ++i) {
        Turn const took = nccl.run();
        arrived.ms.push_back(took.arrived);
        read.ms.push_back(took.read);
    }
    auto const add = [&](char const* how, Timing& timing) {
        Result result;
        result.with("how", how).with("gpus", load.gpus).with("row_bytes", load.row_bytes());
        result.with("rows", load.rows).with("nccl", nccl.version());
        result.exact = exact;
        peers::report(context, std::move(result), timing, load.bytes());
    };
    add("partition, NCCL", arrived);
    add("partition, NCCL, read", read);
}

void exchange_by_nccl(Context& context) {
    auto const all = u32(connected_gpus(8));
    u64 const bytes = context.payload_bytes() * (context.quick() ? 1 : 2);
    for (u32 count = 2; count <= all; count *= 2) {
        for (u64 const part : {1, 10, 100}) {
            exchange(context, {count, Layout::Rows, bytes / part / 32});
        }
    }
}

Registration const registered{
    "nccl", "exchange between GPUs as programs do it without MGI: partition, NCCL, read",
    exchange_by_nccl};

}  // namespace

std::unique_ptr<Contestant> by_nccl(Load const& load, peers::Gpus const& gpus) {
    return std::make_unique<ByNccl>(load, gpus);
}

}  // namespace mgi::bench
