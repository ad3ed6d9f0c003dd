/// \file
/// What gRPC is told on both sides: how large a message may be, how a dead connection is noticed, how
/// fast one is tried again.
#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/server_builder.h>

#include <chrono>
#include <memory>
#include <string>

#include "control/rpc/security.hpp"

namespace mgi::control {

/// A registration says all that a server's applications hold, with the specifications of their channels:
/// 40 KB for one of 8000 endpoints. Larger ones are cut off unread.
inline constexpr int kLargestRequest = 64 << 20;
/// A plan for such a channel, with its directory of endpoints.
inline constexpr int kLargestAnswer = 64 << 20;
/// How long a call may take that nobody gave a limit.
inline constexpr std::chrono::milliseconds kCallLimit{5000};

/// The connection to "host:port" with these certificates: one for all who ask, for the process's life.
/// Calls on it connect, and connect again, within half a second once the other side is back.
std::shared_ptr<grpc::Channel> make_channel(std::string const& address, Security const& security);

/// A call's token and deadline.
void prepare_call(grpc::ClientContext& context, Security const& security,
                  std::chrono::milliseconds limit = kCallLimit);

/// The server's limits, and its port: exclusive, so that a second controller on it is an error.
/// After BuildAndStart `*port` is the one it got (for "host:0"), 0 if none.
void prepare_server(grpc::ServerBuilder& builder, std::string const& address,
                    Security const& security, int* port);

}  // namespace mgi::control
