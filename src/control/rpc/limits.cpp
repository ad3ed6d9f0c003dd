#include "control/rpc/limits.hpp"

#include <grpcpp/create_channel.h>
#include <grpcpp/support/channel_arguments.h>

#include <array>
#include <map>
#include <mutex>

namespace mgi::control {

namespace {

// Leases notice a dead peer first; these notice connections that carry no session.
constexpr int kKeepaliveMs = 10'000;
constexpr int kKeepaliveTimeoutMs = 5'000;
constexpr int kShortestPingMs = 5'000;
constexpr int kFirstRetryMs = 100;
constexpr int kLongestRetryMs = 500;
constexpr int kConnectLimitMs = 2'000;
constexpr int kCallsAtOnce = 1024;
constexpr int kLargestMetadata = 16 << 10;

std::shared_ptr<grpc::Channel> new_channel(std::string const& address, Security const& security) {
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

/// Never destroyed: gRPC 1.51 aborts ("assertion failed: prior > 0") when a channel goes while it waits
/// to connect again, which is what an agent's does when its controller is away.
struct KeptChannels {
    std::mutex mutex;
    std::map<std::array<std::string, 5>, std::shared_ptr<grpc::Channel>> by_target;
};

KeptChannels& kept_channels() {
    static KeptChannels* const kept = new KeptChannels;
    return *kept;
}

}  // namespace

std::shared_ptr<grpc::Channel> make_channel(std::string const& address, Security const& security) {
    SecurityOptions const& options = security.options();
    KeptChannels& kept = kept_channels();
    std::lock_guard const lock(kept.mutex);
    auto& channel =
        kept.by_target[{address, options.ca, options.certificate, options.key, options.tls_name}];
    if (!channel) channel = new_channel(address, security);
    return channel;
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
