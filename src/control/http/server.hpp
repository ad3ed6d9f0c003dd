/// \file
/// The web side of controller and agent: the status page, the same as JSON, and metrics. Reads only.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "control/rpc/security.hpp"

namespace mgi::control {

struct HttpOptions {
    std::string address;  ///< "host:port" to listen on; empty: no web side; port 0: any free one
};

/// What is shown, made anew for each request. Called by several threads at a time.
struct HttpContent {
    std::string_view page;                 ///< HTML; empty: there is none
    std::function<std::string()> status;   ///< JSON (docs/control.md)
    std::function<std::string()> metrics;  ///< in Prometheus' text format
};

/// Serves /, /status.json, /metrics and /healthz from threads of its own. With certificates over HTTPS
/// (browsers need none of their own); with a token only to those who give it, as bearer token or as the
/// password of any user name; /healthz to everybody.
class HttpServer {
public:
    /// Listens when it returns. InvalidArgument where the address cannot be listened on.
    HttpServer(HttpOptions const& options, Security const& security, HttpContent content);
    /// Waits a moment for the requests under way, and then cuts their connections.
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
