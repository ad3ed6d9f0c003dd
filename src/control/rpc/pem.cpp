#include "control/rpc/pem.hpp"

#include <fmt/format.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <sys/stat.h>

#include "core/log.hpp"
#include "core/text.hpp"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <utility>

#include <mgi/error.hpp>

namespace mgi::control {

namespace {

constexpr std::streamoff kLargestFile = 1 << 20;

template <auto Free>
struct Freed {
    template <class T>
    void operator()(T* owned) const {
        Free(owned);
    }
};
using Bio = std::unique_ptr<BIO, Freed<BIO_free_all>>;
using Certificate = std::unique_ptr<X509, Freed<X509_free>>;
using Key = std::unique_ptr<EVP_PKEY, Freed<EVP_PKEY_free>>;

[[noreturn]] void refuse(std::string const& text) {
    throw Error(ErrorCode::InvalidArgument, text);
}

std::string read_file(std::string const& file, char const* what) {
    std::ifstream in(file, std::ios::binary | std::ios::ate);
    if (!in) refuse(fmt::format("{} file {}: {}", what, file, std::strerror(errno)));
    std::streamoff const size = in.tellg();
    if (size < 0 || size > kLargestFile) {
        refuse(fmt::format("{} file {}: not a file of at most 1 MiB", what, file));
    }
    std::string content(std::size_t(size), '\0');
    in.seekg(0);
    if (!in.read(content.data(), size)) {
        refuse(fmt::format("{} file {}: {}", what, file, std::strerror(errno)));
    }
    return plain_text(std::move(content));
}

Bio text_of(std::string const& text) {
    return Bio(BIO_new_mem_buf(text.data(), int(text.size())));
}

/// A key with a passphrase is refused, and asks nobody for it.
int no_passphrase(char*, int, int, void*) {
    return -1;
}

Certificate next_certificate(BIO* text) {
    Certificate found(PEM_read_bio_X509(text, nullptr, no_passphrase, nullptr));
    ERR_clear_error();
    return found;
}

}  // namespace

std::string read_certificates(std::string const& file) {
    std::string content = read_file(file, "certificate");
    Bio const text = text_of(content);
    int count = 0;
    while (Certificate const certificate = next_certificate(text.get())) {
        ++count;
        // X509_cmp_current_time: negative is the past, zero an unreadable date.
        if (X509_cmp_current_time(X509_get0_notAfter(certificate.get())) <= 0) {
            refuse(
                fmt::format("certificate file {}: certificate {} in it is out of date; `openssl "
                            "x509 -enddate -noout -in {}` says since when",
                            file, count, file));
        }
        if (X509_cmp_current_time(X509_get0_notBefore(certificate.get())) >= 0) {
            log::warn(
                "certificate file {}: certificate {} in it is not valid yet; is this "
                "machine's clock right?",
                file, count);
        }
    }
    if (count == 0) refuse(fmt::format("certificate file {}: no PEM certificate in it", file));
    return content;
}

std::string read_secret(std::string const& file, char const* what) {
    std::string content = read_file(file, what);
    struct stat about{};
    if (stat(file.c_str(), &about) == 0 && (about.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
        log::warn("{} file {}: others on this machine can read it; chmod 600", what, file);
    }
    return content;
}

void check_key(std::string const& certificate_file, std::string const& certificate,
               std::string const& key_file, std::string const& key) {
    Bio const text = text_of(key);
    Key const found(PEM_read_bio_PrivateKey(text.get(), nullptr, no_passphrase, nullptr));
    ERR_clear_error();
    if (!found) {
        refuse(fmt::format("key file {}: no private key in PEM without a passphrase", key_file));
    }
    Bio const chain = text_of(certificate);
    Certificate const first = next_certificate(chain.get());
    bool const fits = X509_check_private_key(first.get(), found.get()) == 1;
    ERR_clear_error();
    if (!fits) {
        refuse(fmt::format("key file {}: not the key of the certificate in {}", key_file,
                           certificate_file));
    }
}

}  // namespace mgi::control
