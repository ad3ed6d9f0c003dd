#include "authority.hpp"

#include <openssl/bio.h>
#include <openssl/ec.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <atomic>
#include <stdexcept>

namespace mgi::test {

namespace {

constexpr long kYesterday = -86'400;

void set_name(X509* certificate, std::string const& name) {
    X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate), "CN", MBSTRING_UTF8,
                               reinterpret_cast<unsigned char const*>(name.c_str()), -1, -1, 0);
}

void add_extension(X509* certificate, int kind, std::string const& value) {
    X509_EXTENSION* const extension = X509V3_EXT_conf_nid(nullptr, nullptr, kind, value.c_str());
    if (extension == nullptr) throw std::runtime_error("openssl: extension " + value);
    X509_add_ext(certificate, extension, -1);
    X509_EXTENSION_free(extension);
}

X509* new_certificate(std::string const& name, EVP_PKEY* key, long seconds) {
    static std::atomic<long> serial{1};
    X509* const made = X509_new();
    X509_set_version(made, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(made), serial++);
    X509_gmtime_adj(X509_getm_notBefore(made), kYesterday);
    X509_gmtime_adj(X509_getm_notAfter(made), seconds);
    X509_set_pubkey(made, key);
    set_name(made, name);
    return made;
}

template <class Write>
std::string pem(Write&& write) {
    BIO* const memory = BIO_new(BIO_s_mem());
    write(memory);
    char* data = nullptr;
    long const size = BIO_get_mem_data(memory, &data);
    std::string text(data, std::size_t(size));
    BIO_free(memory);
    return text;
}

std::string pem_of(X509* certificate) {
    return pem([&](BIO* out) { PEM_write_bio_X509(out, certificate); });
}

}  // namespace

Authority::Authority(TemporaryFolder const& folder, std::string const& name)
    : folder_(folder), key_(EVP_EC_gen("P-256")), certificate_(new_certificate(name, key_, 3600)) {
    X509_set_issuer_name(certificate_, X509_get_subject_name(certificate_));
    add_extension(certificate_, NID_basic_constraints, "critical,CA:TRUE");
    X509_sign(certificate_, key_, EVP_sha256());
    file_ = folder_.write(name + ".pem", pem_of(certificate_));
}

Authority::~Authority() {
    X509_free(certificate_);
    EVP_PKEY_free(key_);
}

Issued Authority::issue(std::string const& name, std::string const& host, long seconds) const {
    EVP_PKEY* const key = EVP_EC_gen("P-256");
    X509* const made = new_certificate(name, key, seconds);
    X509_set_issuer_name(made, X509_get_subject_name(certificate_));
    bool const has_kind = host.find(':') != std::string::npos;
    add_extension(made, NID_subject_alt_name, has_kind ? host : "DNS:" + host);
    X509_sign(made, key_, EVP_sha256());
    Issued issued{folder_.write(name + ".pem", pem_of(made)),
                  folder_.write(name + ".key", pem([&](BIO* out) {
                                    PEM_write_bio_PrivateKey(out, key, nullptr, nullptr, 0, nullptr,
                                                             nullptr);
                                }))};
    X509_free(made);
    EVP_PKEY_free(key);
    return issued;
}

}  // namespace mgi::test
