// Floors: cudaMemcpyAsync and a plain copy kernel within the GPU's memory. Every other figure is also
// given as a share of what these allow.
#include "floors.hpp"

#include <algorithm>

#include "registry.hpp"

namespace mgi::bench {
namespace {

/// 16 bytes a thread and step, four in flight.
__global__ void __launch_bounds__(512) copy_vectors(uint4 const* from, uint4* to, std::uint64_t n) {
    std::uint64_t const tile = 4 * blockDim.x;
    for (std::uint64_t at = blockIdx.x * tile; at < n; at += gridDim.x * tile) {
        uint4 held[4];
        for (unsigned k = 0; k < 4; ++k) {
            std::uint64_t const i = at + k * blockDim.x + threadIdx.x;
            if (i < n) held[k] = from[i];
        }
        for (unsigned k = 0; k < 4; ++k) {
            std::uint64_t const i = at + k * blockDim.x + threadIdx.x;
            if (i < n) to[i] = held[k];
        }
    }
}

/// Traffic of a copy as a result; returns the best.
double report(Context& context, char const* how, Timing const& timing, std::uint64_t bytes,
              bool print) {
    double const best = 2 * double(bytes) / timing.best_ms() / 1e6;
    if (print) {
        Result result;
        result.with("how", how).with("bytes", bytes);
        result.figure("traffic_best_gbps", best);
        result.figure("traffic_median_gbps", 2 * double(bytes) / timing.median_ms() / 1e6);
        context.add(result);
    }
    return best;
}

double measure(Context& context, bool print) {
    std::uint64_t const bytes =
        std::max<std::uint64_t>(context.payload_bytes(2), context.quick() ? 0 : 1ULL << 30);
    DeviceArray<uint4> from(bytes / 16);
    DeviceArray<uint4> to(bytes / 16);
    check(cudaMemsetAsync(from.get(), 1, bytes, context.stream()), "fill the source");
    auto const copied = context.time([&](cudaStream_t stream) {
        check(cudaMemcpyAsync(to.get(), from.get(), bytes, cudaMemcpyDeviceToDevice, stream),
              "copy within the GPU");
    });
    double best = report(context, "cudaMemcpyAsync", copied, bytes, print);
    // A grid of all tiles lets the hardware balance them; the loop is for grids that are smaller.
    for (bool const persistent : {true, false}) {
        auto const blocks = persistent ? unsigned(context.multiprocessors() * 4)
                                       : unsigned((bytes / 16 + 2047) / 2048);
        auto const stored = context.time([&](cudaStream_t stream) {
            copy_vectors<<<blocks, 512, 0, stream>>>(from.get(), to.get(), bytes / 16);
        });
        char const* const how = persistent ? "kernel, persistent blocks" : "kernel, block a tile";
        best = std::max(best, report(context, how, stored, bytes, print));
    }
    return best;
}

void floors(Context& context) {
    Result gpu;
    auto const& device = context.device();
    gpu.with("how", "device").with("gpu", std::string(device.name));
    gpu.with("multiprocessors", device.multiProcessorCount);
    gpu.with("l2_bytes", device.l2CacheSize).with("copy_engines", device.asyncEngineCount);
    int gpus = 0;
    check(cudaGetDeviceCount(&gpus), "count GPUs");
    gpu.with("gpus", gpus);
    context.add(gpu);
    double const traffic = measure(context, true);
    context.set_traffic_gbps(traffic);
    Result result;
    result.with("how", "floor");
    result.figure("traffic_gbps", traffic);
    result.figure("partition_floor_gbps", traffic / 2);
    result.figure("exchange_floor_gbps", traffic / 3);
    context.add(result);
}

Registration const registered{"floors", "copies within the GPU's memory", floors};

}  // namespace

double measure_traffic(Context& context) {
    return measure(context, false);
}

}  // namespace mgi::bench
