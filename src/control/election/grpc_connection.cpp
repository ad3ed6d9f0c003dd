#include "control/election/grpc_connection.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <utility>

#include "control/election/curl_transfer.hpp"
#include "control/net/address.hpp"

namespace mgi::control {

namespace {

using std::chrono::milliseconds;

std::string in_url(std::string const& host) {
    return host.find(':') == std::string::npos ? host : fmt::format("[{}]", host);
}

// Nothing may be thrown through libcurl; 0 ends the transfer.
std::size_t take_header(char* data, std::size_t, std::size_t size, void* answer) noexcept {
    try {
        static_cast<GrpcAnswer*>(answer)->header({data, size});
        return size;
    } catch (std::bad_alloc const&) {
        return 0;
    }
}

std::size_t take_body(char* data, std::size_t, std::size_t size, void* answer) noexcept {
    try {
        return static_cast<GrpcAnswer*>(answer)->body({data, size}) ? size : 0;
    } catch (std::bad_alloc const&) {
        return 0;
    }
}

}  // namespace

GrpcConnection::GrpcConnection(std::string const& address, Security const& security)
    : transfer_(std::make_unique<CurlTransfer>()) {
    auto const [host, port] = net::split_address("etcd's member", address);
    std::string const& name = security.options().tls_name;
    bool const other_name = security.encrypted() && !name.empty();
    url_ = fmt::format("{}://{}:{}/", security.encrypted() ? "https" : "http",
                       in_url(other_name ? name : host), port);
    if (other_name) {
        transfer_->set_list(CURLOPT_CONNECT_TO, {fmt::format("::{}:{}", in_url(host), port)},
                            "connect to another address");
    }
    if (security.encrypted()) {
        encrypt(security);
    } else {
        transfer_->set(CURLOPT_HTTP_VERSION, long(CURL_HTTP_VERSION_2_PRIOR_KNOWLEDGE),
                       "speak HTTP/2");
        // 7.88, which Debian 12 has, fails when it uses one again (curl's issue 10634).
        if (curl_version_info(CURLVERSION_NOW)->version_num >> 8 == 0x0758) {
            transfer_->set(CURLOPT_FORBID_REUSE, 1L, "leave a connection");
        }
    }
    transfer_->set(CURLOPT_FOLLOWLOCATION, 0L, "stay there");
    transfer_->set(CURLOPT_HEADERFUNCTION, &take_header, "read headers");
    transfer_->set(CURLOPT_WRITEFUNCTION, &take_body, "read a body");
}

GrpcConnection::~GrpcConnection() = default;

void GrpcConnection::encrypt(Security const& security) {
    transfer_->set(CURLOPT_HTTP_VERSION, long(CURL_HTTP_VERSION_2TLS), "speak HTTP/2");
    transfer_->set(CURLOPT_SSLVERSION, long(CURL_SSLVERSION_TLSv1_2), "speak TLS 1.2");
    transfer_->set(CURLOPT_SSL_VERIFYPEER, 1L, "check certificates");
    transfer_->set(CURLOPT_SSL_VERIFYHOST, 2L, "check certificates' names");
    // Else the system's authorities would be trusted, too.
    transfer_->set(CURLOPT_CAPATH, static_cast<char const*>(nullptr), "trust one authority alone");
    transfer_->set_pem(CURLOPT_CAINFO_BLOB, security.ca(), "take an authority's certificate");
    transfer_->set_pem(CURLOPT_SSLCERT_BLOB, security.own().certificate, "take a certificate");
    transfer_->set_pem(CURLOPT_SSLKEY_BLOB, security.own().key, "take a key");
}

GrpcOutcome GrpcConnection::call(std::string const& method, std::string const& message,
                                 milliseconds limit, std::stop_token const& stop) {
    // libcurl takes 0 for no limit.
    milliseconds const within = std::max(limit, milliseconds(1));
    std::string const url = url_ + method;
    std::string const frame = grpc_frame(message);
    GrpcAnswer answer;
    transfer_->set(CURLOPT_URL, url.c_str(), "take a URL");
    transfer_->set_list(CURLOPT_HTTPHEADER,
                        {"content-type: application/grpc+proto", "te: trailers",
                         fmt::format("grpc-timeout: {}m", within.count())},
                        "send headers");
    transfer_->set(CURLOPT_POSTFIELDS, frame.data(), "send a body");
    transfer_->set(CURLOPT_POSTFIELDSIZE_LARGE, curl_off_t(frame.size()), "send a body");
    transfer_->set(CURLOPT_TIMEOUT_MS, long(within.count()), "end in time");
    transfer_->set(CURLOPT_HEADERDATA, &answer, "read headers");
    transfer_->set(CURLOPT_WRITEDATA, &answer, "read a body");

    auto const result = transfer_->perform(stop);
    if (!result) return {{GrpcCode::Cancelled, "the call was stopped"}, "", false};
    if (*result == CURLE_OPERATION_TIMEDOUT) {
        return {{GrpcCode::DeadlineExceeded, transfer_->problem(*result)}, "", false};
    }
    // CURLE_WRITE_ERROR: the answer was refused, and says why.
    if (*result != CURLE_OK && *result != CURLE_WRITE_ERROR) {
        return {{GrpcCode::Unavailable, transfer_->problem(*result)}, "", false};
    }
    GrpcStatus status = answer.status();
    std::string message_back(status.ok() ? answer.message() : "");
    return {std::move(status), std::move(message_back), *result == CURLE_OK};
}

}  // namespace mgi::control
