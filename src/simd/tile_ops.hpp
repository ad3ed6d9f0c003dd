/// \file
/// The tile's inner loops in the instructions of the machine that runs (see mgi/device/tile_ops.hpp).
#pragma once

#include <mgi/device/tile_ops.hpp>

namespace mgi::simd {

/// The fastest loops this machine can run, or what the environment variable MGI_SIMD asks for.
/// Thread-safe; the table lives for ever.
device::TileOps const& tile_ops();

/// The loops for a value of MGI_SIMD, which may be null: `portable` asks for the ones that any machine
/// can run, `avx2` for nothing wider than that; any other word for the fastest. What the machine lacks
/// is left out. Thread-safe.
device::TileOps const& tile_ops_for(char const* asked);

/// The loops in plain C++.
device::TileOps const& portable_tile_ops();

/// The loops in AVX2, or null where the machine or the compiler has none.
device::TileOps const* avx2_tile_ops();

/// The loops in AVX-512 (with its byte and word instructions, VBMI2), or null where the machine or
/// the compiler has none.
device::TileOps const* avx512_tile_ops();

}  // namespace mgi::simd
