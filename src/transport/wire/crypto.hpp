// What a wire's handshake and an agent's tickets prove with: HMAC-SHA256 from the system's libcrypto, opened at run time, so
// that libmgi links nothing for it; and random numbers of the kernel's.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

namespace mgi::transport::wire {

using Secret = std::array<std::uint8_t, 32>;
using Digest = std::array<std::uint8_t, 32>;

// Throws Error(NotFound) that says what to install where there is no libcrypto. Thread-safe.
[[nodiscard]] Digest hmac_sha256(std::span<std::uint8_t const> secret, std::string_view message);

// Throws Error(Internal) where the kernel has none.
void fill_random(std::span<std::uint8_t> bytes);

// Takes the same time wherever they differ.
[[nodiscard]] bool same(std::span<std::uint8_t const> a, std::span<std::uint8_t const> b);

}  // namespace mgi::transport::wire
