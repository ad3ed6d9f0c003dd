#include "control/rpc/security.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <openssl/crypto.h>

#include <algorithm>

#include <mgi/error.hpp>

#include "control/rpc/pem.hpp"
#include "core/text.hpp"

namespace mgi::control {

namespace {

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
        own_.certificate = read_certificates(options_.certificate);
        own_.key = read_secret(options_.key, "key");
        check_key(options_.certificate, own_.certificate, options_.key, own_.key);
    }
    if (!options_.token_file.empty()) token_ = read_token(options_.token_file);
    if (encrypted()) {
        server_tls_ = net::Tls::server(own_, ca_);
        client_tls_ = net::Tls::client(own_, ca_);
    } else if (has_token()) {
        server_tls_ = net::Tls::server_with_token(token_);
        client_tls_ = net::Tls::client_with_token(token_);
    }
}

bool Security::is_token(std::string_view offered) const {
    return offered.size() == token_.size() &&
           CRYPTO_memcmp(offered.data(), token_.data(), token_.size()) == 0;
}

std::string Security::explain(std::string_view address, net::Ending const& ending) const {
    using Why = net::Ending::Why;
    std::string const& text = ending.text;
    switch (ending.why) {
        case Why::Certificate:
            return fmt::format(
                "controller {}: its certificate is not one that {} signed, or is for another name "
                "(--tls-name names the one to expect): {}",
                address, options_.ca, text);
        case Why::NotTls:
            if (!guarded()) {
                return fmt::format(
                    "controller {} asks for a token or certificates, and none were given: use "
                    "--token-file, or give --ca, --cert and --key",
                    address);
            }
            return fmt::format("controller {} speaks no TLS: leave out {}, or start it with {}: {}",
                               address, encrypted() ? "--ca, --cert and --key" : "--token-file",
                               encrypted() ? "them" : "it", text);
        case Why::Handshake:
            if (encrypted()) {
                return fmt::format(
                    "controller {}: the TLS handshake failed; is {} signed by the CA that the "
                    "controller trusts? {}",
                    address, options_.certificate, text);
            }
            return fmt::format(
                "controller {} does not know this token: give both the same --token-file, and "
                "certificates to both or none. Or another program has taken its port: {}",
                address, text);
        case Why::Unreachable:
            return fmt::format("controller {} cannot be reached; is it running there? {}", address,
                               text);
        case Why::Late:
            return fmt::format("controller {} did not answer in time: {}", address, text);
        case Why::Closed:
        case Why::PeerClosed:
            if (!guarded()) {
                return fmt::format(
                    "controller {} closed the connection; it may have stopped. If it asks for a "
                    "token or certificates, use --token-file, or give --ca, --cert and --key: {}",
                    address, text);
            }
            return fmt::format(
                "controller {} closed the connection; it may have stopped, or have too many{}{}",
                address, text.empty() ? "" : ": ", text);
        default: return fmt::format("controller {}: {}", address, text);
    }
}

bool names_server(std::vector<std::string> const& names, std::string_view server) {
    std::string const wanted = lower_case(server);
    return std::any_of(names.begin(), names.end(), [&](std::string_view name) {
        std::string const known = lower_case(name);
        return known == wanted || known.substr(0, known.find('.')) == wanted;
    });
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

void check_listen_address(std::string_view what, std::string_view address,
                          Security const& security) {
    if (!security.asks_for_user() || is_loopback(address)) return;
    throw Error(ErrorCode::InvalidArgument,
                fmt::format("{} {}: other machines reach that address, and nothing guards it. Give "
                            "--token-file, or --ca, --cert and --key, or --insecure to go without",
                            what, address));
}

void check_connect_address(std::string_view what, std::string_view address,
                           Security const& security) {
    if (!security.asks_for_user() || is_loopback(address)) return;
    throw Error(ErrorCode::InvalidArgument,
                fmt::format("{} {}: that is another machine, and everything would be sent in the "
                            "clear. Give --token-file, or --ca, --cert and --key, or --insecure to "
                            "go without",
                            what, address));
}

void check_web_address(std::string_view what, std::string_view address, Security const& security) {
    if (security.options().insecure || is_loopback(address)) return;
    if (!security.encrypted()) {
        throw Error(ErrorCode::InvalidArgument,
                    fmt::format("{} {}: other machines reach that address, and no certificate "
                                "guards it. Give --ca, --cert and --key, or --insecure to go "
                                "without",
                                what, address));
    }
    if (security.has_token()) return;
    throw Error(ErrorCode::InvalidArgument,
                fmt::format("{} {}: other machines reach that address, and whoever does may read "
                            "all, since browsers show no certificate. Give --token-file, or "
                            "--insecure to go without",
                            what, address));
}

}  // namespace mgi::control
