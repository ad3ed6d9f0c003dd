/// \file
/// Memory shared with Python in both directions through the buffer protocol, without a copy.
#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>
#include <cstdint>
#include <memory>

namespace mgi::python {

namespace nb = nanobind;

/// Bytes of a Python object (NumPy array, bytes, ...), which it may not resize or free while a copy
/// of this lives. Copies are dropped in any thread.
struct InputBuffer {
    std::shared_ptr<void const> owner;
    std::byte const* data = nullptr;
    std::size_t size = 0;
};

/// Takes hold of an object's contiguous bytes. Throws what the object raises if it has none.
InputBuffer hold_buffer(nb::handle object);

/// Bytes of a batch that Python reads in place; the memory lives as long as this.
struct OutputBuffer {
    std::shared_ptr<void const> owner;
    void const* data = nullptr;
    std::size_t size = 0;
};

/// Row structs of a NumPy structured array, as `send` takes them.
struct RowStructs {
    InputBuffer buffer;
    std::uint32_t row_bytes = 0;
    std::int64_t rows = 0;
};

}  // namespace mgi::python
