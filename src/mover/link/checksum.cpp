#include "mover/link/checksum.hpp"

#include <array>
#include <cstring>

#if defined(__SSE4_2__)
#include <nmmintrin.h>
#endif

namespace mgi::mover::link {

#if defined(__SSE4_2__)

std::uint32_t crc32c(std::uint32_t sum, void const* data, std::size_t bytes) {
    auto const* at = static_cast<unsigned char const*>(data);
    std::uint64_t crc = ~sum;
    for (; bytes >= 8; bytes -= 8, at += 8) {
        std::uint64_t word = 0;
        std::memcpy(&word, at, 8);
        crc = _mm_crc32_u64(crc, word);
    }
    for (; bytes != 0; --bytes, ++at) crc = _mm_crc32_u8(std::uint32_t(crc), *at);
    return ~std::uint32_t(crc);
}

#else

namespace {

constexpr std::array<std::uint32_t, 256> make_table() {
    std::array<std::uint32_t, 256> table{};
    for (std::uint32_t i = 0; i < 256; ++i) {
        std::uint32_t crc = i;
        for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ ((crc & 1) != 0 ? 0x82f63b78U : 0);
        table[i] = crc;
    }
    return table;
}

}  // namespace

std::uint32_t crc32c(std::uint32_t sum, void const* data, std::size_t bytes) {
    static constexpr auto kTable = make_table();
    auto const* at = static_cast<unsigned char const*>(data);
    std::uint32_t crc = ~sum;
    for (; bytes != 0; --bytes, ++at) crc = crc >> 8 ^ kTable[(crc ^ *at) & 0xff];
    return ~crc;
}

#endif

}  // namespace mgi::mover::link
