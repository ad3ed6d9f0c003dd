/// \file
/// The connections to one address, for calls of many threads.
#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <vector>

#include "control/election/grpc_connection.hpp"

namespace mgi::control {

/// As many as there were calls at a time. One on which a call has failed is closed. Thread-safe.
class GrpcConnections {
public:
    /// As GrpcConnection.
    GrpcConnections(std::string address, Security const& security);

    [[nodiscard]] std::string const& address() const { return address_; }
    [[nodiscard]] GrpcOutcome call(std::string const& method, std::string const& message,
                                   std::chrono::milliseconds limit, std::stop_token const& stop);

private:
    [[nodiscard]] std::unique_ptr<GrpcConnection> take();

    std::string const address_;
    Security const& security_;
    std::mutex mutex_;
    std::vector<std::unique_ptr<GrpcConnection>> idle_;
};

}  // namespace mgi::control
