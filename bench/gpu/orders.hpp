/// \file
/// Tables after TPC-H's lineitem and orders, made on GPUs: four lines an order, keys that lie anywhere.
#pragma once

#include <cstdint>

#include <mgi/device/hash.hpp>

namespace mgi::bench::orders {

using u32 = std::uint32_t;
using u64 = std::uint64_t;

// Numbers 0, 1, 2, ... as keys that lie anywhere, and back: the factors' product is 1.
constexpr u64 kFactor = 0x9e3779b97f4a7c15ULL;
constexpr u64 kInverse = 0xf1de83e19937733dULL;
static_assert(kFactor * kInverse == 1);

__device__ inline u64 number_of_row(u64 row, u64 numbers) {
    return device::murmur3_mix(row + 1) % numbers;
}
__device__ inline u64 value_of_row(u64 row) {
    return row % 1009;
}
__device__ inline u64 payload_of(u64 number) {
    return device::murmur3_mix(number ^ 0x5555);
}

constexpr u64 kStride = 7'919;  // a prime, of which the number of orders is no multiple

/// Lines from number `first` on, of so many orders.
static __global__ void make_lines(u64* keys, u64* values, u64 first, u64 rows, u64 orders,
                                  bool number_rows) {
    u64 const step = u64(gridDim.x) * blockDim.x;
    for (u64 i = u64(blockIdx.x) * blockDim.x + threadIdx.x; i < rows; i += step) {
        u64 const line = first + i;
        keys[i] = number_of_row(line, orders) * kFactor;
        values[i] = number_rows ? line : value_of_row(line);
    }
}

/// Orders from place `first` on, of so many.
static __global__ void make_orders(u64* ids, u64* payloads, u64 first, u64 rows, u64 orders) {
    u64 const step = u64(gridDim.x) * blockDim.x;
    for (u64 i = u64(blockIdx.x) * blockDim.x + threadIdx.x; i < rows; i += step) {
        // Not in order: neighbours in the table are none among the keys.
        u64 const number = ((first + i) * kStride) % orders;
        ids[i] = number * kFactor;
        payloads[i] = payload_of(number);
    }
}

}  // namespace mgi::bench::orders
