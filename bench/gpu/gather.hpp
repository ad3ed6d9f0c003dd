/// \file
/// Rows in the order of an index, for peers that order row numbers first.
#pragma once

#include "partition.hpp"

namespace mgi::bench {

/// A lane for each 16 bytes of a row struct, so that a row is read and written at once.
template <u32 Words>
__global__ void gather_rows(Table input, Table output, u32 const* order) {
    constexpr u32 kParts = Words / 2;
    auto const* const from = reinterpret_cast<uint4 const*>(input.structs());
    auto* const to = reinterpret_cast<uint4*>(output.structs());
    u64 const part = blockIdx.x * u64(blockDim.x) + threadIdx.x;
    if (part >= input.rows * kParts) return;
    to[part] = from[u64(order[part / kParts]) * kParts + part % kParts];
}

template <u32 Words>
__global__ void gather_columns(Table input, Table output, u32 const* order) {
    u64 const row = blockIdx.x * u64(blockDim.x) + threadIdx.x;
    if (row >= input.rows) return;
    u32 const source = order[row];
    for (u32 w = 0; w < Words; ++w) output.column[w][row] = input.column[w][source];
}

inline void gather(Table const& input, Table const& output, u32 const* order, cudaStream_t stream) {
    bool const structs = input.stride != 1;
    with_words(input.words, [&](auto words) {
        u64 const threads = structs ? input.rows * (words() / 2) : input.rows;
        auto const blocks = u32((threads + 255) / 256);
        auto const kernel = structs ? gather_rows<words()> : gather_columns<words()>;
        kernel<<<blocks, 256, 0, stream>>>(input, output, order);
    });
}

}  // namespace mgi::bench
