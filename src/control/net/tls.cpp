#include "control/net/tls.hpp"

#include <fmt/format.h>
#include <openssl/bio.h>
#include <openssl/core_names.h>
#include <openssl/err.h>
#include <openssl/kdf.h>
#include <openssl/params.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include <mgi/error.hpp>

#include "control/net/address.hpp"

namespace mgi::control::net {

namespace {

constexpr char const* kIdentity = "mgi control 1";
constexpr std::size_t kKeySize = 32;
constexpr unsigned char kCipherId[2] = {0x13, 0x01};  // TLS_AES_128_GCM_SHA256
constexpr char const* kCipherName = "TLS_AES_128_GCM_SHA256";

std::string openssl_says() {
    unsigned long const code = ERR_get_error();
    ERR_clear_error();
    if (code == 0) return "no reason given";
    char const* const reason = ERR_reason_error_string(code);
    return reason != nullptr ? reason : fmt::format("OpenSSL's error {:x}", code);
}

void require(bool good, char const* what) {
    if (good) return;
    throw Error(ErrorCode::InvalidArgument, fmt::format("TLS: {}: {}", what, openssl_says()));
}

BIO* text_of(std::string const& text) {
    return BIO_new_mem_buf(text.data(), static_cast<int>(text.size()));
}

int no_passphrase(char*, int, int, void*) {
    return -1;
}

/// Each certificate of a PEM text; `use` says whether it could use it.
template <class Use>
int each_certificate(std::string const& pem, Use&& use) {
    BIO* const text = text_of(pem);
    int count = 0;
    while (X509* const one = PEM_read_bio_X509(text, nullptr, no_passphrase, nullptr)) {
        bool const good = use(one);
        X509_free(one);
        if (!good) break;
        ++count;
    }
    BIO_free(text);
    ERR_clear_error();  // the end of the text is an error, too
    return count;
}

void use_own(SSL_CTX* context, Tls::Own const& own) {
    bool first = true;
    int const count = each_certificate(own.certificate, [&](X509* one) {
        if (std::exchange(first, false)) return SSL_CTX_use_certificate(context, one) == 1;
        return SSL_CTX_add1_chain_cert(context, one) == 1;
    });
    require(count > 0, "the certificate cannot be used");
    BIO* const text = text_of(own.key);
    EVP_PKEY* const key = PEM_read_bio_PrivateKey(text, nullptr, no_passphrase, nullptr);
    BIO_free(text);
    bool const good = key != nullptr && SSL_CTX_use_PrivateKey(context, key) == 1;
    EVP_PKEY_free(key);
    require(good, "the key cannot be used");
}

void trust(SSL_CTX* context, std::string const& ca, bool is_server) {
    X509_STORE* const store = SSL_CTX_get_cert_store(context);
    // An intermediate authority may be the one that is trusted.
    X509_STORE_set_flags(store, X509_V_FLAG_PARTIAL_CHAIN | X509_V_FLAG_TRUSTED_FIRST);
    int const count = each_certificate(ca, [&](X509* one) {
        if (is_server) SSL_CTX_add_client_CA(context, one);
        return X509_STORE_add_cert(store, one) == 1;
    });
    require(count > 0, "the CA's certificate cannot be used");
}

/// HKDF-SHA256: the token itself is no key of the right size, and is used for nothing else this way.
std::string derived(std::string_view token) {
    EVP_KDF* const kdf = EVP_KDF_fetch(nullptr, "HKDF", nullptr);
    EVP_KDF_CTX* const context = EVP_KDF_CTX_new(kdf);
    EVP_KDF_free(kdf);
    std::string digest = "SHA256";
    std::string secret(token);
    std::string label = kIdentity;
    std::array<OSSL_PARAM, 4> parameters{
        OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, digest.data(), digest.size()),
        OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_KEY, secret.data(), secret.size()),
        OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_INFO, label.data(), label.size()),
        OSSL_PARAM_construct_end()};
    std::string key(kKeySize, '\0');
    bool const good = EVP_KDF_derive(context, reinterpret_cast<unsigned char*>(key.data()),
                                     key.size(), parameters.data()) == 1;
    EVP_KDF_CTX_free(context);
    OPENSSL_cleanse(secret.data(), secret.size());
    require(good, "no key can be derived from the token");
    return key;
}

/// The session that both sides would have from an earlier connection, made of the key.
SSL_SESSION* session_of(SSL* ssl) {
    auto const& key =
        static_cast<Tls const*>(SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl)))->token_key();
    SSL_SESSION* const session = SSL_SESSION_new();
    if (session == nullptr) return nullptr;
    if (SSL_SESSION_set1_master_key(session, reinterpret_cast<unsigned char const*>(key.data()),
                                    key.size()) == 1 &&
        SSL_SESSION_set_cipher(session, SSL_CIPHER_find(ssl, kCipherId)) == 1 &&
        SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION) == 1) {
        return session;
    }
    SSL_SESSION_free(session);
    return nullptr;
}

int offer_key(SSL* ssl, EVP_MD const* digest, unsigned char const** identity, std::size_t* size,
              SSL_SESSION** session) {
    *session = nullptr;
    // After a retry the digest is fixed: ours, or the key cannot be offered.
    if (digest != nullptr && !EVP_MD_is_a(digest, "SHA256")) return 1;
    *identity = reinterpret_cast<unsigned char const*>(kIdentity);
    *size = std::strlen(kIdentity);
    *session = session_of(ssl);
    return *session != nullptr ? 1 : 0;
}

int find_key(SSL* ssl, unsigned char const* identity, std::size_t size, SSL_SESSION** session) {
    *session = nullptr;
    if (size != std::strlen(kIdentity) || std::memcmp(identity, kIdentity, size) != 0) return 1;
    *session = session_of(ssl);
    return *session != nullptr ? 1 : 0;
}

}  // namespace

Tls::Tls(bool is_server)
    : is_server_(is_server),
      context_(SSL_CTX_new(is_server ? TLS_server_method() : TLS_client_method())) {
    require(context_ != nullptr, "no context");
    SSL_CTX_set_app_data(context_, this);
    SSL_CTX_set_min_proto_version(context_, TLS1_2_VERSION);
    SSL_CTX_set_options(context_, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
                                      SSL_OP_NO_TICKET | SSL_OP_CIPHER_SERVER_PREFERENCE);
    SSL_CTX_set_num_tickets(context_, 0);
    SSL_CTX_set_session_cache_mode(context_, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_mode(context_, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_AUTO_RETRY);
}

Tls::~Tls() {
    SSL_CTX_free(context_);
    OPENSSL_cleanse(token_key_.data(), token_key_.size());
}

std::shared_ptr<Tls> Tls::with_certificates(bool is_server, Own const& own, std::string const& ca) {
    std::shared_ptr<Tls> made(new Tls(is_server));
    use_own(made->context_, own);
    if (!ca.empty()) {
        trust(made->context_, ca, is_server);
        SSL_CTX_set_verify(made->context_, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT,
                           nullptr);
    }
    return made;
}

std::shared_ptr<Tls> Tls::with_token(bool is_server, std::string_view token) {
    std::shared_ptr<Tls> made(new Tls(is_server));
    made->token_key_ = derived(token);
    SSL_CTX* const context = made->context_;
    SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION);
    require(SSL_CTX_set_ciphersuites(context, kCipherName) == 1, "no such cipher");
    if (is_server) {
        SSL_CTX_set_psk_find_session_callback(context, find_key);
    } else {
        SSL_CTX_set_psk_use_session_callback(context, offer_key);
        // No authority is trusted: a server that shows a certificate in place of the token fails.
        SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nullptr);
    }
    return made;
}

std::shared_ptr<Tls const> Tls::server(Own const& own, std::string const& ca) {
    return with_certificates(true, own, ca);
}
std::shared_ptr<Tls const> Tls::client(Own const& own, std::string const& ca) {
    return with_certificates(false, own, ca);
}
std::shared_ptr<Tls const> Tls::server_with_token(std::string_view token) {
    return with_token(true, token);
}
std::shared_ptr<Tls const> Tls::client_with_token(std::string_view token) {
    return with_token(false, token);
}

std::unique_ptr<TlsStream> Tls::begin(std::string const& name) const {
    return std::unique_ptr<TlsStream>(new TlsStream(*this, name));
}

TlsStream::TlsStream(Tls const& tls, std::string const& name)
    : tls_(tls.shared_from_this()),
      by_token_(tls.by_token()),
      ssl_(SSL_new(tls.context_)),
      in_(BIO_new(BIO_s_mem())),
      out_(BIO_new(BIO_s_mem())) {
    if (ssl_ == nullptr || in_ == nullptr || out_ == nullptr) throw std::bad_alloc();
    SSL_set_bio(ssl_, in_, out_);
    if (tls.is_server_) {
        SSL_set_accept_state(ssl_);
        return;
    }
    SSL_set_connect_state(ssl_);
    if (by_token_) return;
    if (is_numeric(name)) {
        require(X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl_), name.c_str()) == 1,
                "no certificate can be asked for that address");
    } else {
        SSL_set_hostflags(ssl_, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
        require(SSL_set1_host(ssl_, name.c_str()) == 1,
                "no certificate can be asked for that name");
        SSL_set_tlsext_host_name(ssl_, name.c_str());
    }
}

TlsStream::~TlsStream() {
    SSL_free(ssl_);
}

void TlsStream::fail() const {
    unsigned long const code = ERR_peek_error();
    int const reason = ERR_GET_REASON(code);
    long const verified = SSL_get_verify_result(ssl_);
    std::string text = openssl_says();
    if (!by_token_ && reason == SSL_R_CERTIFICATE_VERIFY_FAILED) {
        throw Failure{
            {Ending::Why::Certificate, fmt::format("the certificate is refused: {}",
                                                   X509_verify_cert_error_string(verified))}};
    }
    if (reason == SSL_R_WRONG_VERSION_NUMBER || reason == SSL_R_HTTP_REQUEST ||
        reason == SSL_R_PACKET_LENGTH_TOO_LONG) {
        throw Failure{{Ending::Why::NotTls, "the other side does not speak TLS: " + text}};
    }
    throw Failure{{Ending::Why::Handshake, "TLS: " + text}};
}

void TlsStream::take(std::string_view wire) {
    if (BIO_write(in_, wire.data(), static_cast<int>(wire.size())) !=
        static_cast<int>(wire.size())) {
        throw std::bad_alloc();
    }
}

bool TlsStream::handshake() {
    if (done_) return true;
    ERR_clear_error();
    int const result = SSL_do_handshake(ssl_);
    if (result != 1) {
        int const error = SSL_get_error(ssl_, result);
        if (error != SSL_ERROR_WANT_READ && error != SSL_ERROR_WANT_WRITE) fail();
        return false;
    }
    // Whatever else there was to agree on, without the key there is no proof.
    if (by_token_ && SSL_session_reused(ssl_) != 1) {
        throw Failure{{Ending::Why::Handshake, "TLS: the other side does not know the token"}};
    }
    done_ = true;
    return true;
}

bool TlsStream::shows_token() const {
    return by_token_ && SSL_session_reused(ssl_) == 1;
}

std::vector<std::string> TlsStream::peer_names() const {
    std::vector<std::string> found;
    X509* const certificate = SSL_get1_peer_certificate(ssl_);
    auto* const names = certificate == nullptr
                            ? nullptr
                            : static_cast<GENERAL_NAMES*>(X509_get_ext_d2i(
                                  certificate, NID_subject_alt_name, nullptr, nullptr));
    for (int i = 0; i < sk_GENERAL_NAME_num(names); ++i) {
        GENERAL_NAME const* const name = sk_GENERAL_NAME_value(names, i);
        if (name->type != GEN_DNS) continue;
        unsigned char const* const bytes = ASN1_STRING_get0_data(name->d.dNSName);
        found.emplace_back(bytes, bytes + ASN1_STRING_length(name->d.dNSName));
    }
    GENERAL_NAMES_free(names);
    X509_free(certificate);
    return found;
}

std::size_t TlsStream::read(char* into, std::size_t most) {
    ERR_clear_error();
    std::size_t got = 0;
    int const result = SSL_read_ex(ssl_, into, most, &got);
    if (result == 1) return got;
    int const error = SSL_get_error(ssl_, result);
    if (error == SSL_ERROR_ZERO_RETURN) {
        ended_ = true;
    } else if (error != SSL_ERROR_WANT_READ && error != SSL_ERROR_WANT_WRITE) {
        fail();
    }
    return 0;
}

void TlsStream::write(std::string_view plain) {
    ERR_clear_error();
    std::size_t sent = 0;
    if (SSL_write_ex(ssl_, plain.data(), plain.size(), &sent) != 1 || sent != plain.size()) fail();
}

void TlsStream::finish() {
    if (!done_) return;
    ERR_clear_error();
    SSL_shutdown(ssl_);
    ERR_clear_error();
}

void TlsStream::out(std::string& wire) {
    std::size_t const waiting = BIO_ctrl_pending(out_);
    if (waiting == 0) return;
    std::size_t const before = wire.size();
    wire.resize(before + waiting);
    int const got = BIO_read(out_, wire.data() + before, static_cast<int>(waiting));
    wire.resize(before + static_cast<std::size_t>(std::max(got, 0)));
}

}  // namespace mgi::control::net
