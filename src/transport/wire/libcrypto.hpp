// The functions of OpenSSL's libcrypto that wires use. The library is opened at run time, so that libmgi neither links it
// nor needs its headers.
#pragma once

#include <cstddef>

namespace mgi::transport::wire {

// As <openssl/hmac.h> and <openssl/evp.h> declare them, in 1.1.1 and 3 alike; what points to their types is void here.
struct Libcrypto {
    // Opened at the first call. Throws Error(NotFound) that says what to install. Thread-safe.
    static Libcrypto const& get();

    void const* (*sha256)() = nullptr;
    unsigned char* (*hmac)(void const* hash, void const* key, int key_bytes,
                           unsigned char const* data, std::size_t bytes, unsigned char* out,
                           unsigned int* out_bytes) = nullptr;

    void const* (*aes_256_gcm)() = nullptr;
    void* (*cipher_new)() = nullptr;
    void (*cipher_free)(void* cipher) = nullptr;
    // `encrypts` is 1, 0, or -1 for what it was.
    int (*cipher_init)(void* cipher, void const* kind, void* engine, unsigned char const* key,
                       unsigned char const* nonce, int encrypts) = nullptr;
    int (*cipher_update)(void* cipher, unsigned char* out, int* out_bytes, unsigned char const* in,
                         int bytes) = nullptr;
    int (*cipher_final)(void* cipher, unsigned char* out, int* out_bytes) = nullptr;
    int (*cipher_control)(void* cipher, int what, int bytes, void* data) = nullptr;
    static constexpr int kGetTag = 0x10;
    static constexpr int kSetTag = 0x11;

    void* (*private_key)(int kind, void* engine, unsigned char const* key,
                         std::size_t bytes) = nullptr;
    void* (*public_key)(int kind, void* engine, unsigned char const* key,
                        std::size_t bytes) = nullptr;
    int (*public_of)(void const* key, unsigned char* out, std::size_t* bytes) = nullptr;
    void (*key_free)(void* key) = nullptr;
    void* (*derive_new)(void* key, void* engine) = nullptr;
    void (*derive_free)(void* derive) = nullptr;
    int (*derive_init)(void* derive) = nullptr;
    int (*derive_peer)(void* derive, void* public_key) = nullptr;
    int (*derive)(void* derive, unsigned char* out, std::size_t* bytes) = nullptr;
    static constexpr int kX25519 = 1034;

private:
    Libcrypto();
    bool load(void* library);
};

}  // namespace mgi::transport::wire
