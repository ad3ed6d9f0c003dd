#include "transport/wire/crypto.hpp"

#include <dlfcn.h>
#include <sys/random.h>

#include <cerrno>
#include <system_error>

#include <mgi/error.hpp>

namespace mgi::transport::wire {
namespace {

// As <openssl/hmac.h> and <openssl/evp.h> declare them, in 1.1 and 3 alike.
using Sha256 = void const* (*)();
using Hmac = unsigned char* (*)(void const* hash, void const* key, int key_bytes,
                                unsigned char const* data, std::size_t bytes, unsigned char* out,
                                unsigned int* out_bytes);

struct Libcrypto {
    Sha256 sha256 = nullptr;
    Hmac hmac = nullptr;

    Libcrypto() {
        // Never closed: other libraries of the process may use it as well.
        for (char const* const name : {"libcrypto.so.3", "libcrypto.so.1.1", "libcrypto.so"}) {
            void* const library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
            if (library == nullptr) continue;
            sha256 = reinterpret_cast<Sha256>(dlsym(library, "EVP_sha256"));
            hmac = reinterpret_cast<Hmac>(dlsym(library, "HMAC"));
            if (sha256 != nullptr && hmac != nullptr) return;
        }
        throw Error(
            ErrorCode::NotFound,
            "no libcrypto.so.3, which proves to each other that the two ends of a connection "
            "between servers belong together; on Debian or Ubuntu: apt-get install libssl3");
    }
};

}  // namespace

Digest hmac_sha256(std::span<std::uint8_t const> secret, std::string_view message) {
    static Libcrypto const library;
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

}  // namespace mgi::transport::wire
