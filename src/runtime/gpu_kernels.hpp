// What holds of every kernel on a GPU, whoever starts it.
#pragma once

#include <cstdint>

#include <mgi/endpoint.hpp>
#include <mgi/graph.hpp>

namespace mgi {

// Throws Error(InvalidArgument) for blocks of a size that there is not.
void check_kernel(Endpoint endpoint, Device const& device, std::uint32_t threads);

// Loads the kernels that know_gpu_kernels was told of, on a GPU that has not loaded them, where the driver would load each
// when it is first used. Waits for what is resident there if there are any. Never throws: a kernel that cannot be loaded
// cannot be launched either, which says why.
void load_gpu_kernels(int gpu) noexcept;

// Once, where the driver loads kernels when they are first used: attached ones may be such as nobody made known.
void warn_of_unknown_kernels() noexcept;

}  // namespace mgi
