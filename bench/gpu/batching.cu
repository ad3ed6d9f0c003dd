// Batching (the paper's Figure 1b): what copies of small and large segments reach, between GPU and
// pinned host memory, within the GPU, and to another GPU. Copies are issued one after the other on one
// stream; a share is of what 64 MiB segments reach, within the GPU of half its traffic.
#include <algorithm>
#include <vector>

#include "peer.hpp"
#include "registry.hpp"

namespace mgi::bench {
namespace {

constexpr std::uint64_t kLargest = 64 << 20;
constexpr int kMostCopies = 1000;  // fewer than a launch queue holds

struct Way {
    char const* name;
    cudaMemcpyKind kind;
    char* to;
    char const* from;
    double floor_gbps;  ///< 0: what the largest segments reach
};

void measure(Context& context, Way const& way) {
    std::uint64_t const total = context.quick() ? kLargest : 4 * kLargest;
    std::vector<Result> results;
    double most = way.floor_gbps;
    for (std::uint64_t bytes = 4096; bytes <= kLargest; bytes *= 4) {
        int const copies = int(std::min<std::uint64_t>(total / bytes, kMostCopies));
        std::uint64_t const places = kLargest / bytes;
        auto const timing = context.time([&](cudaStream_t stream) {
            for (int i = 0; i < copies; ++i) {
                std::uint64_t const at = std::uint64_t(i) % places * bytes;
                check(cudaMemcpyAsync(way.to + at, way.from + at, bytes, way.kind, stream),
                      "copy a segment");
            }
        });
        Result result;
        result.with("way", way.name).with("segment_bytes", bytes).with("copies", copies);
        timing.fill(result, bytes * std::uint64_t(copies));
        result.figure("us_per_copy", timing.best_ms() * 1e3 / copies);
        if (way.floor_gbps == 0) most = std::max(most, *result.best_gbps);
        results.push_back(result);
    }
    for (Result& result : results) {
        result.floor_gbps = most;
        context.add(result);
    }
}

void batching(Context& context) {
    double const floor = context.partition_floor_gbps();
    bool const peer = connected_gpus(2) == 2;
    DeviceArray<char> const here(kLargest);
    DeviceArray<char> const there(kLargest);
    PinnedArray<char> const host(kLargest);
    auto const beside = peer ? peer_array<char>(kLargest) : DeviceArray<char>();
    check(cudaMemsetAsync(here.get(), 1, kLargest, context.stream()), "fill the source");
    measure(context, {"gpu to host", cudaMemcpyDeviceToHost, host.get(), here.get(), 0});
    measure(context, {"host to gpu", cudaMemcpyHostToDevice, here.get(), host.get(), 0});
    measure(context, {"within the gpu", cudaMemcpyDeviceToDevice, there.get(), here.get(), floor});
    if (peer) measure(context, {"gpu to gpu", cudaMemcpyDefault, beside.get(), here.get(), 0});
}

Registration const registered{"batching", "copies by segment size (Figure 1b)", batching};

}  // namespace
}  // namespace mgi::bench
