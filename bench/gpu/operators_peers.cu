// operators: group-by, join and exchange of tables on several GPUs, an endpoint on each, as large on each as others' words
// say: `gpus=4 lines=60000000 rounds=7 peers=nccl`. Every result is checked, by sums that a row which is lost, doubled, torn
// or in the wrong place changes.
//
// Beside them what a program takes that partitions in two passes, exchanges by NCCL (uniform keys, the same bytes) and runs the
// same local kernels: its exchanges and MGI's operator of one endpoint, each measured in turn and added up.
#include <chrono>
#include <string>

#include <mgi/gpu_operators.hpp>

#include "contest.hpp"
#include "orders.hpp"

namespace mgi::bench {
namespace {

using namespace orders;
using u8 = std::uint8_t;

/// What a call is about.
struct Wanted {
    u32 gpus = 1;
    u64 lines = 60'000'000;  ///< of each GPU
    u32 rounds = 7;
    bool nccl = true;

    [[nodiscard]] u64 orders() const { return lines / 4; }
    [[nodiscard]] u64 all_lines() const { return lines * gpus; }
    [[nodiscard]] u64 all_orders() const { return orders() * gpus; }
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
        } else if (word.starts_with("peers=")) {
            wanted.nccl = value.find("nccl") != std::string::npos;
        } else {
            require(false, "'" + word + "' is no word of operators");
        }
    }
    auto const there = u32(connected_gpus(int(wanted.gpus)));
    require(wanted.gpus != 0 && there == wanted.gpus,
            "only " + std::to_string(there) + " GPUs are here and reach each other's memory");
    require(wanted.lines >= 4 && wanted.all_orders() % kStride != 0,
            "at least 4 lines a GPU, and no multiple of " + std::to_string(4 * kStride));
    return wanted;
}

/// Sums of rows, which do not depend on their order; `wrong` rows are no rows of the table, or not their owner's.
struct Seen {
    unsigned long long rows = 0;
    unsigned long long sum = 0;
    unsigned long long wrong = 0;
    [[nodiscard]] bool operator==(Seen const&) const = default;
};

/// What a grid is told of the result at one GPU.
struct Part {
    u64 const* keys;
    u64 const* values;
    u64 const* thirds;  ///< payloads, counts, or null
    u64 rows;
    u32 gpu;
    u32 gpus;
    u64 all_lines;
    u64 all_orders;
};

__device__ void add(Seen* seen, u64 rows, u64 sum, u64 wrong) {
    atomicAdd(&seen->rows, rows);
    atomicAdd(&seen->sum, sum);
    if (wrong != 0) atomicAdd(&seen->wrong, wrong);
}

__device__ bool is_owner(u64 key, Part const& part) {
    u64 const hash = device::murmur3_mix(key);
    return part.gpus == 1 || device::destination_of_hash(hash, part.gpus) == part.gpu;
}

/// Lines by their numbers, which are their values, with their orders' payloads where there are any.
__global__ void see_lines(Part part, Seen* seen) {
    u64 const step = u64(gridDim.x) * blockDim.x;
    u64 rows = 0, sum = 0, wrong = 0;
    for (u64 i = u64(blockIdx.x) * blockDim.x + threadIdx.x; i < part.rows; i += step) {
        u64 const line = part.values[i];
        u64 const number = part.keys[i] * kInverse;
        bool const right = line < part.all_lines &&
                           number == number_of_row(line, part.all_orders) &&
                           (part.thirds == nullptr || part.thirds[i] == payload_of(number)) &&
                           is_owner(part.keys[i], part);
        wrong += right ? 0 : 1;
        sum += device::murmur3_mix(line + 1);
        ++rows;
    }
    add(seen, rows, sum, wrong);
}

/// Groups, weighed by their keys: so the sums and counts of each group are in it by themselves.
__global__ void see_groups(Part part, Seen* seen) {
    u64 const step = u64(gridDim.x) * blockDim.x;
    u64 rows = 0, sum = 0, wrong = 0;
    for (u64 i = u64(blockIdx.x) * blockDim.x + threadIdx.x; i < part.rows; i += step) {
        u64 const number = part.keys[i] * kInverse;
        sum += device::murmur3_mix(number) * (part.values[i] + (part.thirds[i] << 40));
        wrong += number < part.all_orders && is_owner(part.keys[i], part) ? 0 : 1;
        ++rows;
    }
    add(seen, rows, sum, wrong);
}

/// What both must be, of the lines from `first` on. `there`: by order, set for those that have a line.
__global__ void expect_rows(u64 first, u64 lines, u64 all_orders, u8* there, Seen* in_lines,
                            Seen* in_groups) {
    u64 const step = u64(gridDim.x) * blockDim.x;
    u64 rows = 0, by_line = 0, by_group = 0;
    for (u64 i = u64(blockIdx.x) * blockDim.x + threadIdx.x; i < lines; i += step) {
        u64 const line = first + i;
        u64 const number = number_of_row(line, all_orders);
        by_line += device::murmur3_mix(line + 1);
        by_group += device::murmur3_mix(number) * (value_of_row(line) + (u64(1) << 40));
        there[number] = 1;
        ++rows;
    }
    add(in_lines, rows, by_line, 0);
    add(in_groups, 0, by_group, 0);
}

__global__ void count_groups(u8 const* there, u64 all_orders, Seen* in_groups) {
    u64 const step = u64(gridDim.x) * blockDim.x;
    u64 rows = 0;
    for (u64 i = u64(blockIdx.x) * blockDim.x + threadIdx.x; i < all_orders; i += step) {
        rows += there[i];
    }
    add(in_groups, rows, 0, 0);
}

/// A table of two columns on a GPU, and its memory.
struct Two {
    Two(u32 on, u64 rows) : gpu(on), first(rows), second(rows) {}
    [[nodiscard]] GpuTable table(std::string const& one, std::string const& other) const {
        return gpu_table(
            int(gpu), std::int64_t(first.size()),
            {{one, int64(), first.get(), nullptr, 0}, {other, int64(), second.get(), nullptr, 0}},
            nullptr);
    }
    u32 gpu;
    DeviceArray<u64> first;
    DeviceArray<u64> second;
};

/// All GPUs' tables, and what must come of them.
class Tables {
public:
    explicit Tables(Wanted const& wanted) : wanted_(wanted) {
        for (u32 g = 0; g < wanted.gpus; ++g) {
            On const on{int(g)};
            lines_.push_back(std::make_unique<Two>(g, wanted.lines));
            values_.push_back(std::make_unique<Two>(g, wanted.lines));
            orders_.push_back(std::make_unique<Two>(g, wanted.orders()));
            make_lines<<<1024, 256>>>(lines_[g]->first.get(), lines_[g]->second.get(),
                                      g * wanted.lines, wanted.lines, wanted.all_orders(), true);
            make_lines<<<1024, 256>>>(values_[g]->first.get(), values_[g]->second.get(),
                                      g * wanted.lines, wanted.lines, wanted.all_orders(), false);
            make_orders<<<1024, 256>>>(orders_[g]->first.get(), orders_[g]->second.get(),
                                       g * wanted.orders(), wanted.orders(), wanted.all_orders());
            check_launch("make rows");
            check(cudaDeviceSynchronize(), "make rows");
        }
        DeviceArray<u8> there(wanted.all_orders());
        DeviceArray<Seen> seen(2);
        check(cudaMemset(there.get(), 0, there.bytes()), "clear");
        check(cudaMemset(seen.get(), 0, seen.bytes()), "clear");
        expect_rows<<<1024, 256>>>(0, wanted.all_lines(), wanted.all_orders(), there.get(),
                                   seen.get(), seen.get() + 1);
        count_groups<<<1024, 256>>>(there.get(), wanted.all_orders(), seen.get() + 1);
        Seen both[2];
        check(cudaMemcpy(both, seen.get(), sizeof(both), cudaMemcpyDeviceToHost), "read");
        in_lines_ = both[0];
        in_groups_ = both[1];
    }

    [[nodiscard]] std::vector<GpuTable> lines() const { return parts(lines_, "key", "line"); }
    [[nodiscard]] std::vector<GpuTable> values() const { return parts(values_, "key", "value"); }
    [[nodiscard]] std::vector<GpuTable> orders() const { return parts(orders_, "id", "payload"); }

    [[nodiscard]] bool are_lines(std::vector<GpuTable> const& results) const {
        return seen_in(results, see_lines) == in_lines_;
    }
    [[nodiscard]] bool are_groups(std::vector<GpuTable> const& results) const {
        return seen_in(results, see_groups) == in_groups_;
    }

private:
    using All = std::vector<std::unique_ptr<Two>>;
    static std::vector<GpuTable> parts(All const& all, std::string const& one,
                                       std::string const& other) {
        std::vector<GpuTable> parts;
        for (auto const& two : all) parts.push_back(two->table(one, other));
        return parts;
    }
    static u64 const* values_of(GpuTable const& table, std::size_t column) {
        if (column >= table.columns.size()) return nullptr;
        return static_cast<u64 const*>(table.columns[column].values);
    }
    [[nodiscard]] Seen seen_in(std::vector<GpuTable> const& results,
                               void (*look)(Part, Seen*)) const {
        Seen all;
        for (u32 g = 0; g < results.size(); ++g) {
            On const on{int(g)};
            DeviceArray<Seen> seen(1);
            check(cudaMemset(seen.get(), 0, sizeof(Seen)), "clear");
            Part const part{values_of(results[g], 0),
                            values_of(results[g], 1),
                            values_of(results[g], 2),
                            u64(results[g].rows),
                            g,
                            wanted_.gpus,
                            wanted_.all_lines(),
                            wanted_.all_orders()};
            look<<<1024, 256>>>(part, seen.get());
            check_launch("look at rows");
            Seen mine;
            check(cudaMemcpy(&mine, seen.get(), sizeof(Seen), cudaMemcpyDeviceToHost), "read");
            all.rows += mine.rows;
            all.sum += mine.sum;
            all.wrong += mine.wrong;
        }
        return all;
    }

    Wanted wanted_;
    All lines_;
    All values_;
    All orders_;
    Seen in_lines_;
    Seen in_groups_;
};

double ms_since(std::chrono::steady_clock::time_point start) {
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
        .count();
}

using Work = std::function<std::vector<GpuTable>()>;

/// One call after another; the results of the last one stay.
Timing repeat(Work const& work, u32 rounds, std::vector<GpuTable>& results) {
    Timing timing;
    for (u32 i = 0; i <= rounds; ++i) {
        results.clear();
        auto const start = std::chrono::steady_clock::now();
        results = work();
        if (i != 0) timing.ms.push_back(ms_since(start));
    }
    std::sort(timing.ms.begin(), timing.ms.end());
    return timing;
}

/// Milliseconds of partition and NCCL, without reading, for so many rows of two words a GPU; 0 where there is no NCCL.
double nccl_ms(Wanted const& wanted, u64 rows) {
    if (!wanted.nccl || wanted.gpus < 2) return 0;
    Load load;
    load.gpus = wanted.gpus;
    load.layout = Layout::Columns;
    load.words = 2;
    load.rows = rows;
    try {
        peers::Gpus const gpus = peers::gpus_of(load);
        auto const nccl = by_nccl(load, gpus);
        (void)nccl->run();
        std::vector<double> ms;
        for (u32 i = 0; i < wanted.rounds; ++i) ms.push_back(nccl->run().arrived);
        std::sort(ms.begin(), ms.end());
        return ms[ms.size() / 2];
    } catch (std::exception const& error) {
        std::fprintf(stderr, "no figure of NCCL: %s\n", error.what());
        return 0;
    }
}

/// `peer_ms`: 0 where there is none.
void report(Context& context, Wanted const& wanted, std::string const& what, Timing const& timing,
            u64 payload, bool exact, double peer_ms, OperatorReport const& told) {
    Result result;
    timing.fill(result, payload);
    result.with("operator", what).with("gpus", wanted.gpus);
    result.with("lines_per_gpu", wanted.lines);
    result.figure("ms_median", timing.median_ms());
    result.figure("ms_best", timing.best_ms());
    if (peer_ms != 0) result.figure("ms_nccl", peer_ms);
    for (OperatorPhase const& phase : told.phases) {
        result.figure("ms_" + phase.name, phase.seconds * 1e3);
    }
    result.exact = exact;
    context.add(result);
}

void operators_on_peers(Context& context) {
    Wanted const wanted = wanted_of(context);
    Tables const tables(wanted);
    RuntimeOptions local;
    local.cpu_devices = 1;
    Runtime runtime = Runtime::local(local);
    std::vector<Endpoint> all;
    for (u32 g = 0; g < wanted.gpus; ++g) {
        all.push_back(runtime.create_endpoint("cuda:" + std::to_string(g)));
    }
    std::vector<Endpoint> const one{all[0]};
    auto const lines = tables.lines();
    auto const values = tables.values();
    auto const orders = tables.orders();
    JoinSpec const spec{{"key"}, {"id"}, {"key", "line"}, {"payload"}};
    std::vector<Aggregate> const sums{{AggregateFunction::Sum, "value", "sum"},
                                      {AggregateFunction::Count, "", "count"}};
    double const lines_by_nccl = nccl_ms(wanted, wanted.lines);
    double const orders_by_nccl = nccl_ms(wanted, wanted.orders());
    std::vector<GpuTable> results;
    OperatorReport told;  // by the last call
    // Of one GPU's share of the rows, once it has them.
    auto const alone = [&](auto const& prepare) {
        results.clear();
        double const ms = repeat(prepare(), wanted.rounds, results).median_ms();
        results.clear();
        return lines_by_nccl + ms;
    };

    if (wanted.gpus > 1) {
        Timing const moved =
            repeat([&] { return exchange(runtime, all, lines, {"key"}, {}, &told); }, wanted.rounds,
                   results);
        report(context, wanted, "exchange", moved, 16 * wanted.all_lines(),
               tables.are_lines(results), lines_by_nccl, told);
    }
    Timing const joined = repeat([&] { return join(runtime, all, lines, orders, spec, {}, &told); },
                                 wanted.rounds, results);
    bool const right = tables.are_lines(results);
    double const joined_alone =
        lines_by_nccl == 0
            ? 0
            : orders_by_nccl + alone([&] {
                  GpuTable const left = exchange(runtime, all, lines, {"key"})[0];
                  GpuTable const right_side = exchange(runtime, all, orders, {"id"})[0];
                  return [&, left, right_side] {
                      return join(runtime, one, {left}, {right_side}, spec);
                  };
              });
    report(context, wanted, "join", joined, 16 * (wanted.all_lines() + wanted.all_orders()), right,
           joined_alone, told);
    Timing const grouped =
        repeat([&] { return group_by(runtime, all, values, {"key"}, sums, {}, &told); },
               wanted.rounds, results);
    bool const summed = tables.are_groups(results);
    double const grouped_alone = lines_by_nccl == 0 ? 0 : alone([&] {
        GpuTable const part = exchange(runtime, all, values, {"key"})[0];
        return [&, part] { return group_by(runtime, one, {part}, {"key"}, sums); };
    });
    report(context, wanted, "group_by", grouped, 16 * wanted.all_lines(), summed, grouped_alone,
           told);
}

Registration const registered{
    "operators", "group-by, join and exchange of tables on several GPUs, beside NCCL's exchange",
    operators_on_peers};

}  // namespace
}  // namespace mgi::bench
