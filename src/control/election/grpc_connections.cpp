#include "control/election/grpc_connections.hpp"

#include <utility>

namespace mgi::control {

GrpcConnections::GrpcConnections(std::string address, Security const& security)
    : address_(std::move(address)), security_(security) {
    idle_.push_back(std::make_unique<GrpcConnection>(address_, security_));
}

std::unique_ptr<GrpcConnection> GrpcConnections::take() {
    {
        std::lock_guard const lock(mutex_);
        if (!idle_.empty()) {
            auto connection = std::move(idle_.back());
            idle_.pop_back();
            return connection;
        }
    }
    return std::make_unique<GrpcConnection>(address_, security_);
}

GrpcOutcome GrpcConnections::call(std::string const& method, std::string const& message,
                                  std::chrono::milliseconds limit, std::stop_token const& stop) {
    auto connection = take();
    GrpcOutcome outcome = connection->call(method, message, limit, stop);
    if (outcome.reusable) {
        std::lock_guard const lock(mutex_);
        idle_.push_back(std::move(connection));
    }
    return outcome;
}

}  // namespace mgi::control
