/// \file
/// Who may speak to whom: mutual TLS and a token, both optional, the same for controller, agent and
/// `mgi status`. Files are read once, at the start; what is wrong with one is said then and by name,
/// not by the handshake that would fail later.
#pragma once

#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/support/status.h>

#include <memory>
#include <string>
#include <string_view>

namespace grpc {
class ClientContext;
class ServerContextBase;
}  // namespace grpc

namespace mgi::control {

struct SecurityOptions {
    std::string ca;           ///< PEM file: who signs the certificates that we trust
    std::string certificate;  ///< PEM file: ours, with its chain
    std::string key;          ///< PEM file: the certificate's private key
    std::string token_file;   ///< its first line is the token; empty: none is asked for
    std::string tls_name;     ///< the name in the other side's certificate; empty: its address
};

/// Immutable after its construction, so thread-safe.
class Security {
public:
    /// Reads and checks the files. InvalidArgument names the file, what is wrong and what to do.
    explicit Security(SecurityOptions options);

    [[nodiscard]] SecurityOptions const& options() const { return options_; }
    [[nodiscard]] bool encrypted() const { return !options_.ca.empty(); }
    [[nodiscard]] bool has_token() const { return !token_.empty(); }

    /// The client must show a certificate of our CA, where there is one.
    [[nodiscard]] std::shared_ptr<grpc::ServerCredentials> server() const;
    [[nodiscard]] std::shared_ptr<grpc::ChannelCredentials> client() const;

    /// What a server says to a caller: OK, or UNAUTHENTICATED and why.
    [[nodiscard]] grpc::Status admit(grpc::ServerContextBase const& context) const;
    /// Puts the token into a call.
    void authorize(grpc::ClientContext& context) const;

    /// Whether this is the token; the time that takes tells nothing about it.
    [[nodiscard]] bool is_token(std::string_view offered) const;

    /// A failed call in words: what failed, at which address, what to look at.
    [[nodiscard]] std::string explain(std::string_view address, grpc::Status const& status) const;

private:
    SecurityOptions options_;
    std::string ca_;
    std::string certificate_;
    std::string key_;
    std::string token_;
};

/// Whether an address, "host:port", can be reached from this machine alone.
[[nodiscard]] bool is_loopback(std::string_view address);

/// Refuses an address to listen on that others reach while neither certificates guard it nor
/// `insecure` says that nothing shall. `what` is the option's name.
void check_listen_address(std::string_view what, std::string_view address, Security const& security,
                          bool insecure);

/// The same for what browsers read: they show no certificate, so that the token alone guards it.
void check_web_address(std::string_view what, std::string_view address, Security const& security,
                       bool insecure);

}  // namespace mgi::control
