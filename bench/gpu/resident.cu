// Copies beside resident kernels: what they reach while nothing runs, one block, all multiprocessors
// but some, and all of them are held by a kernel that waits. Waits are bounded on both sides; a copy
// that does not end while the kernel is there is reported as blocked, which is a finding, no error.
#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "registry.hpp"
#include "sync.hpp"

namespace mgi::bench {
namespace {

constexpr std::uint64_t kKernelLimitNs = 5'000'000'000;
constexpr double kCopyLimitSeconds = 1;
constexpr std::uint64_t kMemory = 64 << 20;

/// Holds a multiprocessor a block until told to stop.
__global__ void reside(Flag* stop, Flag* here) {
    if (threadIdx.x == 0) {
        set_flag(here[blockIdx.x], 1);
        std::uint64_t const start = gpu_ns();
        while (get_flag(*stop) == 0 && gpu_ns() - start < kKernelLimitNs) __nanosleep(500);
    }
    __syncthreads();
}

struct Way {
    char const* name;
    cudaMemcpyKind kind;
    char* to;
    char const* from;
};

class Beside {
public:
    explicit Beside(Context& context)
        : context_(context),
          here_(kMemory),
          there_(kMemory),
          host_(kMemory),
          flags_(std::uint64_t(context.multiprocessors()) + 1),
          done_(cudaEventDisableTiming) {
        // One block fills a multiprocessor: most of its shared memory.
        shared_ = int(context.device().sharedMemPerBlockOptin) - 1024;
        check(cudaFuncSetAttribute(reside, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_),
              "shared memory of a block");
        check(cudaMemsetAsync(here_.get(), 1, kMemory, context.stream()), "fill the source");
        context.wait(context.stream(), "fill the source");
    }

    void measure(char const* resident, int blocks) {
        for (Way const& way :
             {Way{"gpu to host", cudaMemcpyDeviceToHost, host_.get(), here_.get()},
              Way{"host to gpu", cudaMemcpyHostToDevice, here_.get(), host_.get()},
              Way{"within the gpu", cudaMemcpyDeviceToDevice, there_.get(), here_.get()}}) {
            for (std::uint64_t const bytes : {64ULL << 20, 4ULL << 20, 1ULL << 20}) {
                measure(resident, blocks, way, bytes);
            }
        }
    }

private:
    void start(int blocks) {
        for (std::uint64_t i = 0; i < flags_.size(); ++i) set_flag(flags_[i], 0);
        if (blocks == 0) return;
        reside<<<unsigned(blocks), 1024, unsigned(shared_), kernel_.get()>>>(flags_.get(),
                                                                             flags_.get() + 1);
        check_launch("resident kernel");
        bool up = true;
        for (int b = 0; b < blocks; ++b) up = up && await_flag(flags_[std::uint64_t(b) + 1], 1, 4);
        if (!up) stop();
        require(up, "the resident kernel's blocks did not all start");
    }
    void stop() {
        set_flag(flags_[0], 1);
        context_.wait(kernel_.get(), "the resident kernel");
    }
    /// Seconds of copies, or none if they do not end.
    std::optional<double> copy(Way const& way, std::uint64_t bytes, int copies) {
        auto const begin = std::chrono::steady_clock::now();
        for (int i = 0; i < copies; ++i) {
            std::uint64_t const at = std::uint64_t(i) * bytes % kMemory;
            check(cudaMemcpyAsync(way.to + at, way.from + at, bytes, way.kind, copies_.get()),
                  "copy a segment");
        }
        check(cudaEventRecord(done_.get(), copies_.get()), "record the end");
        for (;;) {
            cudaError_t const state = cudaEventQuery(done_.get());
            std::chrono::duration<double> const took = std::chrono::steady_clock::now() - begin;
            if (state == cudaSuccess) return took.count();
            if (state != cudaErrorNotReady) check(state, "copy beside a resident kernel");
            cudaGetLastError();
            if (took.count() > kCopyLimitSeconds) return {};
        }
    }
    void measure(char const* resident, int blocks, Way const& way, std::uint64_t bytes) {
        int const copies = bytes == kMemory ? 8 : 64;
        std::vector<double> seconds;
        bool blocked = false;
        start(blocks);
        try {
            for (int run = 0; run < 4 && !blocked; ++run) {
                auto const took = copy(way, bytes, copies);
                blocked = !took;
                if (took && run > 0) seconds.push_back(*took);
            }
        } catch (...) {
            stop();
            throw;
        }
        stop();
        context_.wait(copies_.get(), "copies after the resident kernel");
        std::sort(seconds.begin(), seconds.end());
        Result result;
        result.with("resident", resident).with("blocks", blocks).with("way", way.name);
        result.with("segment_bytes", bytes).with("blocked", blocked);
        if (!blocked) {
            double const payload = double(bytes) * copies / 1e9;
            result.best_gbps = payload / seconds.front();
            result.median_gbps = payload / seconds[seconds.size() / 2];
        }
        double& floor = floors_[way.name];
        if (floor == 0) {
            floor = way.kind == cudaMemcpyDeviceToDevice ? context_.partition_floor_gbps()
                                                         : result.best_gbps.value_or(0);
        }
        result.floor_gbps = floor;
        context_.add(result);
    }

    Context& context_;
    DeviceArray<char> here_;
    DeviceArray<char> there_;
    PinnedArray<char> host_;
    PinnedArray<Flag> flags_;  ///< stop, then one a block
    Event done_;
    Stream kernel_;
    Stream copies_;
    std::map<std::string, double> floors_;  ///< by way; over the bus, its first, large copies
    int shared_ = 0;
};

void resident(Context& context) {
    context.traffic_gbps();
    Beside beside(context);
    int const all = context.multiprocessors();
    beside.measure("nothing", 0);
    beside.measure("one block", 1);
    beside.measure("all multiprocessors but 8", std::max(1, all - 8));
    beside.measure("all multiprocessors", all);
}

Registration const registered{"resident", "copies beside resident kernels", resident};

}  // namespace
}  // namespace mgi::bench
