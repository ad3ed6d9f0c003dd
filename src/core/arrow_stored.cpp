#include "core/arrow_stored.hpp"

#include <bit>
#include <cstring>
#include <string>

#include <mgi/device/batch_view.hpp>
#include <mgi/error.hpp>

namespace mgi::arrow {
namespace {

/// A Decimal128: its low half first.
struct Wide {
    std::uint64_t low;
    std::int64_t high;
};

struct Widest {
    Wide low;
    std::int64_t high[2];
};

float float_of(std::uint16_t half) {
    std::uint32_t const sign = std::uint32_t(half & 0x8000u) << 16;
    std::uint32_t const exponent = (half >> 10) & 31u;
    std::uint32_t const fraction = half & 0x3ffu;
    if (exponent == 0) {
        float const value = float(fraction) * 0x1p-24f;
        return sign != 0 ? -value : value;
    }
    std::uint32_t const wide = exponent == 31 ? 255u : exponent + 112;
    return std::bit_cast<float>(sign | wide << 23 | fraction << 13);
}

/// Rounds to the nearest, and to the even of two.
std::uint16_t half_of(float value) {
    auto const bits = std::bit_cast<std::uint32_t>(value);
    auto const sign = std::uint16_t((bits >> 16) & 0x8000u);
    std::uint32_t const size = bits & 0x7fffffffu;
    constexpr std::uint32_t kInfinite = 0x7f800000u;
    if (size > kInfinite) {
        std::uint32_t const fraction = size >> 13 & 0x3ffu;
        return std::uint16_t(sign | 0x7c00u | (fraction != 0 ? fraction : 0x200u));
    }
    if (size >= 0x477ff000u) return std::uint16_t(sign | 0x7c00u);
    if (size < 0x38800000u) {
        // Adding a half moves the fraction to where a subnormal has it.
        auto const moved = std::bit_cast<std::uint32_t>(std::bit_cast<float>(size) + 0.5f);
        return std::uint16_t(sign | (moved - 0x3f000000u));
    }
    std::uint32_t const odd = size >> 13 & 1u;
    return std::uint16_t(sign | ((size - (112u << 23) + 0xfffu + odd) >> 13));
}

template <class To, class From, class Convert>
void const* convert(void const* from, std::int64_t first, std::int64_t count, Room& room,
                    Convert const& value) {
    auto* const out = room.of<To>(std::size_t(count));
    auto const* const in = static_cast<From const*>(from) + first;
    for (std::int64_t i = 0; i < count; ++i) out[i] = value(in[i]);
    return out;
}

void const* bits_of(void const* from, std::int64_t first, std::int64_t count, Room& room) {
    std::uint8_t* const bits = room.bits(std::size_t(count));
    auto const* const in = static_cast<std::uint8_t const*>(from) + first;
    for (std::int64_t i = 0; i < count; ++i) {
        if (in[i] != 0) set_bit(bits, std::size_t(i));
    }
    return bits;
}

void const* bytes_of(void const* from, std::int64_t first, std::int64_t count, Room& room) {
    auto* const out = room.of<std::int8_t>(std::size_t(count));
    auto const* const bits = static_cast<std::uint8_t const*>(from);
    for (std::int64_t i = 0; i < count; ++i) {
        out[i] = device::bit_at(bits, std::uint64_t(first + i)) ? 1 : 0;
    }
    return out;
}

Wide wide_of(std::int64_t value) {
    return {std::uint64_t(value), value < 0 ? -1 : 0};
}

[[noreturn]] void not_stored(Stored stored) {
    throw Error(ErrorCode::InvalidArgument,
                "values stored as " + std::to_string(int(stored)) + " have no width");
}

}  // namespace

std::size_t stored_width(Stored stored) {
    switch (stored) {
        case Stored::Bool8: return 1;
        case Stored::Half: return 2;
        case Stored::Decimal32: return 4;
        case Stored::Decimal64: return 8;
        case Stored::Decimal256: return 32;
        default: not_stored(stored);
    }
}

void const* typed_values(Stored stored, void const* from, std::int64_t first, std::int64_t count,
                         Room& room) {
    switch (stored) {
        case Stored::Bool8: return bits_of(from, first, count, room);
        case Stored::Half: return convert<float, std::uint16_t>(from, first, count, room, float_of);
        case Stored::Decimal32:
            return convert<Wide, std::int32_t>(from, first, count, room, wide_of);
        case Stored::Decimal64:
            return convert<Wide, std::int64_t>(from, first, count, room, wide_of);
        case Stored::Decimal256:
            return convert<Wide, Widest>(from, first, count, room,
                                         [](Widest const& value) { return value.low; });
        default: not_stored(stored);
    }
}

void const* stored_values(Stored stored, void const* from, std::int64_t first, std::int64_t count,
                          Room& room) {
    switch (stored) {
        case Stored::Bool8: return bytes_of(from, first, count, room);
        case Stored::Half: return convert<std::uint16_t, float>(from, first, count, room, half_of);
        case Stored::Decimal32:
            return convert<std::int32_t, Wide>(from, first, count, room, [](Wide const& value) {
                return std::int32_t(std::uint32_t(value.low));
            });
        case Stored::Decimal64:
            return convert<std::int64_t, Wide>(from, first, count, room, [](Wide const& value) {
                return std::int64_t(value.low);
            });
        case Stored::Decimal256:
            return convert<Widest, Wide>(from, first, count, room, [](Wide const& value) {
                std::int64_t const sign = value.high < 0 ? -1 : 0;
                return Widest{value, {sign, sign}};
            });
        default: not_stored(stored);
    }
}

}  // namespace mgi::arrow
