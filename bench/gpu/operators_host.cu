// Operators at a GPU over tables in the host's memory: 60 million lines and 15 million orders, two columns of 8 bytes each, in one
// round and in several (a limit on the GPU's memory). GB/s are bytes of the inputs over the time of the whole call, results on the
// host included; the limit is the link's speed for inputs and results.
#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <mgi/gpu_operators.hpp>

#include "registry.hpp"
#include "result.hpp"

namespace mgi::bench {
namespace {

using u64 = std::uint64_t;
using i64 = std::int64_t;
using Clock = std::chrono::steady_clock;

/// Keys that lie anywhere, and what is with them.
struct HostTwo {
    HostTwo(std::string const& key, std::string const& value, u64 rows, u64 numbers)
        : memory(std::make_shared<std::vector<i64>>(2 * rows)) {
        for (u64 i = 0; i < rows; ++i) {
            u64 const number = numbers == rows ? i : device::murmur3_mix(i + 1) % numbers;
            (*memory)[i] = i64(device::murmur3_mix(number));
            (*memory)[rows + i] = i64(i);
        }
        RecordBatch batch;
        batch.schema = Schema{{key, int64()}, {value, int64()}};
        batch.rows = i64(rows);
        batch.columns.resize(2);
        batch.columns[0].values = memory->data();
        batch.columns[1].values = memory->data() + rows;
        batch.owner = memory;
        table.schema = batch.schema;
        table.batches = {batch};
    }
    std::shared_ptr<std::vector<i64>> memory;
    Table table;
};

void host_tables(Context& context) {
    u64 const orders_count = context.quick() ? 1'500'000 : 15'000'000;
    u64 const lines_count = 4 * orders_count;
    HostTwo const lines("key", "line", lines_count, orders_count);
    HostTwo const orders("id", "payload", orders_count, orders_count);
    Runtime runtime = Runtime::local();
    std::vector<Endpoint> const at{runtime.create_endpoint("cuda:0")};
    // Rows of a result; `counts`: those that its last column says it was made of.
    auto const rows_in = [](Table const& table, bool counts) {
        if (!counts) return u64(table.rows());
        u64 rows = 0;
        for (RecordBatch const& batch : table.batches) {
            i64 const* const of = batch.values<i64>(batch.columns.size() - 1);
            for (i64 i = 0; i < batch.rows; ++i) rows += u64(of[i]);
        }
        return rows;
    };
    auto const measure =
        [&](std::string const& what, u64 limit, u64 bytes, bool counts,
            std::function<std::vector<Table>(OperatorOptions const&, OperatorReport*)> const&
                work) {
            OperatorOptions options;
            options.receive_limit = limit;
            OperatorReport report;
            Timing timing;
            bool exact = true;
            for (int i = 0; i != (context.quick() ? 3 : 5); ++i) {
                auto const start = Clock::now();
                auto const results = work(options, &report);
                std::chrono::duration<double, std::milli> const took = Clock::now() - start;
                exact = exact && rows_in(results[0], counts) == lines_count;
                if (i != 0) timing.ms.push_back(took.count());
            }
            std::sort(timing.ms.begin(), timing.ms.end());
            Result result;
            result.with("what", what).with("rounds", report.rounds);
            timing.fill(result, bytes);
            result.figure("ms_median", timing.median_ms());
            for (OperatorPhase const& phase : report.phases) {
                result.figure("ms_" + phase.name, phase.seconds * 1e3);
            }
            result.exact = exact;
            context.add(result);
        };
    u64 const both = 16 * (lines_count + orders_count);
    for (u64 const limit : {u64{0}, 4 * both}) {
        measure("join", limit, both, false, [&](auto const& options, auto* report) {
            JoinSpec const spec{{"key"}, {"id"}, {"key", "line"}, {"payload"}};
            return join_on_gpus(runtime, at, {lines.table}, {orders.table}, spec, options, report);
        });
        measure("group_by", limit, 16 * lines_count, true, [&](auto const& options, auto* report) {
            return group_by_on_gpus(
                runtime, at, {lines.table}, {"key"},
                {{AggregateFunction::Sum, "line", "sum"}, {AggregateFunction::Count, "", "count"}},
                options, report);
        });
    }
}

Registration const registered{"mgi_host_tables",
                              "operators at a GPU over tables in the host's memory", host_tables};

}  // namespace
}  // namespace mgi::bench
