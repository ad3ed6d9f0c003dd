/// \file
/// A small HTTP client for tests, which can also send what no client should.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace mgi::test {

struct HttpGot {
    int status = -1;  ///< -1: no whole answer
    std::string head;
    std::string body;

    /// A field's value; empty where there is none.
    [[nodiscard]] std::string field(std::string const& name) const;
};

/// One connection, made at once; over TLS without looking at the server's certificate. Nothing waits
/// longer than 20 s.
class HttpClient {
public:
    explicit HttpClient(std::string const& url);
    ~HttpClient();
    HttpClient(HttpClient const&) = delete;
    HttpClient& operator=(HttpClient const&) = delete;

    /// `fields`: lines of the head, each with its CRLF.
    HttpGot get(std::string const& path, std::string const& fields = "");
    /// False once the server has closed.
    bool send(std::string_view bytes);
    HttpGot receive(bool head_only = false);
    /// Whether the server closes without another byte.
    bool ends();

private:
    int receive_some(char* into, int most);

    std::string host_;
    int socket_ = -1;
    void* tls_ = nullptr;
    void* context_ = nullptr;
    std::string rest_;
};

/// The port in "http://host:port".
std::uint16_t port_of(std::string const& url);

/// GET over a connection of its own.
HttpGot http_get(std::string const& url, std::string const& path, std::string const& fields = "");

}  // namespace mgi::test
