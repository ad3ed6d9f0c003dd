/// \file
/// What nested values are written and read with.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>
#include <vector>

#include <mgi/device/config.hpp>

#include "core/buffer.hpp"

namespace mgi::arrow {

/// So many rows are written or read together, part by part: their bytes stay in a core's nearest cache.
inline constexpr std::int64_t kBlockRows = 64;
/// Of longer rows fewer make a block, so that not many times what one of them takes is scratch memory.
inline constexpr std::size_t kLongRow = 4096;
/// After rows that took so many bytes.
inline std::int64_t rows_of_block(std::size_t bytes, std::int64_t rows = 1) {
    if (bytes <= kLongRow * std::size_t(rows)) return kBlockRows;
    double const each = double(bytes) / double(rows);
    return std::max<std::int64_t>(1, std::int64_t(double(kBlockRows * kLongRow) / each));
}

/// Bytes in one piece, which grows.
class Bytes {
public:
    [[nodiscard]] std::size_t size() const { return size_; }
    [[nodiscard]] std::byte const* data() const { return room_.as<std::byte>(); }
    /// Not initialized.
    [[nodiscard]] std::byte* add(std::size_t bytes) {
        if (bytes > room_.bytes() - size_) grow(bytes);
        std::byte* const at = room_.as<std::byte>() + size_;
        size_ += bytes;
        return at;
    }
    void reserve(std::size_t bytes) {
        if (bytes > room_.bytes() - size_) grow(bytes);
    }
    /// For so many times what there is.
    void reserve_times(double times) { reserve(std::size_t(double(size_) * times)); }
    void add(void const* from, std::size_t bytes) {
        if (bytes != 0) std::memcpy(add(bytes), from, bytes);
    }
    void add_zeros(std::size_t bytes) {
        if (bytes != 0) std::memset(add(bytes), 0, bytes);
    }
    template <class T>
    void add_value(T const& value) {
        std::memcpy(add(sizeof value), &value, sizeof value);
    }
    void clear() { size_ = 0; }
    [[nodiscard]] Buffer take() && { return std::move(room_); }

private:
    void grow(std::size_t bytes) {
        Buffer larger(std::max<std::size_t>(2 * room_.bytes(), size_ + bytes + 4096), false);
        if (size_ != 0) std::memcpy(larger.data(), room_.data(), size_);
        room_ = std::move(larger);
    }

    Buffer room_;
    std::size_t size_ = 0;
};

/// As a vector is, but what adds to it is inlined.
template <class T>
class Grown {
public:
    void clear() { size_ = 0; }
    void add(T const& value) {
        if (size_ == all_.size()) grow();
        all_[size_++] = value;
    }
    [[nodiscard]] std::size_t size() const { return size_; }
    [[nodiscard]] T* data() { return all_.data(); }
    [[nodiscard]] T const* data() const { return all_.data(); }
    [[nodiscard]] T& back() { return all_[size_ - 1]; }

private:
    MGI_COLD void grow() { all_.resize(2 * size_ + std::size_t(kBlockRows)); }

    std::vector<T> all_;
    std::size_t size_ = 0;
};

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

/// The value there, which need not be aligned.
template <class T>
T load_at(T const* values, std::int64_t i) {
    T value;
    std::memcpy(&value, reinterpret_cast<std::byte const*>(values) + i * std::int64_t(sizeof(T)),
                sizeof value);
    return value;
}

/// Of offsets that say anything; only where neither is negative is it a length.
inline std::int64_t difference(std::int64_t end, std::int64_t begin) {
    return std::int64_t(std::uint64_t(end) - std::uint64_t(begin));
}

/// So many bits at a time are looked at: however they lie, 8 bytes have them.
inline constexpr std::int64_t kBitsOfWord = 56;

/// Of at most kBitsOfWord.
inline std::uint64_t ones(std::int64_t count) {
    return (std::uint64_t{1} << count) - 1;
}
inline std::size_t bytes_of_bits(std::int64_t bits) {
    return std::size_t(bits + 7) / 8;
}

/// Bits [at, at + count), at most kBitsOfWord, and zeros above them; reads no byte but theirs.
inline std::uint64_t bits_at(std::uint8_t const* bits, std::uint64_t at, std::int64_t count) {
    static_assert(std::endian::native == std::endian::little);
    std::uint8_t const* const from = bits + at / 8;
    std::size_t const bytes = (at % 8 + std::size_t(count) + 7) / 8;
    std::uint64_t word = 0;
    if (bytes == sizeof word) {
        std::memcpy(&word, from, sizeof word);
    } else {
        for (std::size_t i = 0; i < bytes; ++i) word |= std::uint64_t(from[i]) << 8 * i;
    }
    return word >> at % 8 & ones(count);
}

inline std::int64_t count_ones(std::uint8_t const* bits, std::int64_t count) {
    std::int64_t sum = 0;
    for (std::int64_t first = 0; first < count; first += kBitsOfWord) {
        std::int64_t const few = std::min(kBitsOfWord, count - first);
        sum += std::popcount(bits_at(bits, std::uint64_t(first), few));
    }
    return sum;
}

/// Calls `each(first, count)` for every run of ones among the bits [at, at + count), counted from `at`.
template <class Each>
void each_run(std::uint8_t const* bits, std::uint64_t at, std::int64_t count, Each const& each) {
    for (std::int64_t first = 0; first < count; first += kBitsOfWord) {
        std::uint64_t word = bits_at(bits, at + std::uint64_t(first),
                                     std::min<std::int64_t>(kBitsOfWord, count - first));
        for (std::int64_t i = first; word != 0;) {
            int const skip = std::countr_zero(word);
            int const ones = std::countr_one(word >> skip);
            each(i + skip, std::int64_t(ones));
            i += skip + ones;
            word >>= skip + ones;
        }
    }
}

}  // namespace mgi::arrow
