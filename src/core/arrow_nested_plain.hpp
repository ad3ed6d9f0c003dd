/// \file
/// Nested values that are all as long, since they have nothing but fixed widths and no null below: columns of many are copied
/// part by part, and not value by value.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <vector>

#include "core/arrow_nested.hpp"

namespace mgi::arrow {

/// So many values are copied together: they stay in a core's nearest cache.
inline constexpr std::int64_t kPlainBlock = 64;
/// Longer values gain nothing by that.
inline constexpr std::size_t kMostPlain = 4096;

/// Bytes of a value's body where no part of it is null; 0 where that is not the same for all.
inline std::size_t plain_size(Nested const& type) {
    if (type.kind == Nested::Kind::Fixed) return type.width;
    if (type.kind != Nested::Kind::Struct) return 0;
    std::size_t size = 0;
    for (Nested const& child : type.children) {
        std::size_t const of_child = plain_size(child);
        if (of_child == 0) return 0;
        size += 1 + of_child;  // a byte says that it is valid
    }
    return size;
}

/// Calls `copy(width)` with a constant for usual ones, so that the compiler knows it.
template <class Copy>
void with_width(std::size_t width, Copy const& copy) {
    switch (width) {
        case 1: return copy(std::integral_constant<std::size_t, 1>());
        case 2: return copy(std::integral_constant<std::size_t, 2>());
        case 4: return copy(std::integral_constant<std::size_t, 4>());
        case 8: return copy(std::integral_constant<std::size_t, 8>());
        case 16: return copy(std::integral_constant<std::size_t, 16>());
        default: return copy(width);
    }
}

/// A part of fixed width: where an array has its values. So many zero bytes stand before each: that it is valid, and so are the
/// structs that begin with it.
struct PlainPart {
    std::byte const* from;
    std::size_t width;
    std::size_t flags;
};

/// Copies the parts of `count` values of `size` bytes behind each other: a few values part by part, which stay in the nearest cache,
/// so that memory is written in its order.
inline void put_together(std::vector<PlainPart> const& parts, std::size_t size, std::int64_t count,
                         std::byte* to) {
    constexpr std::int64_t kFew = 16;
    for (std::int64_t first = 0; first < count; first += kFew) {
        std::int64_t const few = std::min(kFew, count - first);
        std::memset(to, 0, std::size_t(few) * size);
        std::byte* part_to = to;
        for (PlainPart const& part : parts) {
            part_to += part.flags;
            std::byte const* const part_from = part.from + std::size_t(first) * part.width;
            with_width(part.width, [=](auto bytes) {
                std::byte const* from = part_from;
                std::byte* at = part_to;
                for (std::int64_t i = 0; i < few; ++i, at += size, from += bytes) {
                    std::memcpy(at, from, bytes);
                }
            });
            part_to += part.width;
        }
        to += std::size_t(few) * size;
    }
}

/// The way back, from `offset` bytes behind each of these addresses.
inline void gather(std::byte const* const* from, std::size_t offset, std::size_t width,
                   std::int64_t count, std::byte* to) {
    // Copies of its own: bytes that are written could be anything's.
    with_width(width, [=](auto bytes) {
        std::byte* at = to;
        for (std::int64_t i = 0; i < count; ++i, at += bytes) {
            std::memcpy(at, from[i] + offset, bytes);
        }
    });
}

/// Whether values of this type that begin `offset` bytes behind each of these addresses have no null below.
inline bool are_plain(Nested const& type, std::byte const* const* from, std::size_t offset,
                      std::int64_t count) {
    for (Nested const& child : type.children) {
        std::byte flags{};
        for (std::int64_t i = 0; i < count; ++i) flags |= from[i][offset];
        if (flags != std::byte{0} || !are_plain(child, from, offset + 1, count)) return false;
        offset += 1 + plain_size(child);
    }
    return true;
}

}  // namespace mgi::arrow
