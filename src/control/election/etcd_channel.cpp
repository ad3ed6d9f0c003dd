#include "control/election/etcd_channel.hpp"

#include <grpc/support/log.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/support/channel_arguments.h>
#include <grpcpp/version_info.h>

#include <array>
#include <map>
#include <mutex>

#include "core/log.hpp"

namespace mgi::control {

namespace {

constexpr int kKeepaliveMs = 10'000;
constexpr int kKeepaliveTimeoutMs = 5'000;
constexpr int kFirstRetryMs = 100;
constexpr int kLongestRetryMs = 500;
constexpr int kConnectLimitMs = 2'000;

std::shared_ptr<grpc::ChannelCredentials> credentials(Security const& security) {
    if (!security.encrypted()) return grpc::InsecureChannelCredentials();
    grpc::SslCredentialsOptions options;
    options.pem_root_certs = security.ca();
    options.pem_private_key = security.own().key;
    options.pem_cert_chain = security.own().certificate;
    return grpc::SslCredentials(options);
}

std::shared_ptr<grpc::Channel> new_channel(std::string const& address, Security const& security) {
    grpc::ChannelArguments arguments;
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
    return grpc::CreateCustomChannel(address, credentials(security), arguments);
}

/// gRPC's own log goes into ours.
void take_log() {
#if GRPC_CPP_VERSION_MAJOR == 1 && GRPC_CPP_VERSION_MINOR < 65
    // What matters of it, our own messages say.
    gpr_set_log_function([](gpr_log_func_args* line) {
        log::debug("gRPC: {} ({}:{})", line->message, line->file, line->line);
    });
#endif
}

/// Never destroyed: gRPC 1.51 aborts ("assertion failed: prior > 0") when a channel goes while it waits
/// to connect again, which is what a controller's does when a member is away.
struct KeptChannels {
    std::mutex mutex;
    std::map<std::array<std::string, 5>, std::shared_ptr<grpc::Channel>> by_target;
};

KeptChannels& kept_channels() {
    static KeptChannels* const kept = [] {
        take_log();
        return new KeptChannels;
    }();
    return *kept;
}

}  // namespace

std::shared_ptr<grpc::Channel> etcd_channel(std::string const& address, Security const& security) {
    SecurityOptions const& options = security.options();
    KeptChannels& kept = kept_channels();
    std::lock_guard const lock(kept.mutex);
    auto& channel =
        kept.by_target[{address, options.ca, options.certificate, options.key, options.tls_name}];
    if (!channel) channel = new_channel(address, security);
    return channel;
}

}  // namespace mgi::control
