// Places on GPUs, and how CUDA's errors are told. For nvcc alone.
#pragma once

#include <cuda_runtime.h>

#include "operators/gpu/place.hpp"

namespace mgi::operators::on_gpu {

// Throws Error unless all is well: OutOfMemory, NotFound; GroupFailed where the GPU's context is lost.
void check_cuda(cudaError_t error, int gpu, char const* what);

}  // namespace mgi::operators::on_gpu
