#include "transport/wire/libcrypto.hpp"

#include <dlfcn.h>

#include <mgi/error.hpp>

namespace mgi::transport::wire {
namespace {

template <class Function>
bool find(void* library, char const* name, Function*& function) {
    function = reinterpret_cast<Function*>(dlsym(library, name));
    return function != nullptr;
}

}  // namespace

Libcrypto const& Libcrypto::get() {
    static Libcrypto const library;
    return library;
}

Libcrypto::Libcrypto() {
    // Never closed: other libraries of the process may use it as well.
    for (char const* const name : {"libcrypto.so.3", "libcrypto.so.1.1", "libcrypto.so"}) {
        void* const library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
        if (library != nullptr && load(library)) return;
    }
    throw Error(ErrorCode::NotFound,
                "no libcrypto.so.3, which proves to each other that the two ends of a connection "
                "between servers belong together; on Debian or Ubuntu: apt-get install libssl3");
}

bool Libcrypto::load(void* library) {
    return find(library, "EVP_sha256", sha256) && find(library, "HMAC", hmac) &&
           find(library, "EVP_aes_256_gcm", aes_256_gcm) &&
           find(library, "EVP_CIPHER_CTX_new", cipher_new) &&
           find(library, "EVP_CIPHER_CTX_free", cipher_free) &&
           find(library, "EVP_CipherInit_ex", cipher_init) &&
           find(library, "EVP_CipherUpdate", cipher_update) &&
           find(library, "EVP_CipherFinal_ex", cipher_final) &&
           find(library, "EVP_CIPHER_CTX_ctrl", cipher_control) &&
           find(library, "EVP_PKEY_new_raw_private_key", private_key) &&
           find(library, "EVP_PKEY_new_raw_public_key", public_key) &&
           find(library, "EVP_PKEY_get_raw_public_key", public_of) &&
           find(library, "EVP_PKEY_free", key_free) &&
           find(library, "EVP_PKEY_CTX_new", derive_new) &&
           find(library, "EVP_PKEY_CTX_free", derive_free) &&
           find(library, "EVP_PKEY_derive_init", derive_init) &&
           find(library, "EVP_PKEY_derive_set_peer", derive_peer) &&
           find(library, "EVP_PKEY_derive", derive);
}

}  // namespace mgi::transport::wire
