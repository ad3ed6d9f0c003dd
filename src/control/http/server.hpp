/// \file
/// The web side of controller and agent: the status page, the same as JSON, and metrics. Reads only.
#pragma once

#include <memory>
#include <string>

#include "control/http/content.hpp"
#include "control/rpc/security.hpp"

namespace mgi::control {

struct HttpOptions {
    std::string address;  ///< "host:port" to listen on; empty: no web side; port 0: any free one
};

/// Serves /, /status.json, /metrics and /healthz from two threads of its own. With certificates over HTTPS
/// (browsers need none of their own); with a token only to those who give it, as bearer token or as the
/// password of any user name; /healthz to everybody. Without a token only requests whose `Host` means
/// this machine are answered. Thread-safe.
class HttpServer {
public:
    /// Listens when it returns. InvalidArgument where the address cannot be listened on.
    HttpServer(HttpOptions const& options, Security const& security, HttpContent const& content);
    /// Waits half a second at most for the answers under way, and for what is just being made.
    ~HttpServer();
    HttpServer(HttpServer const&) = delete;
    HttpServer& operator=(HttpServer const&) = delete;

    /// "http://host:port".
    [[nodiscard]] std::string url() const;

private:
    struct Running;
    std::unique_ptr<Running> running_;
};

}  // namespace mgi::control
