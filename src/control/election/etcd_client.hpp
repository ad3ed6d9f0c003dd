/// \file
/// Transactions and leases of an etcd cluster, over its gRPC interface. A member that does not answer
/// is left for the next one.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "control/election/grpc_connections.hpp"
#include "control/proto/etcd.pb.h"
#include "control/rpc/security.hpp"

namespace mgi::control {

using SteadyTime = std::chrono::steady_clock::time_point;

/// When a call ends at the latest.
struct EtcdLimit {
    EtcdLimit(SteadyTime latest, std::stop_token stopped = {})
        : deadline(latest), stop(std::move(stopped)) {}

    SteadyTime deadline;
    std::stop_token stop;  ///< or when this is requested
};

struct EtcdOptions {
    std::vector<std::string> members;  ///< "host:port" of each
    std::string prefix = "/mgi/";      ///< of all keys; one for each cluster of MGI
    std::chrono::seconds lease{5};  ///< without a sign of life for so long, a leader is one no more
    SecurityOptions security;
};

/// What a key holds.
struct EtcdEntry {
    std::string value;
    std::int64_t create_revision = 0;
    std::int64_t mod_revision = 0;
    std::int64_t lease = 0;
};

/// Thread-safe. Each call ends by its limit: with Error(Timeout) that names the members and what the
/// last of them said. A call whose answer got lost may have worked.
class EtcdClient {
public:
    explicit EtcdClient(EtcdOptions const& options);

    [[nodiscard]] etcdserverpb::TxnResponse transact(etcdserverpb::TxnRequest const& request,
                                                     EtcdLimit const& limit) const;
    [[nodiscard]] std::optional<EtcdEntry> read(std::string const& key,
                                                EtcdLimit const& limit) const;

    [[nodiscard]] std::int64_t grant(std::chrono::seconds lease, EtcdLimit const& limit) const;
    /// Whether there still is such a lease.
    [[nodiscard]] bool keep_alive(std::int64_t lease, EtcdLimit const& limit) const;
    /// Its keys go with it.
    void revoke(std::int64_t lease, EtcdLimit const& limit) const;

private:
    /// Sends the request to one member after the other, until one answers.
    void call(char const* what, char const* method, google::protobuf::MessageLite const& request,
              google::protobuf::MessageLite& response, EtcdLimit const& limit) const;

    Security security_;
    std::vector<std::unique_ptr<GrpcConnections>> members_;
    mutable std::atomic<std::size_t> current_{0};  ///< the one that answered last
};

/// The key's entry, of an answer to a range request.
[[nodiscard]] std::optional<EtcdEntry> entry_of(etcdserverpb::RangeResponse const& response);

/// Conditions and actions of a transaction, for requests that can be read.
[[nodiscard]] etcdserverpb::Compare created_at(std::string const& key, std::int64_t revision);
[[nodiscard]] etcdserverpb::Compare changed_at(std::string const& key, std::int64_t revision);
[[nodiscard]] etcdserverpb::RequestOp get(std::string const& key);
[[nodiscard]] etcdserverpb::RequestOp put(std::string const& key, std::string const& value,
                                          std::int64_t lease = 0);

}  // namespace mgi::control
