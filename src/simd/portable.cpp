#include <cstring>

#include <mgi/device/counting_sort.hpp>
#include <mgi/device/hash.hpp>

#include "simd/tile_ops.hpp"

namespace mgi::simd {
namespace {

using namespace device;

void route(char const* keys, u32 stride, u32 rows, u32 lanes, u16* lane) {
    for (u32 i = 0; i < rows; ++i) {
        u64 key;
        memcpy(&key, keys + u64(i) * stride, sizeof(key));
        lane[i] = u16(destination_of_hash(murmur3_mix(key), lanes));
    }
}

constexpr u32 kCacheLine = 64;

/// `Width` bytes a value, a cache line of them at a time.
template <u32 Width>
void gather(char* to, char const* from, u16 const* order, u32 count, char const* ahead) {
    constexpr u32 kBatch = kCacheLine / Width;
    u32 k = 0;
    for (; k + kBatch <= count; k += kBatch) {
        __builtin_prefetch(ahead + u64(k) * Width);
        for (u32 i = 0; i < kBatch; ++i) {
            memcpy(to + u64(k + i) * Width, from + u64(order[k + i]) * Width, Width);
        }
    }
    for (; k < count; ++k) memcpy(to + u64(k) * Width, from + u64(order[k]) * Width, Width);
}

}  // namespace

TileOps const& portable_tile_ops() {
    static constexpr TileOps ops{
        route,
        counting_sort,
        {gather<1>, gather<2>, gather<4>, gather<8>, gather<16>, gather<32>, gather<64>}};
    return ops;
}

}  // namespace mgi::simd
