#include "control/http/server.hpp"

#include <fmt/format.h>

#include <memory>
#include <string>

#include <mgi/error.hpp>

#include "control/http/request.hpp"
#include "control/http/session.hpp"
#include "control/net/address.hpp"
#include "control/net/server.hpp"
#include "control/net/tls.hpp"
#include "core/log.hpp"

namespace mgi::control {

namespace {

/// A page polls; a few readers at a time are enough. Each costs a descriptor that a session might need.
constexpr std::size_t kMostConnections = 64;
constexpr std::size_t kMostReaders = 32;

std::shared_ptr<net::Tls const> tls_of(Security const& security) {
    if (!security.encrypted()) return nullptr;
    return net::Tls::server(security.own(), "");
}

net::ServerOptions limits() {
    net::ServerOptions options;
    options.what = "status page";
    options.most = kMostConnections;
    options.most_strangers = kMostConnections - kMostReaders;
    // Everybody may come from one address: from this machine.
    options.most_strangers_of_one_address = options.most_strangers;
    options.prove_within = HttpSession::kHead;
    options.stranger_bytes = RequestReader::kLongestHead + 1;
    // What is cluster and channels goes on without a page.
    options.failed = [](std::string const& why) { log::error("{}", why); };
    return options;
}

}  // namespace

struct HttpServer::Running {
    std::shared_ptr<HttpSite> site;
    std::string url;
    std::unique_ptr<net::Server> server;
};

HttpServer::HttpServer(HttpOptions const& options, Security const& security,
                       HttpContent const& content)
    : running_(std::make_unique<Running>()) {
    net::HostPort const where = net::split_address("--http", options.address);
    auto const site = std::make_shared<HttpSite>(security, where.host, content, kMostReaders);
    try {
        running_->server = std::make_unique<net::Server>(
            options.address, tls_of(security),
            [site] { return std::make_shared<HttpSession>(site); }, limits());
    } catch (Error const& error) {
        throw Error(ErrorCode::InvalidArgument,
                    fmt::format("--http {}: that address cannot be listened on ({}); is it another "
                                "program's, or another machine's?",
                                options.address, error.what()));
    }
    bool const brackets = where.host.find(':') != std::string::npos;
    running_->url =
        fmt::format("{}://{}{}{}:{}", security.encrypted() ? "https" : "http", brackets ? "[" : "",
                    where.host, brackets ? "]" : "", running_->server->port());
    running_->site = site;
}

HttpServer::~HttpServer() {
    running_->site->readers.stop();
    running_->server.reset();
}

std::string HttpServer::url() const {
    return running_->url;
}

}  // namespace mgi::control
