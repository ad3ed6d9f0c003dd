// What holds of every kernel on a GPU, whoever starts it.
#pragma once

#include <cstdint>

#include <mgi/endpoint.hpp>
#include <mgi/graph.hpp>

namespace mgi {

// Throws Error(InvalidArgument) for blocks of a size that there is not, and where kernels are loaded lazily.
void check_kernel(Endpoint endpoint, Device const& device, std::uint32_t threads);

}  // namespace mgi
