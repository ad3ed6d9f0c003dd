// What a wire's handshake and an agent's tickets prove with: HMAC-SHA256 from the system's libcrypto; random numbers of
// the kernel's; and X25519, by which the two ends of an encrypted wire agree on a secret of their own.
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

// Overwrites a secret that is not needed any more; the compiler does not leave that out.
void wipe(std::span<std::uint8_t> bytes);

// A key of X25519 for one connection. Who records the connection and later learns the link's secret cannot compute what
// the two ends have agreed on, since this key is gone by then.
class OneTimeKey {
public:
    // Throws Error as hmac_sha256 and fill_random.
    OneTimeKey();
    ~OneTimeKey();
    OneTimeKey(OneTimeKey const&) = delete;
    OneTimeKey& operator=(OneTimeKey const&) = delete;

    // May be known to all.
    [[nodiscard]] std::array<std::uint8_t, 32> const& public_key() const { return public_; }
    // What only the owners of the two keys can compute. Throws Error(Refused) for a public key that gives no secret.
    [[nodiscard]] Secret agree(std::span<std::uint8_t const, 32> far_public_key) const;

private:
    Secret private_{};
    std::array<std::uint8_t, 32> public_{};
};

}  // namespace mgi::transport::wire
