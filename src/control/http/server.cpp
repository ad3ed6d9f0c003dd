#include "control/http/server.hpp"

#include <fmt/format.h>
#include <httplib.h>
#include <netinet/in.h>
#include <openssl/evp.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <future>
#include <mutex>
#include <thread>

#include <mgi/error.hpp>

#include "core/log.hpp"

namespace mgi::control {

namespace {

/// A page polls; a few readers at a time are enough, and a slow one gives its thread back soon.
constexpr std::size_t kThreads = 8;
constexpr std::size_t kWaiting = 64;
constexpr std::time_t kSocketSeconds = 2;
constexpr std::size_t kLargestRequestBody = 1024;
constexpr std::chrono::milliseconds kCloseAfter{500};

constexpr char const* kBasic = "Basic ";
constexpr char const* kBearer = "Bearer ";

/// The password of "user:password" in base64; empty when it is none.
std::string password_of(std::string const& encoded) {
    if (encoded.size() % 4 != 0 || encoded.empty() || encoded.size() > 1024) return "";
    std::string plain(encoded.size() / 4 * 3, '\0');
    int const size = EVP_DecodeBlock(reinterpret_cast<unsigned char*>(plain.data()),
                                     reinterpret_cast<unsigned char const*>(encoded.data()),
                                     int(encoded.size()));
    if (size < 0) return "";
    std::size_t const padding = encoded.ends_with("==") ? 2 : encoded.ends_with('=') ? 1 : 0;
    plain.resize(std::size_t(size) - padding);
    std::size_t const colon = plain.find(':');
    return colon == std::string::npos ? "" : plain.substr(colon + 1);
}

bool may_read(httplib::Request const& request, Security const& security) {
    if (!security.has_token() || request.path == "/healthz") return true;
    std::string const given = request.get_header_value("Authorization");
    if (given.starts_with(kBearer)) {
        return security.is_token(std::string_view(given).substr(std::string_view(kBearer).size()));
    }
    return given.starts_with(kBasic) &&
           security.is_token(password_of(given.substr(std::string_view(kBasic).size())));
}

struct HostPort {
    std::string host;
    int port;
};

HostPort split(std::string const& address) {
    std::size_t const colon = address.rfind(':');
    int port = -1;
    if (colon != std::string::npos) {
        char const* const end = address.data() + address.size();
        auto const [rest, problem] = std::from_chars(address.data() + colon + 1, end, port);
        if (problem != std::errc() || rest != end) port = -1;
    }
    std::string host = address.substr(0, std::min(colon, address.size()));
    if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
    if (port < 0 || port > 65'535 || host.empty()) {
        throw Error(ErrorCode::InvalidArgument,
                    fmt::format("--http {}: not host:port with a port up to 65535", address));
    }
    return {host, port};
}

std::unique_ptr<httplib::Server> make_server(Security const& security) {
    if (!security.encrypted()) return std::make_unique<httplib::Server>();
    auto made = std::make_unique<httplib::SSLServer>(security.options().certificate.c_str(),
                                                     security.options().key.c_str());
    if (!made->is_valid()) {
        throw Error(ErrorCode::InvalidArgument,
                    fmt::format("--http: HTTPS cannot be served with {} and {}",
                                security.options().certificate, security.options().key));
    }
    return made;
}

/// Nothing that a page of another site could make of ours, and nothing kept.
httplib::Headers const& page_headers() {
    static httplib::Headers const headers{
        {"Cache-Control", "no-store"},
        {"Content-Security-Policy",
         "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
         "connect-src 'self'; img-src data:; frame-ancestors 'none'; base-uri 'none'; "
         "form-action 'none'"},
        {"X-Content-Type-Options", "nosniff"},
        {"Referrer-Policy", "no-referrer"}};
    return headers;
}

/// Threads with a bounded queue: when that is full, connections wait in the kernel, and cost no
/// descriptor that a session might need.
class BoundedThreads : public httplib::TaskQueue {
public:
    void enqueue(std::function<void()> job) override {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [this] { return jobs_ < kWaiting || closed_; });
        ++jobs_;
        lock.unlock();
        threads_.enqueue([this, job = std::move(job)] {
            job();
            std::lock_guard const done(mutex_);
            --jobs_;
            changed_.notify_one();
        });
    }
    void shutdown() override {
        {
            std::lock_guard const lock(mutex_);
            closed_ = true;
            changed_.notify_all();
        }
        threads_.shutdown();
    }

private:
    std::mutex mutex_;
    std::condition_variable changed_;
    std::size_t jobs_ = 0;
    bool closed_ = false;
    httplib::ThreadPool threads_{kThreads};
};

/// The local port of a TCP connection; 0 for what is none.
int port_of_connection(int socket) {
    sockaddr_storage end{};
    socklen_t size = sizeof end;
    if (getpeername(socket, reinterpret_cast<sockaddr*>(&end), &size) != 0) return 0;
    size = sizeof end;
    if (getsockname(socket, reinterpret_cast<sockaddr*>(&end), &size) != 0) return 0;
    if (end.ss_family == AF_INET) return ntohs(reinterpret_cast<sockaddr_in&>(end).sin_port);
    if (end.ss_family == AF_INET6) return ntohs(reinterpret_cast<sockaddr_in6&>(end).sin6_port);
    return 0;
}

/// Ends this process' connections at a port that it listens on. httplib's time limits are for each read
/// and write, so who sends or takes a byte a second would hold its thread for hours; and it names no
/// connection that it serves.
void cut_connections(int port) {
    std::error_code failed;
    std::filesystem::directory_iterator const open_files("/proc/self/fd", failed);
    for (auto const& entry : open_files) {
        std::string const name = entry.path().filename();
        int number = -1;
        std::from_chars(name.data(), name.data() + name.size(), number);
        if (number >= 0 && port_of_connection(number) == port) shutdown(number, SHUT_RDWR);
    }
}

}  // namespace

struct HttpServer::Running {
    Running(Security const& guard, HttpContent shown)
        : security(guard), content(std::move(shown)), server(make_server(guard)) {}

    void answer(httplib::Response& response, std::function<std::string()> const& make,
                char const* type) const {
        try {
            response.set_content(make(), type);
        } catch (std::exception const& error) {
            log::error("status page: {}", error.what());
            response.status = 500;
            response.set_content("the status cannot be shown; the log says why\n", "text/plain");
        }
    }

    void routes() {
        server->set_pre_routing_handler(
            [this](httplib::Request const& request, httplib::Response& response) {
                if (may_read(request, security)) return httplib::Server::HandlerResponse::Unhandled;
                response.status = 401;
                response.set_header("WWW-Authenticate", "Basic realm=\"MGI: token as password\"");
                response.set_content(
                    "the control plane's token is needed: as bearer token, or as "
                    "the password of any user\n",
                    "text/plain");
                return httplib::Server::HandlerResponse::Handled;
            });
        if (!content.page.empty()) {
            server->Get("/", [this](httplib::Request const&, httplib::Response& response) {
                response.set_content(content.page.data(), content.page.size(),
                                     "text/html; charset=utf-8");
            });
        }
        server->Get("/status.json", [this](httplib::Request const&, httplib::Response& response) {
            answer(response, content.status, "application/json");
        });
        server->Get("/metrics", [this](httplib::Request const&, httplib::Response& response) {
            answer(response, content.metrics, "text/plain; version=0.0.4; charset=utf-8");
        });
        server->Get("/healthz", [](httplib::Request const&, httplib::Response& response) {
            response.set_content("ok\n", "text/plain");
        });
    }

    Security const& security;
    HttpContent content;
    std::unique_ptr<httplib::Server> server;
    std::string url;
    int port = 0;
    std::atomic<bool> ended{false};
    std::promise<void> end;
    std::thread thread;
};

HttpServer::HttpServer(HttpOptions const& options, Security const& security, HttpContent content)
    : running_(std::make_unique<Running>(security, std::move(content))) {
    HostPort const where = split(options.address);
    httplib::Server& server = *running_->server;
    server.new_task_queue = [] { return new BoundedThreads; };
    server.set_read_timeout(kSocketSeconds);
    server.set_write_timeout(kSocketSeconds);
    server.set_keep_alive_timeout(kSocketSeconds);
    server.set_payload_max_length(kLargestRequestBody);
    server.set_default_headers(page_headers());
    // Not httplib's default, which lets two programs share a port.
    server.set_socket_options([](socket_t socket) {
        int const yes = 1;
        setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    });
    running_->routes();
    int const port = where.port != 0
                         ? (server.bind_to_port(where.host, where.port) ? where.port : -1)
                         : server.bind_to_any_port(where.host);
    if (port < 0) {
        throw Error(ErrorCode::InvalidArgument,
                    fmt::format("--http {}: that address cannot be listened on; is it another "
                                "program's, or another machine's?",
                                options.address));
    }
    bool const brackets = where.host.find(':') != std::string::npos;
    running_->url = fmt::format("{}://{}{}{}:{}", security.encrypted() ? "https" : "http",
                                brackets ? "[" : "", where.host, brackets ? "]" : "", port);
    running_->port = port;
    running_->thread = std::thread([&running = *running_] {
        running.server->listen_after_bind();
        running.ended = true;
        running.end.set_value();
    });
    // Before it runs, httplib would not hear that it shall stop.
    while (!server.is_running() && !running_->ended) std::this_thread::yield();
}

HttpServer::~HttpServer() {
    running_->server->stop();
    std::future<void> const end = running_->end.get_future();
    while (end.wait_for(kCloseAfter) != std::future_status::ready) cut_connections(running_->port);
    running_->thread.join();
}

std::string HttpServer::url() const {
    return running_->url;
}

}  // namespace mgi::control
