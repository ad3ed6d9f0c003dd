/// \file
/// The tile's inner loops in the instructions of the machine that runs (see mgi/device/tile_ops.hpp).
#pragma once

#include <mgi/device/tile_ops.hpp>

namespace mgi::simd {

/// The fastest loops this machine can run. The environment variable MGI_SIMD=portable asks for the
/// ones that any machine can run. Thread-safe; the table lives for ever.
device::TileOps const& tile_ops();

/// The loops in plain C++.
device::TileOps const& portable_tile_ops();

/// The loops in AVX-512 (with its byte and word instructions, VBMI2), or null where the machine or
/// the compiler has none.
device::TileOps const* avx512_tile_ops();

}  // namespace mgi::simd
