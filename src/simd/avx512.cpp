#include "simd/tile_ops.hpp"

// Clang has no #pragma GCC target: there the portable loops run.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)

#include <immintrin.h>

#include <cstring>

#include <mgi/device/counting_sort.hpp>
#include <mgi/device/hash.hpp>

// Only the functions below this line may use what older machines lack: nothing inline from a header
// is compiled for it.
#pragma GCC push_options
// GCC 12 calls the undefined vectors inside its own intrinsics uninitialized (PR105593).
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC target("avx512f,avx512dq,avx512bw,avx512vl,avx512vbmi2,popcnt")

namespace mgi::simd {
namespace {

using device::TileOps;
using device::u16;
using device::u32;
using device::u64;

/// murmur3_mix of eight keys.
inline __m512i mix(__m512i x) {
    x = _mm512_xor_si512(x, _mm512_srli_epi64(x, 33));
    x = _mm512_mullo_epi64(x, _mm512_set1_epi64(static_cast<long long>(0xff51afd7ed558ccdULL)));
    x = _mm512_xor_si512(x, _mm512_srli_epi64(x, 33));
    x = _mm512_mullo_epi64(x, _mm512_set1_epi64(static_cast<long long>(0xc4ceb9fe1a85ec53ULL)));
    return _mm512_xor_si512(x, _mm512_srli_epi64(x, 33));
}

inline void store_lanes(__m512i keys, __m512i lanes, u16* lane) {
    __m512i const high = _mm512_srli_epi64(mix(keys), 32);
    __m512i const chosen = _mm512_srli_epi64(_mm512_mul_epu32(high, lanes), 32);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(lane), _mm512_cvtepi64_epi16(chosen));
}

inline long long key_at(char const* at) {
    long long key;
    memcpy(&key, at, sizeof(key));
    return key;
}

void route(char const* keys, u32 stride, u32 rows, u32 lanes, u16* lane) {
    __m512i const fan_out = _mm512_set1_epi64(lanes);
    u64 const step = stride;
    u32 i = 0;
    for (; i + 8 <= rows; i += 8) {
        char const* const at = keys + i * step;
        __m512i const eight = step == 8
                                  ? _mm512_loadu_si512(at)
                                  : _mm512_set_epi64(key_at(at + 7 * step), key_at(at + 6 * step),
                                                     key_at(at + 5 * step), key_at(at + 4 * step),
                                                     key_at(at + 3 * step), key_at(at + 2 * step),
                                                     key_at(at + step), key_at(at));
        store_lanes(eight, fan_out, lane + i);
    }
    if (i == rows) return;
    alignas(64) long long rest[8] = {};
    for (u32 k = 0; i + k < rows; ++k) rest[k] = key_at(keys + (i + k) * step);
    store_lanes(_mm512_load_si512(rest), fan_out, lane + i);  // into the slack
}

/// Past so many lanes a pass over the tile for each costs more than the plain counting sort.
constexpr u32 kMostPasses = 16;

/// One pass a lane: 32 rows at a time, those of the lane pressed together.
void sort(u16 const* lane, u32 rows, u32 lanes, u16* order, u32* next, u32* end) {
    if (lanes > kMostPasses) return device::counting_sort(lane, rows, lanes, order, next, end);
    alignas(64) static constexpr u16 kFirst[32] = {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10,
                                                   11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21,
                                                   22, 23, 24, 25, 26, 27, 28, 29, 30, 31};
    u32 const whole = rows / 32 * 32;
    __mmask32 const rest = (1u << (rows - whole)) - 1;
    u32 at = 0;
    for (u32 d = 0; d < lanes; ++d) {
        __m512i const wanted = _mm512_set1_epi16(static_cast<short>(d));
        __m512i numbers = _mm512_load_si512(kFirst);
        next[d] = at;
        for (u32 i = 0; i < whole; i += 32) {
            __mmask32 const mine = _mm512_cmpeq_epi16_mask(_mm512_loadu_si512(lane + i), wanted);
            _mm512_storeu_si512(order + at, _mm512_maskz_compress_epi16(mine, numbers));
            at += static_cast<u32>(_mm_popcnt_u32(mine));
            numbers = _mm512_add_epi16(numbers, _mm512_set1_epi16(32));
        }
        if (rest != 0) {
            __mmask32 const mine =
                _mm512_mask_cmpeq_epi16_mask(rest, _mm512_loadu_si512(lane + whole), wanted);
            _mm512_storeu_si512(order + at, _mm512_maskz_compress_epi16(mine, numbers));
            at += static_cast<u32>(_mm_popcnt_u32(mine));
        }
        end[d] = at;
    }
}

inline __m256i four_of_8(char const* from, u16 const* order) {
    auto const two = [&](u16 a, u16 b) {
        __m128i const low = _mm_loadl_epi64(reinterpret_cast<__m128i const*>(from + u64(a) * 8));
        return _mm_insert_epi64(low, key_at(from + u64(b) * 8), 1);
    };
    return _mm256_inserti128_si256(_mm256_castsi128_si256(two(order[0], order[1])),
                                   two(order[2], order[3]), 1);
}

void gather8(char* to, char const* from, u16 const* order, u32 count, char const* ahead) {
    u32 k = 0;
    for (; k + 8 <= count; k += 8) {
        __builtin_prefetch(ahead + u64(k) * 8);
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + u64(k) * 8),
                            four_of_8(from, order + k));
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + u64(k) * 8 + 32),
                            four_of_8(from, order + k + 4));
    }
    for (; k < count; ++k) memcpy(to + u64(k) * 8, from + u64(order[k]) * 8, 8);
}

void gather32(char* to, char const* from, u16 const* order, u32 count, char const* ahead) {
    for (u32 k = 0; k < count; ++k) {
        if (k % 2 == 0) __builtin_prefetch(ahead + u64(k) * 32);
        _mm256_storeu_si256(
            reinterpret_cast<__m256i*>(to + u64(k) * 32),
            _mm256_loadu_si256(reinterpret_cast<__m256i const*>(from + u64(order[k]) * 32)));
    }
}

void gather64(char* to, char const* from, u16 const* order, u32 count, char const* ahead) {
    for (u32 k = 0; k < count; ++k) {
        __builtin_prefetch(ahead + u64(k) * 64);
        _mm512_storeu_si512(to + u64(k) * 64, _mm512_loadu_si512(from + u64(order[k]) * 64));
    }
}

}  // namespace
}  // namespace mgi::simd

#pragma GCC diagnostic pop
#pragma GCC pop_options

namespace mgi::simd {

device::TileOps const* avx512_tile_ops() {
    static bool const runs =
        __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512vbmi2");
    if (!runs) return nullptr;
    static device::TileOps const ops = [] {
        device::TileOps wide = portable_tile_ops();
        wide.route = route;
        wide.sort = sort;
        wide.gather[3] = gather8;
        wide.gather[5] = gather32;
        wide.gather[6] = gather64;
        return wide;
    }();
    return &ops;
}

}  // namespace mgi::simd

#else

namespace mgi::simd {

device::TileOps const* avx512_tile_ops() {
    return nullptr;
}

}  // namespace mgi::simd

#endif
