// Pipelining (the paper's Figure 1a): a kernel makes segments and the host copies them elsewhere; each
// as soon as its flag says that it is complete, against all of them once the kernel has ended. The
// kernel's work is set so that making the data takes about as long as copying it. To pinned host memory
// and, where there is one, to a second GPU. A share is of the copy alone.
#include <algorithm>
#include <cmath>
#include <vector>

#include "data.hpp"
#include "peer.hpp"
#include "registry.hpp"
#include "sync.hpp"

namespace mgi::bench {
namespace {

constexpr u64 kSegmentBytes = 4 << 20;
constexpr u64 kSegmentWords = kSegmentBytes / 8;
constexpr u32 kThreads = 256;
constexpr u32 kChunks = 64;                                      // blocks that make a segment
constexpr u32 kWords = u32(kSegmentWords / kChunks / kThreads);  // of a thread
constexpr double kLimitSeconds = 10;

/// The word at an index, `rounds` of work away from it.
MGI_HD inline u64 made(u64 index, u32 rounds) {
    u64 word = index + 1;
    for (u32 i = 0; i < rounds; ++i) word = device::murmur3_mix(word + i);
    return word;
}

/// Blocks start in the order of their numbers, so segments are complete about in order. The last block
/// of a segment raises its flag; nothing here waits.
__global__ void __launch_bounds__(kThreads)
    make_segments(u64* memory, u32 rounds, u32* made_chunks, Flag* flags) {
    u32 const segment = blockIdx.x / kChunks;
    u64 const first = blockIdx.x * u64(kWords * kThreads) + threadIdx.x;
    for (u32 k = 0; k < kWords; ++k) {
        u64 const at = first + k * kThreads;
        memory[at] = made(at, rounds);
    }
    __syncthreads();
    if (threadIdx.x != 0) return;
    cuda::atomic_ref<u32, cuda::thread_scope_device> chunks(made_chunks[segment]);
    if (chunks.fetch_add(1, cuda::memory_order_acq_rel) == kChunks - 1) {
        set_flag(flags[segment], 1);
    }
}

class Pipeline {
public:
    Pipeline(Context& context, u32 segments, u64* target, char const* way)
        : context_(context),
          segments_(segments),
          target_(target),
          way_(way),
          memory_(segments * kSegmentWords),
          chunks_(segments),
          flags_(segments),
          probe_(1),
          done_(cudaEventDisableTiming) {}

    void run() {
        // The loaded copy engine and clock come first.
        copy_all();
        double const copy_s = fastest([&] { copy_all(); });
        double const bare_s = fastest([&] { make(1); });
        double const loaded_s = fastest([&] { make(65); });
        double const each_s = std::max((loaded_s - bare_s) / 64, 1e-9);
        rounds_ = u32(std::clamp(1 + (copy_s - bare_s) / each_s, 1.0, 20000.0));
        double const make_s = fastest([&] { make(rounds_); });
        for (bool const pipelined : {false, true}) {
            std::vector<double> seconds;
            for (int i = 0; i < (context_.quick() ? 3 : 7); ++i) {
                seconds.push_back(once(pipelined));
            }
            std::sort(seconds.begin(), seconds.end());
            Result result;
            result.with("way", way_).with("pipelined", pipelined);
            result.with("segment_bytes", kSegmentBytes).with("segments", segments_);
            double const bytes = double(segments_) * double(kSegmentBytes);
            result.best_gbps = bytes / seconds.front() / 1e9;
            result.median_gbps = bytes / seconds[seconds.size() / 2] / 1e9;
            result.floor_gbps = bytes / copy_s / 1e9;
            result.figure("make_ms", make_s * 1e3).figure("copy_ms", copy_s * 1e3);
            result.figure("rounds", rounds_);
            result.exact = arrived();
            context_.add(result);
        }
    }

private:
    template <class Work>
    double fastest(Work const& work) {
        double best = 1e9;
        for (int i = 0; i < 3; ++i) {
            auto const start = std::chrono::steady_clock::now();
            work();
            best = std::min(best, since(start));
        }
        return best;
    }
    static double since(std::chrono::steady_clock::time_point start) {
        return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    }

    void launch(u32 rounds) {
        make_segments<<<segments_ * kChunks, kThreads, 0, context_.stream()>>>(
            memory_.get(), rounds, chunks_.get(), flags_.get());
        check_launch("make segments");
    }
    void make(u32 rounds) {
        reset();
        launch(rounds);
        context_.wait(context_.stream(), "make segments", kLimitSeconds);
    }
    void copy(u32 segment) {
        check(cudaMemcpyAsync(target_ + segment * kSegmentWords,
                              memory_.get() + segment * kSegmentWords, kSegmentBytes,
                              cudaMemcpyDefault, copies_.get()),
              "copy a segment");
    }
    void finish_copies() {
        check(cudaEventRecord(done_.get(), copies_.get()), "record the end");
        context_.wait(done_.get(), "copies of segments", kLimitSeconds);
    }
    void copy_all() {
        for (u32 s = 0; s < segments_; ++s) copy(s);
        finish_copies();
    }
    void reset() {
        for (u32 s = 0; s < segments_; ++s) set_flag(flags_[s], 0);
        check(cudaMemsetAsync(chunks_.get(), 0, chunks_.bytes(), context_.stream()),
              "clear counts");
        context_.wait(context_.stream(), "clear counts");
    }
    double once(bool pipelined) {
        reset();
        // What an earlier run brought must not pass for this one's.
        check(cudaMemsetAsync(memory_.get(), 0, memory_.bytes(), context_.stream()), "clear");
        context_.wait(context_.stream(), "clear");
        auto const start = std::chrono::steady_clock::now();
        launch(rounds_);
        if (!pipelined) context_.wait(context_.stream(), "make segments", kLimitSeconds);
        for (u32 s = 0; s < segments_; ++s) {
            if (!await_flag(flags_[s], 1, kLimitSeconds))
                context_.give_up("a segment's flag stays 0");
            copy(s);
        }
        finish_copies();
        double const took = since(start);
        context_.wait(context_.stream(), "make segments", kLimitSeconds);
        return took;
    }
    /// Looks at some words of each segment, wherever the target is.
    bool arrived() {
        bool right = true;
        for (u32 s = 0; s < segments_; ++s) {
            for (u64 const at : {u64(0), kSegmentWords / 3, kSegmentWords - 1}) {
                u64 const index = s * kSegmentWords + at;
                check(cudaMemcpyAsync(probe_.get(), target_ + index, 8, cudaMemcpyDefault,
                                      copies_.get()),
                      "fetch a word");
                context_.wait(copies_.get(), "fetch a word");
                right = right && probe_[0] == made(index, rounds_);
            }
        }
        return right;
    }

    Context& context_;
    u32 segments_;
    u64* target_;
    char const* way_;
    DeviceArray<u64> memory_;
    DeviceArray<u32> chunks_;
    PinnedArray<Flag> flags_;
    PinnedArray<u64> probe_;
    Event done_;
    Stream copies_;
    u32 rounds_ = 1;
};

void pipelining(Context& context) {
    u32 const segments = context.quick() ? 32 : 256;
    bool const peer = connected_gpus(2) == 2;
    {
        PinnedArray<u64> const host(segments * kSegmentWords);
        Pipeline(context, segments, host.get(), "gpu to host").run();
    }
    if (!peer) return;
    auto const beside = peer_array<u64>(segments * kSegmentWords);
    Pipeline(context, segments, beside.get(), "gpu to gpu").run();
}

Registration const registered{"pipelining", "copies while a kernel still produces (Figure 1a)",
                              pipelining};

}  // namespace
}  // namespace mgi::bench
