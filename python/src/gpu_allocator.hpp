/// \file
/// An allocator of Python's that provides GPU memory.
#pragma once

#include <nanobind/nanobind.h>

#include <mgi/gpu_allocator.hpp>

namespace mgi::python {

namespace nb = nanobind;

/// Calls the object's methods `allocate(gpu, bytes)`, which returns an address, and `deallocate(gpu, address, bytes)`, and those for
/// streams where it has them, from any thread, with the GIL. What they raise is the text of what `allocate` throws, or is reported as unraisable.
/// Once the interpreter ends nothing goes back: the memory goes with the process. None: no allocator. Called with the GIL.
GpuAllocator gpu_allocator_of(nb::object const& allocator);

}  // namespace mgi::python
