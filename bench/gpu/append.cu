// Appending 64-byte tuples to buffers in GPU memory, by multiprocessors used (one block each):
// - atomics (the paper's Figure 16): one buffer for all blocks, whose end is claimed in global memory
//   for each tuple, or once a warp; against a buffer a block, whose end is claimed in shared memory.
// - coalescing (Figure 17): a buffer a block, written by neighbouring threads together, against each
//   thread writing whole tuples to a part of its own.
// Only writes are traffic: the floor is all of the GPU's.
#include <algorithm>
#include <vector>

#include "data.hpp"
#include "registry.hpp"

namespace mgi::bench {
namespace {

constexpr u32 kThreads = 1024;
constexpr u32 kParts = 4;                // of 16 bytes a tuple
constexpr u32 kTuplesOfBlock = 1 << 18;  // 16 MiB
constexpr u32 kPerThread = kTuplesOfBlock / kThreads;
constexpr u64 kTuplesOfAll = 1ULL << 22;  // 256 MiB: more than any L2

enum class Claim { Global, GlobalByWarp, Block };

struct Buffers {
    uint4* memory;
    u32 mask;       ///< tuples of a buffer, less 1: appending wraps
    u32 per_block;  ///< tuples between blocks' buffers; 0: all share one
    u32* end;       ///< of the shared buffer
    u32 none;       ///< 31
};

/// What stands in a tuple: its producer's number, for the check.
__device__ uint4 content(u32 producer, u32 k) {
    return make_uint4(producer, k, producer ^ k, ~k);
}

/// A thread claims a place for each of its tuples; the warp then writes its 32 tuples, four lanes each.
template <Claim By>
__global__ void __launch_bounds__(kThreads) append(Buffers buffers) {
    __shared__ u32 block_end;
    if (threadIdx.x == 0) block_end = 0;
    __syncthreads();
    u32 const lane = threadIdx.x % 32;
    uint4* const memory = buffers.memory + u64(blockIdx.x) * buffers.per_block * kParts;
    // Always 0, but not to the compiler, which else claims for a whole warp by itself.
    u32 const nothing = threadIdx.x >> buffers.none;
    for (u32 k = 0; k < kPerThread; ++k) {
        u32 place = 0;
        if constexpr (By == Claim::Global) {
            place = atomicAdd(buffers.end + nothing, 1U);
        } else if constexpr (By == Claim::GlobalByWarp) {
            if (lane == 0) place = atomicAdd(buffers.end, 32U);
            place = __shfl_sync(~0U, place, 0) + lane;
        } else {
            place = atomicAdd(&block_end + nothing, 1U);
        }
        place &= buffers.mask;
        u32 const producer = blockIdx.x * kThreads + threadIdx.x;
        for (u32 step = 0; step < kParts; ++step) {
            u32 const owner = step * (32 / kParts) + lane / kParts;
            u32 const at = __shfl_sync(~0U, place, int(owner));
            memory[u64(at) * kParts + lane % kParts] = content(producer - lane + owner, k);
        }
    }
}

/// Each thread writes its tuples one after the other to its part of the block's buffer.
__global__ void __launch_bounds__(kThreads) append_apart(Buffers buffers) {
    u32 const tuples = (buffers.mask + 1) / kThreads;  // of a thread
    uint4* const memory =
        buffers.memory + (u64(blockIdx.x) * buffers.per_block + u64(threadIdx.x) * tuples) * kParts;
    for (u32 k = 0; k < kPerThread; ++k) {
        u32 const at = k & (tuples - 1);
        for (u32 part = 0; part < kParts; ++part) {
            memory[u64(at) * kParts + part] = content(blockIdx.x * kThreads + threadIdx.x, k);
        }
    }
}

class Append {
public:
    explicit Append(Context& context)
        : context_(context), memory_(kTuplesOfAll * kParts), end_(32) {
        context.traffic_gbps();
    }

    using Kernel = void (*)(Buffers);

    /// Times a kernel for growing numbers of blocks.
    void measure(char const* key, char const* how, Kernel kernel, bool shared) {
        int const all = context_.multiprocessors();
        std::vector<int> counts{1, 2, 4, 8, 16, 33, 66, all};
        for (int const blocks : counts) {
            if (blocks > all || (context_.quick() && blocks % 8 != 0 && blocks != all)) continue;
            u64 tuples = kTuplesOfAll;
            // The largest power of two that all blocks' buffers have room for, 4 tuples a thread.
            while (!shared && tuples * u64(blocks) > kTuplesOfAll) tuples /= 2;
            require(tuples >= kThreads * 4, "more multiprocessors than buffers have room for");
            Buffers const buffers{memory_.get(), u32(tuples - 1), shared ? 0 : u32(tuples),
                                  end_.get(), 31};
            auto const timing = context_.time(
                [&](cudaStream_t stream) {
                    kernel<<<unsigned(blocks), kThreads, 0, stream>>>(buffers);
                },
                [&](cudaStream_t stream) {
                    check(cudaMemsetAsync(end_.get(), 0, end_.bytes(), stream), "clear the end");
                });
            u64 const written = u64(blocks) * kTuplesOfBlock;
            Result result;
            result.with(key, how).with("blocks", blocks);
            timing.fill(result, written * 64);
            result.floor_gbps = context_.traffic_gbps();
            result.figure("million_tuples_per_s", double(written) / timing.best_ms() / 1e3);
            if (shared) result.exact = claimed() == u32(written);
            context_.add(result);
        }
    }

private:
    /// The shared buffer's end after a run.
    u32 claimed() {
        u32 end = 0;
        check(cudaMemcpyAsync(&end, end_.get(), 4, cudaMemcpyDeviceToHost, context_.stream()),
              "fetch the end");
        context_.wait(context_.stream(), "fetch the end");
        return end;
    }

    Context& context_;
    DeviceArray<uint4> memory_;
    DeviceArray<u32> end_;
};

void atomics(Context& context) {
    Append bench(context);
    bench.measure("claim", "global, a tuple", append<Claim::Global>, true);
    bench.measure("claim", "global, a warp", append<Claim::GlobalByWarp>, true);
    bench.measure("claim", "block, a tuple", append<Claim::Block>, false);
}

void coalescing(Context& context) {
    Append bench(context);
    bench.measure("access", "coalesced", append<Claim::Block>, false);
    bench.measure("access", "apart", append_apart, false);
}

Registration const figure16{"atomics", "a block's atomics against global ones (Figure 16)",
                            atomics};
Registration const figure17{"coalescing", "coalesced writes against scattered (Figure 17)",
                            coalescing};

}  // namespace
}  // namespace mgi::bench
