/// \file
/// gRPC's connections to members of etcd: the only use of gRPC here.
#pragma once

#include <grpcpp/channel.h>

#include <memory>
#include <string>

#include "control/rpc/security.hpp"

namespace mgi::control {

/// The connection to "host:port" with these certificates: one for all who ask, for the process's life.
/// Calls on it connect, and connect again, within half a second once the other side is back.
std::shared_ptr<grpc::Channel> etcd_channel(std::string const& address, Security const& security);

}  // namespace mgi::control
