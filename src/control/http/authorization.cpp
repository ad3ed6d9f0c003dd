#include "control/http/authorization.hpp"

#include <openssl/evp.h>

#include <cstddef>

#include "core/text.hpp"

namespace mgi::control {

namespace {

constexpr std::size_t kLongest = 1024;

/// The schemes' names have no case.
bool has_scheme(std::string_view text, std::string_view scheme) {
    return lower_case(text.substr(0, scheme.size())) == scheme;
}

/// The password of "user:password" in base64; empty when it is none.
std::string password_of(std::string_view encoded) {
    if (encoded.size() % 4 != 0 || encoded.empty() || encoded.size() > kLongest) return "";
    std::string plain(encoded.size() / 4 * 3, '\0');
    int const size = EVP_DecodeBlock(reinterpret_cast<unsigned char*>(plain.data()),
                                     reinterpret_cast<unsigned char const*>(encoded.data()),
                                     int(encoded.size()));
    if (size < 0) return "";
    std::size_t const padding = encoded.ends_with("==") ? 2 : encoded.ends_with('=') ? 1 : 0;
    plain.resize(std::size_t(size) - padding);
    std::size_t const colon = plain.find(':');
    return colon == std::string::npos ? "" : plain.substr(colon + 1);
}

}  // namespace

std::string token_in(std::string_view authorization) {
    constexpr std::string_view kBearer = "bearer ";
    constexpr std::string_view kBasic = "basic ";
    if (has_scheme(authorization, kBearer))
        return std::string(authorization.substr(kBearer.size()));
    if (has_scheme(authorization, kBasic)) return password_of(authorization.substr(kBasic.size()));
    return "";
}

}  // namespace mgi::control
