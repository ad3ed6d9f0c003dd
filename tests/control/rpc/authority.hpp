/// \file
/// A certificate authority for tests: issues certificates into files of a temporary folder.
#pragma once

#include <openssl/evp.h>
#include <openssl/x509.h>

#include <string>

#include "support/temporary_folder.hpp"

namespace mgi::test {

inline constexpr char const* kToken = "0123456789abcdef0123456789abcdef";

/// Where a certificate and its key are.
struct Issued {
    std::string certificate;
    std::string key;
};

class Authority {
public:
    Authority(TemporaryFolder const& folder, std::string const& name);
    ~Authority();
    Authority(Authority const&) = delete;
    Authority& operator=(Authority const&) = delete;

    /// The file to trust.
    [[nodiscard]] std::string const& file() const { return file_; }
    /// A certificate for `host` ("localhost", "IP:127.0.0.1"), good for so many seconds from now (negative: over).
    [[nodiscard]] Issued issue(std::string const& name, std::string const& host = "localhost",
                               long seconds = 3600) const;

private:
    TemporaryFolder const& folder_;
    std::string file_;
    EVP_PKEY* key_;
    X509* certificate_;
};

}  // namespace mgi::test
