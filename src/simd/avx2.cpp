#include "simd/tile_ops.hpp"

// Compiled like avx512.cpp, for the same reasons.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)

#include <immintrin.h>

#include <cstring>

#include <mgi/device/counting_sort.hpp>
#include <mgi/device/hash.hpp>

// Only the functions below this line may use what older machines lack: nothing inline from a header
// is compiled for it.
#pragma GCC push_options
#pragma GCC target("avx2,popcnt")

namespace mgi::simd {
namespace {

using device::TileOps;
using device::u16;
using device::u32;
using device::u64;
using device::u8;

inline u64 word_at(void const* at) {
    u64 word;
    memcpy(&word, at, sizeof(word));
    return word;
}

inline long long key_at(char const* at) {
    return static_cast<long long>(word_at(at));
}

inline __m128i load16(char const* at) {
    return _mm_loadu_si128(reinterpret_cast<__m128i const*>(at));
}

inline __m256i load32(void const* at) {
    return _mm256_loadu_si256(static_cast<__m256i const*>(at));
}

inline void store16(void* to, __m128i value) {
    _mm_storeu_si128(static_cast<__m128i*>(to), value);
}

inline void store32(char* to, __m256i value) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), value);
}

/// Four 64-bit numbers as halves, each in the low 32 bits of its word; the bits above are anything.
struct Halves {
    __m256i low;
    __m256i high;
};

/// x * factor, then x ^= x >> 33, which leaves the high half alone.
inline Halves multiply_and_fold(Halves x, u64 factor) {
    __m256i const low = _mm256_set1_epi64x(static_cast<long long>(factor & 0xffffffff));
    __m256i const high = _mm256_set1_epi64x(static_cast<long long>(factor >> 32));
    __m256i const product = _mm256_mul_epu32(x.low, low);
    __m256i const cross =
        _mm256_add_epi64(_mm256_mul_epu32(x.low, high), _mm256_mul_epu32(x.high, low));
    __m256i const upper = _mm256_add_epi64(_mm256_srli_epi64(product, 32), cross);
    return {_mm256_xor_si256(product, _mm256_srli_epi32(upper, 1)), upper};
}

/// destination_of_hash(murmur3_mix) of four keys, in the high half of each word.
inline __m256i destinations(__m256i keys, __m256i lanes) {
    Halves x{_mm256_xor_si256(keys, _mm256_srli_epi64(keys, 33)), _mm256_srli_epi64(keys, 32)};
    x = multiply_and_fold(x, 0xff51afd7ed558ccdULL);
    x = multiply_and_fold(x, 0xc4ceb9fe1a85ec53ULL);
    return _mm256_mul_epu32(x.high, lanes);
}

/// Six rows at a time: four by vectors, two by the multiplier of the other registers, which would
/// have nothing to do meanwhile.
void route(char const* keys, u32 stride, u32 rows, u32 lanes, u16* lane) {
    __m256i const fan_out = _mm256_set1_epi64x(lanes);
    u64 const step = stride;
    auto const plain = [&](u32 i) {
        u64 const hash = device::murmur3_mix(word_at(keys + i * step));
        lane[i] = static_cast<u16>(device::destination_of_hash(hash, lanes));
    };
    u32 i = 0;
    for (; i + 6 <= rows; i += 6) {
        plain(i + 4);
        plain(i + 5);
        char const* const at = keys + i * step;
        __m256i const four = step == 8
                                 ? load32(at)
                                 : _mm256_set_epi64x(key_at(at + 3 * step), key_at(at + 2 * step),
                                                     key_at(at + step), key_at(at));
        __m256 const chosen = _mm256_castsi256_ps(destinations(four, fan_out));
        __m128i const high = _mm_castps_si128(
            _mm_shuffle_ps(_mm256_castps256_ps128(chosen), _mm256_extractf128_ps(chosen, 1), 0xdd));
        _mm_storel_epi64(reinterpret_cast<__m128i*>(lane + i), _mm_packus_epi32(high, high));
    }
    for (; i < rows; ++i) plain(i);
}

/// Past so many lanes a pass over the tile for each costs more than dealing.
constexpr u32 kMostPasses = 11;

/// Counts that dealing keeps. With more of them, a tile and its order fall out of the cache.
constexpr u32 kCounts = 1024;

/// By mask of eight bits: the numbers of those that are set, in order.
struct Pressed {
    u8 numbers[256][8];
};

constexpr Pressed press() {
    Pressed table{};
    for (u32 mask = 0; mask < 256; ++mask) {
        u32 at = 0;
        for (u32 bit = 0; bit < 8; ++bit) {
            if ((mask >> bit & 1) != 0) table.numbers[mask][at++] = static_cast<u8>(bit);
        }
    }
    return table;
}

alignas(64) constexpr Pressed kPressed = press();

/// Writes eight numbers, of which those in `mask` come first and count; returns how many do.
inline u32 put(u32 mask, __m128i first, u16* order) {
    u8 const* const numbers = kPressed.numbers[mask];
    __m128i const eight =
        _mm_cvtepu8_epi16(_mm_loadl_epi64(reinterpret_cast<__m128i const*>(numbers)));
    store16(order, _mm_add_epi16(eight, first));
    return static_cast<u32>(_mm_popcnt_u32(mask));
}

/// One pass a lane: 32 rows at a time, those of the lane pressed together.
void sort_in_passes(u16 const* lane, u32 rows, u32 lanes, u16* order, u32* next, u32* end) {
    // Packing takes the vectors' halves in turns: rows 0 to 7, 16 to 23, 8 to 15, 24 to 31.
    static constexpr u32 kInTurns[4] = {0, 16, 8, 24};
    __m128i const step = _mm_set1_epi16(8);
    u32 at = 0;
    for (u32 d = 0; d < lanes; ++d) {
        __m256i const wanted = _mm256_set1_epi16(static_cast<short>(d));
        __m128i first = _mm_setzero_si128();
        next[d] = at;
        u32 i = 0;
        for (; i + 32 <= rows; i += 32) {
            __m256i const low = _mm256_cmpeq_epi16(load32(lane + i), wanted);
            __m256i const high = _mm256_cmpeq_epi16(load32(lane + i + 16), wanted);
            u32 const mine = static_cast<u32>(_mm256_movemask_epi8(_mm256_packs_epi16(low, high)));
            for (u32 const shift : kInTurns) {
                at += put(mine >> shift & 0xff, first, order + at);
                first = _mm_add_epi16(first, step);
            }
        }
        for (; i < rows; i += 8) {
            __m128i const same = _mm_cmpeq_epi16(load16(reinterpret_cast<char const*>(lane + i)),
                                                 _mm256_castsi256_si128(wanted));
            u32 const mine =
                static_cast<u32>(_mm_movemask_epi8(_mm_packs_epi16(same, _mm_setzero_si128())));
            u32 const rest = rows - i < 8 ? (1u << (rows - i)) - 1 : 0xff;
            at += put(mine & rest, first, order + at);
            first = _mm_add_epi16(first, step);
        }
        end[d] = at;
    }
}

/// A counting sort of `Parts` parts of the tile at once, each with counts of its own: one count raised
/// again and again would have every row wait for the store of the one before.
template <u32 Parts>
void deal(u16 const* lane, u32 rows, u32 lanes, u16* order, u32* next, u32* end) {
    u32 counts[kCounts / Parts][Parts];
    memset(counts, 0, lanes * sizeof(counts[0]));
    u32 const part = rows / Parts;
    for (u32 i = 0; i < part; ++i) {
        for (u32 p = 0; p < Parts; ++p) ++counts[lane[p * part + i]][p];
    }
    for (u32 i = Parts * part; i < rows; ++i) ++counts[lane[i]][Parts - 1];
    u32 sum = 0;
    for (u32 d = 0; d < lanes; ++d) {
        next[d] = sum;
        for (u32& count : counts[d]) {
            u32 const some = count;
            count = sum;
            sum += some;
        }
        end[d] = sum;
    }
    for (u32 i = 0; i < part; ++i) {
        for (u32 p = 0; p < Parts; ++p) {
            u32 const row = p * part + i;
            order[counts[lane[row]][p]++] = static_cast<u16>(row);
        }
    }
    for (u32 i = Parts * part; i < rows; ++i) {
        order[counts[lane[i]][Parts - 1]++] = static_cast<u16>(i);
    }
}

void sort(u16 const* lane, u32 rows, u32 lanes, u16* order, u32* next, u32* end) {
    // Clearing and adding up the counts must be little beside the rows.
    bool const many = rows >= 16 * lanes;
    auto const way = lanes <= kMostPasses           ? sort_in_passes
                     : many && lanes <= kCounts / 8 ? deal<8>
                     : many && lanes <= kCounts / 4 ? deal<4>
                                                    : device::counting_sort;
    way(lane, rows, lanes, order, next, end);
}

constexpr u32 kCacheLine = 64;

template <u32 Width>
inline void copy_four(char* to, char const* from, u64 a, u64 b, u64 c, u64 d) {
    auto const at = [&](u64 row) { return from + row * Width; };
    if constexpr (Width == 4) {
        auto const value = [&](u64 row) {
            int word;
            memcpy(&word, at(row), sizeof(word));
            return word;
        };
        __m128i four = _mm_cvtsi32_si128(value(a));
        four = _mm_insert_epi32(four, value(b), 1);
        four = _mm_insert_epi32(four, value(c), 2);
        store16(to, _mm_insert_epi32(four, value(d), 3));
    } else if constexpr (Width == 8) {
        auto const two = [&](u64 low, u64 high) {
            __m128i const one = _mm_loadl_epi64(reinterpret_cast<__m128i const*>(at(low)));
            return _mm_insert_epi64(one, key_at(at(high)), 1);
        };
        store16(to, two(a, b));
        store16(to + 16, two(c, d));
    } else if constexpr (Width == 16) {
        auto const two = [&](u64 low, u64 high) {
            __m256i const one = _mm256_castsi128_si256(load16(at(low)));
            return _mm256_inserti128_si256(one, load16(at(high)), 1);
        };
        store32(to, two(a, b));
        store32(to + 32, two(c, d));
    } else {
        u64 const rows[4] = {a, b, c, d};
        for (u64 const row : rows) {
            for (u32 byte = 0; byte < Width; byte += 32) store32(to + byte, load32(at(row) + byte));
            to += Width;
        }
    }
}

/// Four values at a time, whose row numbers are one load.
template <u32 Width>
void gather(char* to, char const* from, u16 const* order, u32 count, char const* ahead) {
    constexpr u32 kBatch = Width < 16 ? kCacheLine / Width : 4;
    auto const four = [&](u32 k) {
        u64 const rows = word_at(order + k);
        copy_four<Width>(to + u64(k) * Width, from, rows & 0xffff, rows >> 16 & 0xffff,
                         rows >> 32 & 0xffff, rows >> 48);
    };
    u32 k = 0;
    for (; k + kBatch <= count; k += kBatch) {
        for (u32 byte = 0; byte < kBatch * Width; byte += kCacheLine) {
            __builtin_prefetch(ahead + u64(k) * Width + byte);
        }
        for (u32 i = 0; i < kBatch; i += 4) four(k + i);
    }
    for (; k + 4 <= count; k += 4) four(k);
    for (; k < count; ++k) memcpy(to + u64(k) * Width, from + u64(order[k]) * Width, Width);
}

}  // namespace
}  // namespace mgi::simd

#pragma GCC pop_options

namespace mgi::simd {

device::TileOps const* avx2_tile_ops() {
    static bool const runs = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("popcnt");
    if (!runs) return nullptr;
    static device::TileOps const ops = [] {
        device::TileOps wide = portable_tile_ops();
        wide.route = route;
        wide.sort = sort;
        wide.gather[2] = gather<4>;
        wide.gather[3] = gather<8>;
        wide.gather[4] = gather<16>;
        wide.gather[5] = gather<32>;
        wide.gather[6] = gather<64>;
        return wide;
    }();
    return &ops;
}

}  // namespace mgi::simd

#else

namespace mgi::simd {

device::TileOps const* avx2_tile_ops() {
    return nullptr;
}

}  // namespace mgi::simd

#endif
