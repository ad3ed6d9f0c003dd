/// \file
/// TLS by OpenSSL over bytes, without sockets: certificates, or a token that both sides know.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "control/net/protocol.hpp"

struct ssl_ctx_st;
struct ssl_st;
struct bio_st;

namespace mgi::control::net {

/// What ends a connection, thrown within this folder.
struct Failure {
    Ending ending;
};

class TlsStream;

/// One side's configuration, for any number of connections. Immutable, so thread-safe.
class Tls : public std::enable_shared_from_this<Tls> {
public:
    /// PEM: a certificate with its chain, and its key.
    struct Own {
        std::string certificate;
        std::string key;
    };

    /// TLS 1.2 or newer. Clients must show a certificate that `ca` (PEM) signed; where it is empty they
    /// need none, as browsers do. All makers throw Error(InvalidArgument) for what OpenSSL refuses.
    static std::shared_ptr<Tls const> server(Own const& own, std::string const& ca);
    /// The server's certificate must be one that `ca` signed, for the name given to `begin`.
    static std::shared_ptr<Tls const> client(Own const& own, std::string const& ca);

    /// TLS 1.3 with a key that follows from the token (PSK with ephemeral Diffie-Hellman): each side
    /// proves to the other that it knows the token, which is never sent.
    static std::shared_ptr<Tls const> server_with_token(std::string_view token);
    static std::shared_ptr<Tls const> client_with_token(std::string_view token);

    ~Tls();
    Tls(Tls const&) = delete;
    Tls& operator=(Tls const&) = delete;

    /// A connection's state. `name`: a client's, the host name or numeric address that the server's
    /// certificate must be for; others ignore it.
    [[nodiscard]] std::unique_ptr<TlsStream> begin(std::string const& name) const;

    [[nodiscard]] bool by_token() const { return !token_key_.empty(); }
    /// The key that follows from the token.
    [[nodiscard]] std::string const& token_key() const { return token_key_; }

private:
    friend class TlsStream;
    explicit Tls(bool is_server);
    static std::shared_ptr<Tls> with_certificates(bool is_server, Own const& own,
                                                  std::string const& ca);
    static std::shared_ptr<Tls> with_token(bool is_server, std::string_view token);

    bool const is_server_;
    ssl_ctx_st* context_ = nullptr;
    std::string token_key_;
};

/// One connection's. Bytes of the wire go in by `take` and come out by `out`. Not thread-safe. All
/// functions throw Failure for what ends the connection; `out` may have a last word to send then.
class TlsStream {
public:
    ~TlsStream();
    TlsStream(TlsStream const&) = delete;
    TlsStream& operator=(TlsStream const&) = delete;

    void take(std::string_view wire);
    /// Goes on with the handshake; true once it is done.
    bool handshake();
    /// Decrypts at most so many bytes; 0 where more of the wire is needed, or the peer ended (`ended`).
    std::size_t read(char* into, std::size_t most);
    [[nodiscard]] bool ended() const { return ended_; }
    /// A server's: the client's first word has shown that it knows the token; that it is no replay the handshake's end shows.
    [[nodiscard]] bool shows_token() const;
    /// After the handshake: the DNS names that the peer's certificate is for (subjectAltName); without a certificate none.
    [[nodiscard]] std::vector<std::string> peer_names() const;
    void write(std::string_view plain);
    /// This side sends no more.
    void finish();
    /// Adds what is to be sent to `wire`.
    void out(std::string& wire);

private:
    friend class Tls;
    TlsStream(Tls const& tls, std::string const& name);
    [[noreturn]] void fail() const;

    std::shared_ptr<Tls const> const tls_;
    bool const by_token_;
    bool done_ = false;
    bool ended_ = false;
    ssl_st* ssl_ = nullptr;
    bio_st* in_ = nullptr;  // both are the SSL object's
    bio_st* out_ = nullptr;
};

}  // namespace mgi::control::net
