#include "partition.hpp"

#include <exception>

namespace mgi::bench {
namespace {

std::vector<u64> bounds_of(std::vector<Sums> const& sums) {
    std::vector<u64> begin{0};
    for (Sums const& sum : sums) begin.push_back(begin.back() + sum.rows);
    return begin;
}

/// Sets the 32-bit bounds in GPU memory, or reads them.
void put_bounds(std::vector<u64> const& begin, DeviceArray<u32> const& to, cudaStream_t stream) {
    std::vector<u32> const narrow(begin.begin(), begin.end());
    check(
        cudaMemcpyAsync(to.get(), narrow.data(), narrow.size() * 4, cudaMemcpyHostToDevice, stream),
        "set bounds");
    check(cudaStreamSynchronize(stream), "set bounds");
}

std::vector<u64> get_bounds(DeviceArray<u32> const& from, u32 destinations, cudaStream_t stream) {
    std::vector<u32> narrow(destinations + 1);
    check(cudaMemcpyAsync(narrow.data(), from.get(), narrow.size() * 4, cudaMemcpyDeviceToHost,
                          stream),
          "fetch bounds");
    check(cudaStreamSynchronize(stream), "fetch bounds");
    return {narrow.begin(), narrow.end()};
}

void run_case(Context& context, PartitionPeer const& peer, PartitionCase const& one,
              DeviceArray<u32> const& begin, std::vector<Sums> const& expected) {
    put_bounds(bounds_of(expected), begin, context.stream());
    PartitionRun const run = peer(one);
    if (!run) return;
    // What the last peer or case left must not pass for this one's output.
    auto const clear = [&](cudaStream_t stream) {
        check(cudaMemsetAsync(one.output.column[0], 0xff, one.rows() * u64(8), stream),
              "clear keys");
    };
    Timing const timing = context.time(run, clear);
    Result result;
    result.with("layout", name_of(one.layout)).with("row_bytes", one.input.words * 8);
    result.with("destinations", one.destinations).with("keys", name_of(one.keys));
    result.with("rows", one.input.rows);
    timing.fill(result, one.input.bytes());
    result.floor_gbps = context.partition_floor_gbps();
    result.exact = is_partitioned(one.output, get_bounds(begin, one.destinations, context.stream()),
                                  expected, context.stream());
    context.add(result);
}

}  // namespace

void run_partition_cases(Context& context, PartitionPeer const& peer,
                         std::vector<u32> const& fan_outs) {
    context.traffic_gbps();  // before this benchmark takes its memory
    DeviceArray<u32> const begin(kMaxDestinations + 1);
    for (Layout const layout : {Layout::Rows, Layout::Columns}) {
        for (u32 const words : {2U, 4U, 8U}) {
            u64 const rows = context.payload_bytes() / (words * 8);
            TableBuffer const input(layout, rows, words);
            TableBuffer const output(layout, rows, words);
            for (Keys const keys : {Keys::Uniform, Keys::Zipf}) {
                if (context.quick() && keys == Keys::Zipf && words != 4) continue;
                generate(input.table(), keys, context.stream());
                for (u32 const destinations : fan_outs) {
                    if (context.quick() && destinations == 16) continue;
                    auto const expected = sums_of(input.table(), destinations, context.stream());
                    run_case(
                        context, peer,
                        {layout, keys, destinations, input.table(), output.table(), begin.get()},
                        begin, expected);
                }
            }
        }
    }
}

}  // namespace mgi::bench
