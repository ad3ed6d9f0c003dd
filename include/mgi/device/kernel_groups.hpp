/// \file
/// The groups of kernels that host code starts by itself (Runtime::attach).
#pragma once

#include <mgi/device/group.hpp>

namespace mgi::device {

/// Thread blocks that are groups of a runtime: what it gives for them, to be passed to the kernel by value.
/// Three numbers tell all of it where a kernel is not written in C++: `first_number`, `first` and `blocks`.
///
///     __global__ void receive(mgi::device::KernelGroups groups, mgi::device::Channel channel) {
///         extern __shared__ __align__(16) std::byte scratch[];  // groups.shared_bytes of it
///         mgi::device::Group const group = groups.group();
///         mgi::device::Shared shared = groups.shared(scratch);
///         ...
///     }
struct KernelGroups {
    u64 first_number = 0;  ///< Group::launch of the first group of all; the others follow
    u32 first = 0;         ///< the group that is this kernel's first block
    u32 count = 0;         ///< blocks of this kernel's
    u32 blocks = 0;        ///< groups of all kernels together
    u32 shared_bytes = 0;  ///< dynamic shared memory that each block has

    /// Those of a kernel that has only some of the blocks, for several kernels that share an endpoint's
    /// groups. `from` counts from this one's first.
    [[nodiscard]] MGI_HD KernelGroups part(u32 from, u32 of_them) const {
        KernelGroups some = *this;
        some.first = first + from;
        some.count = of_them;
        return some;
    }
    /// The group of one block, as its thread sees it.
    [[nodiscard]] MGI_HD Group group(u32 block, u32 thread, u32 threads) const {
        return {first + block, blocks, thread, threads, first_number + first + block, nullptr};
    }
    /// The scratch of one block.
    [[nodiscard]] MGI_HD Shared shared(void* scratch) const {
        return {static_cast<std::byte*>(scratch), shared_bytes};
    }
#if defined(__CUDACC__)
    /// The calling thread's group: its block by its place in the grid, which may have several dimensions.
    [[nodiscard]] __device__ Group group() const {
        return group(blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z),
                     threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z),
                     blockDim.x * blockDim.y * blockDim.z);
    }
#endif
};

}  // namespace mgi::device
