// Transfer primitives (the paper's Figure 15): the host's copies against stores and loads of a kernel,
// by buffer size and by the blocks of the kernel, one a multiprocessor. To pinned host memory and, where
// there are two GPUs with access to each other, to the other. A share is of the largest copy.
#include <algorithm>
#include <vector>

#include "peer.hpp"
#include "registry.hpp"

namespace mgi::bench {
namespace {

constexpr std::uint64_t kLargest = 64 << 20;
constexpr unsigned kThreads = 1024;

/// Eight vectors a thread in flight: the way over a bus is long.
__global__ void __launch_bounds__(kThreads)
    move_vectors(uint4 const* from, uint4* to, std::uint64_t n) {
    constexpr unsigned kInFlight = 8;
    std::uint64_t const tile = kInFlight * kThreads;
    for (std::uint64_t at = blockIdx.x * tile; at < n; at += gridDim.x * tile) {
        uint4 held[kInFlight];
        for (unsigned k = 0; k < kInFlight; ++k) {
            std::uint64_t const i = at + k * kThreads + threadIdx.x;
            if (i < n) held[k] = from[i];
        }
        for (unsigned k = 0; k < kInFlight; ++k) {
            std::uint64_t const i = at + k * kThreads + threadIdx.x;
            if (i < n) to[i] = held[k];
        }
    }
}

struct Way {
    char const* name;
    char const* kernel;  ///< what its kernel does across the bus
    char* to;
    char const* from;
};

void measure(Context& context, Way const& way) {
    // Several transfers a run, so that launching does not count for more than the paper's.
    constexpr int kTransfers = 8;
    std::vector<Result> results;
    double most = 0;
    auto const add = [&](char const* how, int blocks, std::uint64_t bytes,
                         std::function<void(cudaStream_t)> const& transfer) {
        auto const timing = context.time([&](cudaStream_t stream) {
            for (int i = 0; i < kTransfers; ++i) transfer(stream);
        });
        Result result;
        result.with("way", way.name).with("primitive", how).with("blocks", blocks);
        result.with("buffer_bytes", bytes);
        timing.fill(result, kTransfers * bytes);
        if (blocks == 0) most = std::max(most, *result.best_gbps);
        results.push_back(result);
    };
    for (std::uint64_t const bytes : {1ULL << 20, 8ULL << 20, kLargest + 0ULL}) {
        add("memcpy", 0, bytes, [&](cudaStream_t stream) {
            check(cudaMemcpyAsync(way.to, way.from, bytes, cudaMemcpyDefault, stream), "copy");
        });
        for (int const asked : {1, 2, 4, 8, 16, 33, 66, 0}) {
            int const blocks = asked == 0 ? context.multiprocessors() : asked;
            if (context.quick() && asked % 8 != 0) continue;
            add(way.kernel, blocks, bytes, [&](cudaStream_t stream) {
                move_vectors<<<unsigned(blocks), kThreads, 0, stream>>>(
                    reinterpret_cast<uint4 const*>(way.from), reinterpret_cast<uint4*>(way.to),
                    bytes / 16);
            });
        }
    }
    for (Result& result : results) {
        result.floor_gbps = most;
        context.add(result);
    }
}

void primitives(Context& context) {
    bool const peer = connected_gpus(2) == 2;
    DeviceArray<char> const here(kLargest);
    PinnedArray<char> const host(kLargest);
    auto const beside = peer ? peer_array<char>(kLargest) : DeviceArray<char>();
    check(cudaMemsetAsync(here.get(), 1, kLargest, context.stream()), "fill the source");
    measure(context, {"gpu to host", "store", host.get(), here.get()});
    measure(context, {"host to gpu", "load", here.get(), host.get()});
    if (peer) {
        measure(context, {"gpu to gpu", "store", beside.get(), here.get()});
        measure(context, {"gpu from gpu", "load", here.get(), beside.get()});
    }
}

Registration const registered{"primitives", "copies against loads and stores (Figure 15)",
                              primitives};

}  // namespace
}  // namespace mgi::bench
