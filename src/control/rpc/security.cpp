#include "control/rpc/security.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <grpcpp/client_context.h>
#include <grpcpp/server_context.h>
#include <openssl/crypto.h>

#include "control/rpc/pem.hpp"
#include "core/log.hpp"

#include <mgi/error.hpp>

namespace mgi::control {

namespace {

constexpr char const* kHeader = "authorization";
constexpr std::string_view kScheme = "Bearer ";
constexpr std::size_t kShortestToken = 16;

std::string read_token(std::string const& file) {
    std::string token = read_secret(file, "token");
    token.erase(std::min(token.find('\n'), token.size()));
    while (!token.empty() && (token.back() == '\r' || token.back() == ' ')) token.pop_back();
    for (char const c : token) {
        if (c < '!' || c > '~') {
            throw Error(ErrorCode::InvalidArgument,
                        fmt::format("token file {}: its first line must be printable ASCII without "
                                    "blanks, as `openssl rand -hex 32` writes it",
                                    file));
        }
    }
    if (token.size() < kShortestToken) {
        throw Error(ErrorCode::InvalidArgument,
                    fmt::format("token file {}: the token has {} characters, fewer than {}; make "
                                "one with `openssl rand -hex 32`",
                                file, token.size(), kShortestToken));
    }
    return token;
}

bool mentions(std::string const& text, std::string_view part) {
    return text.find(part) != std::string::npos;
}

}  // namespace

Security::Security(SecurityOptions options) : options_(std::move(options)) {
    int const given =
        int(!options_.ca.empty()) + int(!options_.certificate.empty()) + int(!options_.key.empty());
    if (given != 0 && given != 3) {
        throw Error(ErrorCode::InvalidArgument,
                    fmt::format("--ca, --cert and --key belong together: {} missing",
                                options_.ca.empty()            ? "--ca is"
                                : options_.certificate.empty() ? "--cert is"
                                                               : "--key is"));
    }
    if (given == 3) {
        ca_ = read_certificates(options_.ca);
        certificate_ = read_certificates(options_.certificate);
        key_ = read_secret(options_.key, "key");
        check_key(options_.certificate, certificate_, options_.key, key_);
    }
    if (!options_.token_file.empty()) token_ = read_token(options_.token_file);
}

std::shared_ptr<grpc::ServerCredentials> Security::server() const {
    if (!encrypted()) return grpc::InsecureServerCredentials();
    grpc::SslServerCredentialsOptions options(
        GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
    options.pem_root_certs = ca_;
    options.pem_key_cert_pairs.push_back({key_, certificate_});
    return grpc::SslServerCredentials(options);
}

std::shared_ptr<grpc::ChannelCredentials> Security::client() const {
    if (!encrypted()) return grpc::InsecureChannelCredentials();
    grpc::SslCredentialsOptions options;
    options.pem_root_certs = ca_;
    options.pem_private_key = key_;
    options.pem_cert_chain = certificate_;
    return grpc::SslCredentials(options);
}

bool Security::is_token(std::string_view offered) const {
    return offered.size() == token_.size() &&
           CRYPTO_memcmp(offered.data(), token_.data(), token_.size()) == 0;
}

grpc::Status Security::admit(grpc::ServerContextBase const& context) const {
    if (!has_token()) return grpc::Status::OK;
    auto const& metadata = context.client_metadata();
    auto const found = metadata.find(kHeader);
    if (found == metadata.end()) {
        return {grpc::StatusCode::UNAUTHENTICATED,
                "the controller asks for a token and none came: use --token-file"};
    }
    std::string_view const value(found->second.data(), found->second.size());
    if (value.substr(0, kScheme.size()) == kScheme && is_token(value.substr(kScheme.size()))) {
        return grpc::Status::OK;
    }
    log::warn("a call from {} with a wrong token is refused", context.peer());
    return {grpc::StatusCode::UNAUTHENTICATED,
            "the token is not the controller's: give both the same --token-file"};
}

void Security::authorize(grpc::ClientContext& context) const {
    if (has_token()) context.AddMetadata(kHeader, std::string(kScheme) + token_);
}

std::string Security::explain(std::string_view address, grpc::Status const& status) const {
    std::string const text = status.error_message();
    switch (status.error_code()) {
        case grpc::StatusCode::OK: return "";
        case grpc::StatusCode::UNAVAILABLE:
            if (mentions(text, "CERTIFICATE_VERIFY_FAILED") ||
                mentions(text, "certificate verify failed") || mentions(text, "Peer name")) {
                return fmt::format(
                    "controller {}: its certificate is not one that {} signed, or is for another "
                    "name (--tls-name names the one to expect): {}",
                    address, options_.ca, text);
            }
            if (mentions(text, "WRONG_VERSION_NUMBER") || mentions(text, "wrong version number")) {
                return fmt::format(
                    "controller {} speaks no TLS: leave out --ca, --cert and --key, "
                    "or start it with them: {}",
                    address, text);
            }
            if (encrypted() &&
                (mentions(text, "andshake") || mentions(text, "TLS") || mentions(text, "SSL"))) {
                return fmt::format(
                    "controller {}: the TLS handshake failed; is {} signed by the "
                    "CA that the controller trusts? {}",
                    address, options_.certificate, text);
            }
            if (!encrypted() && (mentions(text, "Socket closed") || mentions(text, "closed"))) {
                return fmt::format(
                    "controller {} closed the connection; it may have stopped. If it asks for TLS, "
                    "give "
                    "--ca, --cert and --key: {}",
                    address, text);
            }
            return fmt::format("controller {} cannot be reached; is it running there? {}", address,
                               text);
        case grpc::StatusCode::DEADLINE_EXCEEDED:
            return fmt::format("controller {} did not answer in time: {}", address, text);
        case grpc::StatusCode::UNAUTHENTICATED:
            return fmt::format("controller {} refuses us: {}", address, text);
        case grpc::StatusCode::UNIMPLEMENTED:
            return fmt::format("{} is no controller of this version: {}", address, text);
        default: return fmt::format("controller {}: {}", address, text);
    }
}

bool is_loopback(std::string_view address) {
    auto const colon = address.rfind(':');
    std::string const host(address.substr(0, colon));
    // Of the numbers alone: 127.0.0.1.example.org is a name, which may lead anywhere.
    in_addr number{};
    bool const numeric = inet_pton(AF_INET, host.c_str(), &number) == 1;
    return host == "localhost" || host == "[::1]" || host == "::1" ||
           (numeric && ntohl(number.s_addr) >> 24 == 127);
}

void check_listen_address(std::string_view what, std::string_view address, Security const& security,
                          bool insecure) {
    if (security.encrypted() || insecure || is_loopback(address)) return;
    throw Error(ErrorCode::InvalidArgument,
                fmt::format("{} {}: other machines reach that address, and no certificate guards "
                            "it. Give --ca, --cert and --key, or --insecure to go without",
                            what, address));
}

void check_web_address(std::string_view what, std::string_view address, Security const& security,
                       bool insecure) {
    check_listen_address(what, address, security, insecure);
    if (security.has_token() || insecure || is_loopback(address)) return;
    throw Error(ErrorCode::InvalidArgument,
                fmt::format("{} {}: other machines reach that address, and whoever does may read "
                            "all, since browsers show no certificate. Give --token-file, or "
                            "--insecure to go without",
                            what, address));
}

}  // namespace mgi::control
