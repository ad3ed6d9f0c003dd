#include "control/election/etcd_client.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <thread>

#include <mgi/error.hpp>

namespace mgi::control {

namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

/// A member that is stuck must leave time for the next one; in each round there is more, for name
/// servers that are slow.
constexpr milliseconds kMemberLimit{1000};
constexpr milliseconds kPause{50};

/// Another member may do better.
bool is_members_own(GrpcCode code) {
    return code == GrpcCode::Unavailable || code == GrpcCode::DeadlineExceeded ||
           code == GrpcCode::Unknown || code == GrpcCode::Cancelled || code == GrpcCode::Internal;
}

}  // namespace

EtcdClient::EtcdClient(EtcdOptions const& options) : security_(options.security) {
    if (options.members.empty()) {
        throw Error(ErrorCode::InvalidArgument, "etcd: no member given (host:port,host:port...)");
    }
    for (std::string const& address : options.members) {
        members_.push_back(std::make_unique<GrpcConnections>(address, security_));
    }
}

void EtcdClient::call(char const* what, char const* method,
                      google::protobuf::MessageLite const& request,
                      google::protobuf::MessageLite& response, EtcdLimit const& limit) const {
    std::string const message = request.SerializeAsString();
    std::string last = "no time left";
    std::size_t const first = current_.load(std::memory_order_relaxed);
    SteadyTime const deadline = limit.deadline;
    auto const goes_on = [&] {
        return steady_clock::now() < deadline && !limit.stop.stop_requested();
    };
    for (std::size_t attempt = 0; goes_on(); ++attempt) {
        if (attempt > 0 && attempt % members_.size() == 0) {
            auto const left = deadline - steady_clock::now();
            std::this_thread::sleep_for(std::min<steady_clock::duration>(kPause, left));
        }
        auto const round = static_cast<int>(1 + attempt / members_.size());
        std::size_t const index = (first + attempt) % members_.size();
        GrpcConnections& member = *members_[index];
        auto const left = std::chrono::duration_cast<milliseconds>(deadline - steady_clock::now());
        GrpcOutcome outcome =
            member.call(method, message, std::min(left, kMemberLimit * round), limit.stop);
        GrpcStatus& status = outcome.status;
        if (status.ok() && !response.ParseFromString(outcome.message)) {
            status = {GrpcCode::Internal, "its answer is none of etcd's"};
        }
        if (status.ok()) {
            current_.store(index, std::memory_order_relaxed);
            return;
        }
        last = fmt::format("{}: {}", member.address(), status.text);
        if (!is_members_own(status.code)) {
            throw Error(ErrorCode::Refused, fmt::format("etcd refuses to {}: {}", what, last));
        }
    }
    std::vector<std::string> addresses;
    for (auto const& member : members_) addresses.push_back(member->address());
    throw Error(ErrorCode::Timeout, fmt::format("etcd ({}) did not {} in time; last word of {}",
                                                fmt::join(addresses, ", "), what, last));
}

etcdserverpb::TxnResponse EtcdClient::transact(etcdserverpb::TxnRequest const& request,
                                               EtcdLimit const& limit) const {
    etcdserverpb::TxnResponse response;
    call("run a transaction", "etcdserverpb.KV/Txn", request, response, limit);
    return response;
}

std::optional<EtcdEntry> EtcdClient::read(std::string const& key, EtcdLimit const& limit) const {
    etcdserverpb::RangeRequest request;
    request.set_key(key);
    etcdserverpb::RangeResponse response;
    call("read a key", "etcdserverpb.KV/Range", request, response, limit);
    return entry_of(response);
}

std::int64_t EtcdClient::grant(std::chrono::seconds lease, EtcdLimit const& limit) const {
    etcdserverpb::LeaseGrantRequest request;
    request.set_ttl(lease.count());
    etcdserverpb::LeaseGrantResponse response;
    call("grant a lease", "etcdserverpb.Lease/LeaseGrant", request, response, limit);
    return response.id();
}

bool EtcdClient::keep_alive(std::int64_t lease, EtcdLimit const& limit) const {
    etcdserverpb::LeaseKeepAliveRequest request;
    request.set_id(lease);
    etcdserverpb::LeaseKeepAliveResponse response;
    // A stream of requests, which ends with this one: so etcd's answers do, too.
    call("renew a lease", "etcdserverpb.Lease/LeaseKeepAlive", request, response, limit);
    return response.ttl() > 0;
}

void EtcdClient::revoke(std::int64_t lease, EtcdLimit const& limit) const {
    etcdserverpb::LeaseRevokeRequest request;
    request.set_id(lease);
    etcdserverpb::LeaseRevokeResponse response;
    call("revoke a lease", "etcdserverpb.Lease/LeaseRevoke", request, response, limit);
}

std::optional<EtcdEntry> entry_of(etcdserverpb::RangeResponse const& response) {
    if (response.kvs().empty()) return std::nullopt;
    etcdserverpb::KeyValue const& found = response.kvs(0);
    return EtcdEntry{found.value(), found.create_revision(), found.mod_revision(), found.lease()};
}

etcdserverpb::Compare created_at(std::string const& key, std::int64_t revision) {
    etcdserverpb::Compare compare;
    compare.set_target(etcdserverpb::Compare::CREATE);
    compare.set_key(key);
    compare.set_create_revision(revision);
    return compare;
}

etcdserverpb::Compare changed_at(std::string const& key, std::int64_t revision) {
    etcdserverpb::Compare compare;
    compare.set_target(etcdserverpb::Compare::MOD);
    compare.set_key(key);
    compare.set_mod_revision(revision);
    return compare;
}

etcdserverpb::RequestOp get(std::string const& key) {
    etcdserverpb::RequestOp operation;
    operation.mutable_request_range()->set_key(key);
    return operation;
}

etcdserverpb::RequestOp put(std::string const& key, std::string const& value, std::int64_t lease) {
    etcdserverpb::RequestOp operation;
    operation.mutable_request_put()->set_key(key);
    operation.mutable_request_put()->set_value(value);
    operation.mutable_request_put()->set_lease(lease);
    return operation;
}

}  // namespace mgi::control
