// The operators on tables in GPU memory, at TPC-H's sizes: 60 million lineitems, 15 million orders (SF 10);
// --large: ten times as many. Keys and values are made on the GPU, results are checked there, row by row.
#include <chrono>
#include <cmath>
#include <string>

#include <mgi/gpu_operators.hpp>

#include "orders.hpp"
#include "registry.hpp"

namespace mgi::bench {
namespace {

using namespace orders;

/// What a group must have.
struct Group {
    unsigned long long sum;
    unsigned long long count;
};

__global__ void sum_plainly(Group* groups, u64 rows, u64 numbers) {
    u64 const step = u64(gridDim.x) * blockDim.x;
    for (u64 i = u64(blockIdx.x) * blockDim.x + threadIdx.x; i < rows; i += step) {
        Group& group = groups[number_of_row(i, numbers)];
        atomicAdd(&group.sum, value_of_row(i));
        atomicAdd(&group.count, 1ull);
    }
}

/// Takes each result away from what must be: all groups are empty in the end.
__global__ void check_groups(Group* groups, u64 numbers, u64 const* keys, u64 const* sums,
                             u64 const* counts, u64 rows, unsigned long long* wrong) {
    u64 const step = u64(gridDim.x) * blockDim.x;
    for (u64 i = u64(blockIdx.x) * blockDim.x + threadIdx.x; i < rows; i += step) {
        u64 const number = keys[i] * kInverse;
        if (number >= numbers || counts[i] == 0) {
            atomicAdd(wrong, 1ull);
            continue;
        }
        atomicAdd(&groups[number].sum, 0ull - sums[i]);
        atomicAdd(&groups[number].count, 0ull - counts[i]);
    }
}

__global__ void find_rests(Group const* groups, u64 numbers, unsigned long long* wrong) {
    u64 const step = u64(gridDim.x) * blockDim.x;
    for (u64 i = u64(blockIdx.x) * blockDim.x + threadIdx.x; i < numbers; i += step) {
        if (groups[i].sum != 0 || groups[i].count != 0) atomicAdd(wrong, 1ull);
    }
}

/// `times`: how often each line is there.
__global__ void check_lines(u64 const* keys, u64 const* lines, u64 const* payloads, u64 rows,
                            u64 all, u64 numbers, u32* times, unsigned long long* wrong) {
    u64 const step = u64(gridDim.x) * blockDim.x;
    for (u64 i = u64(blockIdx.x) * blockDim.x + threadIdx.x; i < rows; i += step) {
        u64 const number = keys[i] * kInverse;
        bool const right = lines[i] < all && number == number_of_row(lines[i], numbers) &&
                           (payloads == nullptr || payloads[i] == payload_of(number)) &&
                           atomicAdd(&times[lines[i]], 1u) == 0;
        if (!right) atomicAdd(wrong, 1ull);
    }
}

struct Sizes {
    u64 lines;
    u64 orders;
};

Sizes sizes_of(Context const& context) {
    u64 const orders = context.quick() ? 1'500'000 : context.large() ? 150'000'000 : 15'000'000;
    return {4 * orders, orders};
}

/// A table of two columns, and its memory.
struct Columns {
    explicit Columns(u64 rows)
        : first(std::make_shared<DeviceArray<u64>>(rows)),
          second(std::make_shared<DeviceArray<u64>>(rows)) {}
    [[nodiscard]] GpuTable table(std::string const& one, std::string const& other) const {
        return gpu_table(
            0, std::int64_t(first->size()),
            {{one, int64(), first->get(), nullptr, 0}, {other, int64(), second->get(), nullptr, 0}},
            first);
    }
    std::shared_ptr<DeviceArray<u64>> first;
    std::shared_ptr<DeviceArray<u64>> second;
};

/// Endpoints of the GPU, and parts for them.
class Endpoints {
public:
    Endpoints(Runtime& runtime, u32 count) : runtime_(runtime) {
        for (u32 e = 0; e < count; ++e) all.push_back(runtime.create_endpoint("cuda:0"));
    }
    ~Endpoints() {
        for (Endpoint const& endpoint : all) runtime_.delete_endpoint(endpoint);
    }
    Endpoints(Endpoints const&) = delete;
    Endpoints& operator=(Endpoints const&) = delete;

    [[nodiscard]] std::vector<GpuTable> parts_of(GpuTable const& table) const {
        std::vector<GpuTable> parts;
        for (std::size_t e = 0; e < all.size(); ++e) {
            std::int64_t const first = table.rows * std::int64_t(e) / std::int64_t(all.size());
            std::int64_t const end = table.rows * std::int64_t(e + 1) / std::int64_t(all.size());
            parts.push_back(table.slice(first, end - first));
        }
        return parts;
    }
    std::vector<Endpoint> all;

private:
    Runtime& runtime_;
};

/// Runs an operator some times; the results of the last run stay.
Timing repeat(std::vector<GpuTable>& results, std::function<std::vector<GpuTable>()> const& work,
              int repeats) {
    Timing timing;
    for (int i = 0; i <= repeats; ++i) {
        results.clear();
        auto const start = std::chrono::steady_clock::now();
        results = work();
        std::chrono::duration<double, std::milli> const took =
            std::chrono::steady_clock::now() - start;
        if (i != 0) timing.ms.push_back(took.count());
    }
    std::sort(timing.ms.begin(), timing.ms.end());
    return timing;
}

u64 const* values(GpuTable const& table, std::size_t column) {
    return static_cast<u64 const*>(table.columns[column].values);
}

/// What all cases say. `least_bytes`: that must be moved, so that `traffic` limits the speed.
void report(Context& context, Result& result, Timing const& timing, u64 lines, u64 payload,
            double least_bytes, bool exact) {
    timing.fill(result, payload);
    result.floor_gbps = context.traffic_gbps() * double(payload) / least_bytes;
    result.figure("ms_best", timing.best_ms());
    result.figure("rows_per_us", double(lines) / timing.best_ms() / 1e3);
    result.exact = exact;
    context.add(result);
}

void group_case(Context& context, Runtime& runtime, Columns const& lines, u64 groups,
                u32 endpoints) {
    Sizes const sizes = sizes_of(context);
    Endpoints const at(runtime, endpoints);
    auto const parts = at.parts_of(lines.table("key", "value"));
    std::vector<GpuTable> results;
    OperatorOptions const options;
    OperatorReport told;
    Timing const timing = repeat(
        results,
        [&] {
            return group_by(
                runtime, at.all, parts, {"key"},
                {{AggregateFunction::Sum, "value", "sum"}, {AggregateFunction::Count, "", "count"}},
                options, &told);
        },
        context.quick() ? 2 : 5);
    cudaStream_t const stream = context.stream();
    DeviceArray<Group> expected(groups);
    DeviceArray<unsigned long long> wrong(1);
    check(cudaMemsetAsync(expected.get(), 0, expected.bytes(), stream), "clear");
    check(cudaMemsetAsync(wrong.get(), 0, 8, stream), "clear");
    sum_plainly<<<1024, 256, 0, stream>>>(expected.get(), sizes.lines, groups);
    for (GpuTable const& result : results) {
        if (result.rows == 0) continue;
        check_groups<<<1024, 256, 0, stream>>>(expected.get(), groups, values(result, 0),
                                               values(result, 1), values(result, 2),
                                               u64(result.rows), wrong.get());
    }
    find_rests<<<1024, 256, 0, stream>>>(expected.get(), groups, wrong.get());
    check_launch("check groups");
    unsigned long long rests = 1;
    check(cudaMemcpyAsync(&rests, wrong.get(), 8, cudaMemcpyDeviceToHost, stream), "read");
    context.wait(stream, "the check of groups");
    // A row is read; of a table that no cache holds, 32 bytes are read and written for it.
    bool const cached = groups * 32 < u64(context.device().l2CacheSize);
    double const row = cached ? 16 : 16 + 64;
    Result result;
    result.with("rows", sizes.lines).with("groups", groups).with("endpoints", endpoints);
    result.figure("rows_sent", double(told.rows));
    report(context, result, timing, sizes.lines, 16 * sizes.lines,
           row * double(sizes.lines) + 24 * double(groups), rests == 0);
}

void group_by_all(Context& context) {
    Sizes const sizes = sizes_of(context);
    RuntimeOptions options;
    options.cpu_devices = 1;
    Runtime runtime = Runtime::local(options);
    Columns const lines(sizes.lines);
    for (u64 const groups : {sizes.orders, u64{4}}) {
        make_lines<<<1024, 256, 0, context.stream()>>>(lines.first->get(), lines.second->get(), 0,
                                                       sizes.lines, groups, false);
        check_launch("make rows");
        context.wait(context.stream(), "rows to be made");
        for (u32 const endpoints : {1u, 4u}) {
            group_case(context, runtime, lines, groups, endpoints);
        }
    }
}

/// Lines numbered by row; whether each is in the results once, with its key and its order's payload.
bool all_there(Context& context, std::vector<GpuTable> const& results, Sizes const& sizes,
               bool payloads) {
    cudaStream_t const stream = context.stream();
    DeviceArray<u32> times(sizes.lines);
    DeviceArray<unsigned long long> wrong(1);
    check(cudaMemsetAsync(times.get(), 0, times.bytes(), stream), "clear");
    check(cudaMemsetAsync(wrong.get(), 0, 8, stream), "clear");
    u64 rows = 0;
    for (GpuTable const& result : results) {
        rows += u64(result.rows);
        if (result.rows == 0) continue;
        check_lines<<<1024, 256, 0, stream>>>(
            values(result, 0), values(result, 1), payloads ? values(result, 2) : nullptr,
            u64(result.rows), sizes.lines, sizes.orders, times.get(), wrong.get());
    }
    check_launch("check rows");
    unsigned long long count = 1;
    check(cudaMemcpyAsync(&count, wrong.get(), 8, cudaMemcpyDeviceToHost, stream), "read");
    context.wait(stream, "the check of rows");
    return count == 0 && rows == sizes.lines;
}

void join_all(Context& context) {
    Sizes const sizes = sizes_of(context);
    RuntimeOptions local;
    local.cpu_devices = 1;
    Runtime runtime = Runtime::local(local);
    Columns const lines(sizes.lines);
    Columns const orders(sizes.orders);
    make_lines<<<1024, 256, 0, context.stream()>>>(lines.first->get(), lines.second->get(), 0,
                                                   sizes.lines, sizes.orders, true);
    make_orders<<<1024, 256, 0, context.stream()>>>(orders.first->get(), orders.second->get(), 0,
                                                    sizes.orders, sizes.orders);
    check_launch("make rows");
    context.wait(context.stream(), "rows to be made");
    OperatorOptions const options;
    for (u32 const endpoints : {1u, 4u}) {
        Endpoints const at(runtime, endpoints);
        auto const left = at.parts_of(lines.table("key", "line"));
        auto const right = at.parts_of(orders.table("id", "payload"));
        JoinSpec const spec{{"key"}, {"id"}, {"key", "line"}, {"payload"}};
        OperatorReport told;
        std::vector<GpuTable> results;
        Timing const timing = repeat(
            results, [&] { return join(runtime, at.all, left, right, spec, options, &told); },
            context.quick() ? 2 : 5);
        // A line is read and written with its order's payload; the table's entry and the payload are 32
        // bytes each that no other row near it reads. An order is read, and its entry written.
        double const least =
            double(sizes.lines) * (16 + 24 + 64) + double(sizes.orders) * (16 + 64);
        Result result;
        result.with("left", sizes.lines).with("right", sizes.orders).with("endpoints", endpoints);
        result.figure("rows_sent", double(told.rows));
        bool const exact = all_there(context, results, sizes, true);
        report(context, result, timing, sizes.lines, 16 * (sizes.lines + sizes.orders), least,
               exact);
    }
}

void exchange_all(Context& context) {
    Sizes const sizes = sizes_of(context);
    RuntimeOptions local;
    local.cpu_devices = 1;
    Runtime runtime = Runtime::local(local);
    Columns const lines(sizes.lines);
    make_lines<<<1024, 256, 0, context.stream()>>>(lines.first->get(), lines.second->get(), 0,
                                                   sizes.lines, sizes.orders, true);
    check_launch("make rows");
    context.wait(context.stream(), "rows to be made");
    OperatorOptions const options;
    for (u32 const endpoints : {4u, 8u}) {
        Endpoints const at(runtime, endpoints);
        auto const parts = at.parts_of(lines.table("key", "line"));
        std::vector<GpuTable> results;
        OperatorReport told;
        Timing const timing = repeat(
            results, [&] { return exchange(runtime, at.all, parts, {"key"}, options, &told); },
            context.quick() ? 2 : 5);
        Result result;
        result.with("rows", sizes.lines).with("endpoints", endpoints);
        result.figure("rows_sent", double(told.rows));
        // Keys are read to count; rows are read, written to segments, read there, and written again.
        report(context, result, timing, sizes.lines, 16 * sizes.lines,
               double(sizes.lines) * (8 + 4 * 16), all_there(context, results, sizes, false));
    }
}

Registration const group_bys{"mgi_group_by", "group-by of tables in GPU memory", group_by_all};
Registration const joins{"mgi_join", "join of tables in GPU memory, materialized", join_all};
Registration const exchanges{"mgi_exchange_tables", "exchange of tables in GPU memory",
                             exchange_all};

}  // namespace
}  // namespace mgi::bench
