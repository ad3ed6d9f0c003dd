/// \file
/// Who may speak to whom: mutual TLS and a token, both optional, the same for controller, agent and
/// `mgi status`. Files are read once, at the start; what is wrong with one is said then and by name,
/// not by the handshake that would fail later.
///
/// Certificates make TLS, in which the token, if there is one, is sent. A token alone makes TLS 1.3 with a
/// key that follows from it, and is never sent. Without both everything is in the clear.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "control/net/protocol.hpp"
#include "control/net/tls.hpp"

namespace mgi::control {

struct SecurityOptions {
    std::string ca;           ///< PEM file: who signs the certificates that we trust
    std::string certificate;  ///< PEM file: ours, with its chain
    std::string key;          ///< PEM file: the certificate's private key
    std::string token_file;   ///< its first line is the token; empty: none is asked for
    std::string tls_name;     ///< the name in the other side's certificate; empty: its address
    bool any_server = false;  ///< any certificate of the CA registers any server's name
    bool insecure = false;    ///< in the clear, all users of this machine are welcome, too
};

/// Immutable after its construction, so thread-safe.
class Security {
public:
    /// Reads and checks the files. InvalidArgument names the file, what is wrong and what to do.
    explicit Security(SecurityOptions options);

    [[nodiscard]] SecurityOptions const& options() const { return options_; }
    /// By certificates.
    [[nodiscard]] bool encrypted() const { return !options_.ca.empty(); }
    [[nodiscard]] bool has_token() const { return !token_.empty(); }
    /// Whether connections of the control plane are encrypted, by either. A browser knows certificates alone.
    [[nodiscard]] bool guarded() const { return encrypted() || has_token(); }

    /// Of the two ends of the control plane's connections; null in the clear.
    [[nodiscard]] std::shared_ptr<net::Tls const> const& server_tls() const { return server_tls_; }
    [[nodiscard]] std::shared_ptr<net::Tls const> const& client_tls() const { return client_tls_; }
    /// Whether the kernel's word of who is at the other end is all that guards: processes of other users of this machine are
    /// refused then (Connection::wrong_user).
    [[nodiscard]] bool asks_for_user() const { return !guarded() && !options_.insecure; }
    /// PEM texts, for other servers and clients that use the same files.
    [[nodiscard]] std::string const& ca() const { return ca_; }
    [[nodiscard]] net::Tls::Own const& own() const { return own_; }

    /// Whether a hello carries the token: within TLS that does not prove it.
    [[nodiscard]] bool sends_token() const { return encrypted() && has_token(); }
    [[nodiscard]] std::string const& token() const { return token_; }
    /// Whether this is the token; the time that takes tells nothing about it.
    [[nodiscard]] bool is_token(std::string_view offered) const;

    /// A client's connection that ended, in words: what failed, at which address, what to look at.
    [[nodiscard]] std::string explain(std::string_view address, net::Ending const& ending) const;

private:
    SecurityOptions options_;
    std::string ca_;
    net::Tls::Own own_;
    std::string token_;
    std::shared_ptr<net::Tls const> server_tls_;
    std::shared_ptr<net::Tls const> client_tls_;
};

/// Whether a certificate for these DNS names may register a server: its name is one of them, or the first part of one.
[[nodiscard]] bool names_server(std::vector<std::string> const& names, std::string_view server);

/// Whether an address, "host:port", can be reached from this machine alone.
[[nodiscard]] bool is_loopback(std::string_view address);

/// Refuses an address to listen on that others reach while neither certificates nor a token guard it, nor
/// `SecurityOptions::insecure` says that nothing shall. `what` is the option's name.
void check_listen_address(std::string_view what, std::string_view address,
                          Security const& security);

/// The same for an address to connect to.
void check_connect_address(std::string_view what, std::string_view address,
                           Security const& security);

/// The same for what browsers read: they show no certificate, so that the token alone says who may read,
/// and know no token, so that certificates alone encrypt.
void check_web_address(std::string_view what, std::string_view address, Security const& security);

}  // namespace mgi::control
