/// \file
/// Calls of gRPC's over a connection, one after the other.
#pragma once

#include <chrono>
#include <memory>
#include <stop_token>
#include <string>

#include "control/election/grpc_answer.hpp"
#include "control/rpc/security.hpp"

namespace mgi::control {

class CurlTransfer;

struct GrpcOutcome {
    GrpcStatus status;
    std::string message;    ///< of an answer that is OK
    bool reusable = false;  ///< the connection is good for another call
};

/// HTTP/2 in the clear, or in TLS 1.2 or newer with certificates of both sides. The first call connects. Used
/// by one thread at a time.
class GrpcConnection {
public:
    /// To "host:port"; Error(InvalidArgument) for what is no address. `security` must outlive it.
    GrpcConnection(std::string const& address, Security const& security);
    ~GrpcConnection();
    GrpcConnection(GrpcConnection const&) = delete;
    GrpcConnection& operator=(GrpcConnection const&) = delete;

    /// Sends a message to a method, "package.Service/Method", and waits for the one that comes back. What
    /// hinders that is Unavailable, a requested stop is Cancelled.
    [[nodiscard]] GrpcOutcome call(std::string const& method, std::string const& message,
                                   std::chrono::milliseconds limit, std::stop_token const& stop);

private:
    void encrypt(Security const& security);

    std::string url_;  ///< up to the method
    std::unique_ptr<CurlTransfer> const transfer_;
};

}  // namespace mgi::control
