#include "transport/wire/crypto.hpp"

#include <string.h>
#include <sys/random.h>

#include <cerrno>
#include <memory>
#include <system_error>

#include <mgi/error.hpp>

#include "transport/wire/libcrypto.hpp"

namespace mgi::transport::wire {
namespace {

using Key = std::unique_ptr<void, void (*)(void*)>;

Key private_key_of(Secret const& secret) {
    Libcrypto const& library = Libcrypto::get();
    Key key(library.private_key(Libcrypto::kX25519, nullptr, secret.data(), secret.size()),
            library.key_free);
    if (!key) throw Error(ErrorCode::Internal, "libcrypto has no X25519; is it allowed to here?");
    return key;
}

}  // namespace

Digest hmac_sha256(std::span<std::uint8_t const> secret, std::string_view message) {
    Libcrypto const& library = Libcrypto::get();
    Digest digest{};
    unsigned int bytes = 0;
    auto const* const data = reinterpret_cast<unsigned char const*>(message.data());
    unsigned char const* const made =
        library.hmac(library.sha256(), secret.data(), int(secret.size()), data, message.size(),
                     digest.data(), &bytes);
    if (made == nullptr || bytes != digest.size()) {
        throw Error(ErrorCode::Internal, "libcrypto makes no HMAC-SHA256; is it allowed to here?");
    }
    return digest;
}

void fill_random(std::span<std::uint8_t> bytes) {
    while (!bytes.empty()) {
        ssize_t const got = getrandom(bytes.data(), bytes.size(), 0);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) {
            throw Error(ErrorCode::Internal, "the system gives no random numbers: " +
                                                 std::system_category().message(errno));
        }
        bytes = bytes.subspan(std::size_t(got));
    }
}

bool same(std::span<std::uint8_t const> a, std::span<std::uint8_t const> b) {
    if (a.size() != b.size()) return false;
    std::uint8_t differ = 0;
    for (std::size_t i = 0; i < a.size(); ++i) differ |= std::uint8_t(a[i] ^ b[i]);
    return differ == 0;
}

void wipe(std::span<std::uint8_t> bytes) {
    explicit_bzero(bytes.data(), bytes.size());
}

OneTimeKey::OneTimeKey() {
    fill_random(private_);
    std::size_t bytes = public_.size();
    if (Libcrypto::get().public_of(private_key_of(private_).get(), public_.data(), &bytes) != 1) {
        throw Error(ErrorCode::Internal, "libcrypto makes no key of X25519");
    }
}

OneTimeKey::~OneTimeKey() {
    wipe(private_);
}

Secret OneTimeKey::agree(std::span<std::uint8_t const, 32> far_public_key) const {
    Libcrypto const& library = Libcrypto::get();
    Key const ours = private_key_of(private_);
    Key const theirs(library.public_key(Libcrypto::kX25519, nullptr, far_public_key.data(),
                                        far_public_key.size()),
                     library.key_free);
    Key const derive(library.derive_new(ours.get(), nullptr), library.derive_free);
    Secret secret{};
    std::size_t bytes = secret.size();
    // Fails for the few public keys with which every private one gives zero.
    if (!theirs || !derive || library.derive_init(derive.get()) != 1 ||
        library.derive_peer(derive.get(), theirs.get()) != 1 ||
        library.derive(derive.get(), secret.data(), &bytes) != 1 || bytes != secret.size()) {
        throw Error(ErrorCode::Refused, "its one-time key is of no use");
    }
    return secret;
}

}  // namespace mgi::transport::wire
