// Words sorted by a GPU's radix sort, which is CUB's: in a source of its own, since it takes long to compile.
#pragma once

#include <cuda_runtime.h>

#include "operators/gpu/place.hpp"

namespace mgi::operators::on_gpu {

// As Place::sort, in a stream. Without `scratch` it says how many bytes of that it needs, and sorts nothing.
cudaError_t radix_sort(cudaStream_t stream, WordsToSort& all, void* scratch, u64& bytes);

}  // namespace mgi::operators::on_gpu
