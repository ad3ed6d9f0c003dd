#include "control/http/client.hpp"

#include <netdb.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <array>
#include <stdexcept>

namespace mgi::test {

namespace {

constexpr timeval kLimit{20, 0};

int connected(std::string const& host, std::string const& port) {
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    if (getaddrinfo(host.c_str(), port.c_str(), &hints, &found) != 0) {
        throw std::runtime_error("no such host: " + host);
    }
    int made = -1;
    for (addrinfo const* at = found; at != nullptr && made < 0; at = at->ai_next) {
        made = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        setsockopt(made, SOL_SOCKET, SO_RCVTIMEO, &kLimit, sizeof kLimit);
        setsockopt(made, SOL_SOCKET, SO_SNDTIMEO, &kLimit, sizeof kLimit);
        if (connect(made, at->ai_addr, at->ai_addrlen) != 0) {
            close(made);
            made = -1;
        }
    }
    freeaddrinfo(found);
    if (made < 0) throw std::runtime_error("nobody listens at " + host + ":" + port);
    return made;
}

}  // namespace

std::string HttpGot::field(std::string const& name) const {
    std::size_t const at = head.find("\r\n" + name + ": ");
    if (at == std::string::npos) return "";
    std::size_t const begin = at + name.size() + 4;
    return head.substr(begin, head.find("\r\n", begin) - begin);
}

std::uint16_t port_of(std::string const& url) {
    return std::uint16_t(std::stoi(url.substr(url.rfind(':') + 1)));
}

HttpClient::HttpClient(std::string const& url) {
    std::size_t const begin = url.find("//") + 2;
    std::size_t const colon = url.rfind(':');
    host_ = url.substr(begin);
    std::string name = url.substr(begin, colon - begin);
    if (name.starts_with('[')) name = name.substr(1, name.size() - 2);
    socket_ = connected(name, std::to_string(port_of(url)));
    if (!url.starts_with("https")) return;
    context_ = SSL_CTX_new(TLS_client_method());
    SSL* const tls = SSL_new(static_cast<SSL_CTX*>(context_));
    tls_ = tls;
    SSL_set_fd(tls, socket_);
    if (SSL_connect(tls) != 1) throw std::runtime_error("no TLS with " + url);
}

HttpClient::~HttpClient() {
    if (tls_ != nullptr) SSL_free(static_cast<SSL*>(tls_));
    if (context_ != nullptr) SSL_CTX_free(static_cast<SSL_CTX*>(context_));
    close(socket_);
}

bool HttpClient::send(std::string_view bytes) {
    while (!bytes.empty()) {
        ssize_t const sent =
            tls_ != nullptr ? SSL_write(static_cast<SSL*>(tls_), bytes.data(), int(bytes.size()))
                            : ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
        if (sent <= 0) return false;
        bytes.remove_prefix(std::size_t(sent));
    }
    return true;
}

int HttpClient::receive_some(char* into, int most) {
    if (tls_ != nullptr) return SSL_read(static_cast<SSL*>(tls_), into, most);
    return int(recv(socket_, into, std::size_t(most), 0));
}

HttpGot HttpClient::receive(bool head_only) {
    HttpGot got;
    std::size_t whole = std::string::npos;
    std::array<char, 1 << 14> space;
    for (;;) {
        std::size_t const end = rest_.find("\r\n\r\n");
        if (whole == std::string::npos && end != std::string::npos) {
            got.head = rest_.substr(0, end + 2);
            std::string const size = got.field("Content-Length");
            whole = end + 4 + (head_only || size.empty() ? 0 : std::stoul(size));
        }
        if (rest_.size() >= whole) {
            got.body = rest_.substr(end + 4, whole - end - 4);
            rest_.erase(0, whole);
            got.status = std::stoi(got.head.substr(9, 3));
            return got;
        }
        int const count = receive_some(space.data(), int(space.size()));
        if (count <= 0) return got;
        rest_.append(space.data(), std::size_t(count));
    }
}

bool HttpClient::ends() {
    char byte = 0;
    return rest_.empty() && receive_some(&byte, 1) <= 0;
}

HttpGot HttpClient::get(std::string const& path, std::string const& fields) {
    send("GET " + path + " HTTP/1.1\r\n" +
         (fields.find("Host:") == std::string::npos ? "Host: " + host_ + "\r\n" : "") + fields +
         "\r\n");
    return receive();
}

HttpGot http_get(std::string const& url, std::string const& path, std::string const& fields) {
    return HttpClient(url).get(path, fields);
}

}  // namespace mgi::test
