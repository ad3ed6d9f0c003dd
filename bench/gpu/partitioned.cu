#include "partitioned.hpp"

namespace mgi::bench {
namespace {

constexpr u32 kThreads = 256;

__global__ void read_all(u64 const* words, u64 count, u64* sum) {
    u64 const each = (count + gridDim.x - 1) / gridDim.x / 2 * 2 + 2;  // pairs
    u64 const first = min(count, blockIdx.x * each);
    u64 mine = part_of_sum<8>(words + first, u32(min(each, count - first)));
    // One addition a block: those of all threads to one word would take longer than small tables.
    for (u32 by = 16; by != 0; by /= 2) mine += __shfl_down_sync(~0U, mine, by);
    __shared__ u64 warps[kThreads / 32];
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = mine;
    __syncthreads();
    if (threadIdx.x != 0) return;
    for (u32 w = 1; w < kThreads / 32; ++w) mine += warps[w];
    atomicAdd(reinterpret_cast<unsigned long long*>(sum), mine);
}

}  // namespace

Partitioned::Partitioned(Load const& load, peers::Gpu const& gpu, u64 received)
    : input_(gpu.input.table()),
      stream_(gpu.stream.get()),
      parted_(load.layout, load.parts() == 1 ? 0 : input_.rows, load.words),
      parts_(load.parts() == 1 ? input_ : parted_.table()),
      arrived_(load.layout, received, load.words),
      begin_(load.parts() + 1),
      sum_(1),
      begins_(load.parts() + 1),
      count_(load.parts()) {
    begins_[count_] = u32(input_.rows);
    check(cudaMemset(begin_.get(), 0, begin_.bytes()), "clear the parts' begins");
    if (count_ == 1 || input_.rows == 0) return;
    partition_ =
        partition_in_two_passes({load.layout, Keys::Uniform, count_, input_, parts_, begin_.get()});
}

void Partitioned::start_partition() {
    if (!partition_) return;
    partition_(stream_);
    check(cudaMemcpyAsync(begins_.get(), begin_.get(), count_ * sizeof(u32), cudaMemcpyDeviceToHost,
                          stream_),
          "see where parts begin");
}

void Partitioned::end_partition() {
    check(cudaStreamSynchronize(stream_), "wait for a partition");
}

void Partitioned::start_read() {
    each_run_from(0, arrived_.table().rows, [&](u64* words, u64 bytes) {
        read_all<<<1024, kThreads, 0, stream_>>>(words, bytes / sizeof(u64), sum_.get());
        check_launch("read what arrived");
    });
}

bool Partitioned::has(Sums const& wanted) const {
    return sums_of(arrived_.table(), 1, stream_).at(0) == wanted;
}

}  // namespace mgi::bench
