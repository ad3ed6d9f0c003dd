/// \file
/// Which destination a row goes to: murmur3, or the paper's modulo of the key (section 3.1, "Send
/// Semantics"). Equal values hash alike whatever their integer width, so that both sides of a join
/// may differ in it.
#pragma once

#include <mgi/device/batch_view.hpp>
#include <mgi/device/values.hpp>

namespace mgi::device {

/// Murmur3's 64-bit finalizer.
MGI_HD constexpr u64 murmur3_mix(u64 x) {
    x ^= x >> 33;
    x *= 0xff51afd7ed558ccdULL;
    x ^= x >> 33;
    x *= 0xc4ceb9fe1a85ec53ULL;
    x ^= x >> 33;
    return x;
}

MGI_HD constexpr u64 rotate_left(u64 x, int by) {
    return x << by | x >> (64 - by);
}

/// MurmurHash3_x64_128 (Austin Appleby, public domain algorithm), first 64 bits, seed 0, of what `load(at, bytes)` reads: up to 8
/// bytes at an address, the others 0.
template <class Load>
MGI_HD u64 murmur3_of(char const* data, u32 size, Load const& load) {
    constexpr u64 c1 = 0x87c37b91114253d5ULL;
    constexpr u64 c2 = 0x4cf5ad432745937fULL;
    u64 h1 = 0;
    u64 h2 = 0;
    u32 const blocks = size / 16;
    for (u32 i = 0; i < blocks; ++i) {
        u64 const k1 = load(data + 16 * i, 8);
        u64 const k2 = load(data + 16 * i + 8, 8);
        h1 ^= rotate_left(k1 * c1, 31) * c2;
        h1 = (rotate_left(h1, 27) + h2) * 5 + 0x52dce729;
        h2 ^= rotate_left(k2 * c2, 33) * c1;
        h2 = (rotate_left(h2, 31) + h1) * 5 + 0x38495ab5;
    }
    char const* const tail = data + 16 * blocks;
    u32 const rest = size % 16;
    u64 const k1 = load(tail, min_of(rest, 8u));
    u64 const k2 = rest > 8 ? load(tail + 8, rest - 8) : 0;
    h2 ^= rotate_left(k2 * c2, 33) * c1;
    h1 ^= rotate_left(k1 * c1, 31) * c2;
    h1 ^= size;
    h2 ^= size;
    h1 += h2;
    h2 += h1;
    h1 = murmur3_mix(h1);
    h2 = murmur3_mix(h2);
    return h1 + h2;
}

/// The same of bytes.
MGI_HD inline u64 murmur3_bytes(char const* data, u32 size) {
    return murmur3_of(data, size, [](char const* at, u32 bytes) {
        u64 word = 0;
        if (bytes != 0) memcpy(&word, at, bytes);  // an empty value may have no address
        return word;
    });
}

MGI_HD inline i64 load_signed(char const* at, u32 width) {
    switch (width) {
        case 1: return static_cast<signed char>(*at);
        case 2: return load_value<std::int16_t>(at);
        case 4: return load_value<std::int32_t>(at);
        default: return load_value<i64>(at);
    }
}

MGI_HD inline u64 load_unsigned(char const* at, u32 width) {
    switch (width) {
        case 1: return static_cast<u8>(*at);
        case 2: return load_value<u16>(at);
        case 4: return load_value<u32>(at);
        default: return load_value<u64>(at);
    }
}

/// Bits of a float as a double's; every NaN alike, and -0 like 0.
MGI_HD inline u64 load_float(char const* at, u32 width) {
    double const value = width == 4 ? double(load_value<float>(at)) : load_value<double>(at);
    if (value == 0) return 0;
    if (value != value) return 0x7ff8000000000000ULL;
    u64 bits;
    memcpy(&bits, &value, 8);
    return bits;
}

/// Hash of a null key.
inline constexpr u64 kNullHash = 0x9e3779b97f4a7c15ULL;

/// Murmur3 of one value of a column.
MGI_HD inline u64 hash_value(Batch const& batch, ColumnLayout const& layout, u32 column, u64 row) {
    if (!batch.valid(column, row)) return kNullHash;
    switch (layout.key) {
        case KeyKind::Bool: return murmur3_mix(batch.bit(layout, column, row) ? 1 : 0);
        case KeyKind::Signed:
            return murmur3_mix(u64(load_signed(batch.fixed(layout, column, row), layout.width)));
        case KeyKind::Unsigned:
            return murmur3_mix(load_unsigned(batch.fixed(layout, column, row), layout.width));
        case KeyKind::Float:
            return murmur3_mix(load_float(batch.fixed(layout, column, row), layout.width));
        case KeyKind::Bytes: return murmur3_bytes(batch.fixed(layout, column, row), layout.width);
        default: {
            Text const text = batch.text(layout, column, row);
            return murmur3_bytes(text.data, text.size);
        }
    }
}

/// Joins the hash of a further key column to that of the ones before it.
MGI_HD constexpr u64 hash_combine(u64 seed, u64 hash) {
    return murmur3_mix(seed ^ (hash + 0x9e3779b97f4a7c15ULL + (seed << 6) + (seed >> 2)));
}

/// Destination index of a hash: its high half scaled to [0, destinations). The low half is left to
/// hash tables at the destination.
MGI_HD constexpr u32 destination_of_hash(u64 hash, u32 destinations) {
    return u32(((hash >> 32) * destinations) >> 32);
}

/// Destination index of an integer key, never negative; nulls go to destination 0.
MGI_HD inline u32 destination_of_modulo(Batch const& batch, ColumnLayout const& layout, u32 column,
                                        u64 row, u32 destinations) {
    if (!batch.valid(column, row)) return 0;
    if (layout.key == KeyKind::Bool) return batch.bit(layout, column, row) % destinations;
    char const* at = batch.fixed(layout, column, row);
    if (layout.key == KeyKind::Unsigned) return u32(load_unsigned(at, layout.width) % destinations);
    i64 const rest = load_signed(at, layout.width) % i64(destinations);
    return u32(rest < 0 ? rest + destinations : rest);
}

}  // namespace mgi::device
