/// \file
/// Sorters on GPUs, for channels with ChannelOptions::sorters that have sources there (`send_row`). To be included by
/// one file of the program that nvcc compiles; MGI itself is built without CUDA. To other compilers it says nothing.
#pragma once

#include <mgi/runtime.hpp>

#if defined(__CUDACC__)

namespace mgi {

/// One block of a source's sorters.
struct GpuSorter {
    MGI_HD void operator()(device::Group const& group, device::Shared& shared,
                           GpuSorters sorters) const {
        ErrorCode const code = device::Sorter<device::LibcuAtomics>()(
            group, shared, sorters.channel, sorters.source, sorters.stage);
        if (group.leads()) sorters.failures[group.block] = static_cast<std::uint32_t>(code);
    }
};

inline void start_gpu_sorters(GpuSorters const& sorters) {
    start_gpu_kernel(sorters.launch, GpuSorter{}, sorters);
}

inline bool const gpu_sorters_are_known = provide_gpu_sorters(&start_gpu_sorters);

}  // namespace mgi

#endif
