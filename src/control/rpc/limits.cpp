#include "control/rpc/limits.hpp"

#include <grpcpp/create_channel.h>
#include <grpcpp/support/channel_arguments.h>

namespace mgi::control {

namespace {

// Leases notice a dead peer first; these notice connections that carry no session.
constexpr int kKeepaliveMs = 10'000;
constexpr int kKeepaliveTimeoutMs = 5'000;
constexpr int kShortestPingMs = 5'000;
constexpr int kFirstRetryMs = 100;
constexpr int kLongestRetryMs = 2'000;
constexpr int kConnectLimitMs = 2'000;
constexpr int kCallsAtOnce = 1024;
constexpr int kLargestMetadata = 16 << 10;

}  // namespace

std::shared_ptr<grpc::Channel> make_channel(std::string const& address, Security const& security) {
    grpc::ChannelArguments arguments;
    arguments.SetMaxReceiveMessageSize(kLargestAnswer);
    arguments.SetMaxSendMessageSize(kLargestRequest);
    arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMs);
    arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
    arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, kFirstRetryMs);
    arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kConnectLimitMs);
    arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kLongestRetryMs);
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
    if (!security.options().tls_name.empty()) {
        arguments.SetSslTargetNameOverride(security.options().tls_name);
    }
    return grpc::CreateCustomChannel(address, security.client(), arguments);
}

void prepare_call(grpc::ClientContext& context, Security const& security,
                  std::chrono::milliseconds limit) {
    security.authorize(context);
    context.set_deadline(std::chrono::system_clock::now() + limit);
}

void prepare_server(grpc::ServerBuilder& builder, std::string const& address,
                    Security const& security, int* port) {
    builder.SetMaxReceiveMessageSize(kLargestRequest);
    builder.SetMaxSendMessageSize(kLargestAnswer);
    builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
    builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kCallsAtOnce);
    builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, kLargestMetadata);
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMs);
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
    builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                               kShortestPingMs);
    builder.AddListeningPort(address, security.server(), port);
}

}  // namespace mgi::control
