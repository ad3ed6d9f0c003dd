#include "control/election/etcd_client.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <grpcpp/client_context.h>

#include <algorithm>
#include <thread>

#include <mgi/error.hpp>

#include "control/election/etcd_channel.hpp"

namespace mgi::control {

namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

/// A member that is stuck must leave time for the next one.
constexpr milliseconds kMemberLimit{1000};
constexpr milliseconds kPause{50};

bool is_members_own(grpc::StatusCode code) {
    return code == grpc::StatusCode::UNAVAILABLE || code == grpc::StatusCode::DEADLINE_EXCEEDED ||
           code == grpc::StatusCode::UNKNOWN || code == grpc::StatusCode::CANCELLED ||
           code == grpc::StatusCode::INTERNAL;
}

}  // namespace

EtcdClient::EtcdClient(EtcdOptions const& options) : security_(options.security) {
    if (options.members.empty()) {
        throw Error(ErrorCode::InvalidArgument, "etcd: no member given (host:port,host:port...)");
    }
    for (std::string const& address : options.members) {
        auto const channel = etcd_channel(address, security_);
        members_.push_back(
            {address, etcdserverpb::KV::NewStub(channel), etcdserverpb::Lease::NewStub(channel)});
    }
}

void EtcdClient::call(char const* what, EtcdLimit const& limit, Call const& call) const {
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
        std::size_t const index = (first + attempt) % members_.size();
        auto const left = std::chrono::duration_cast<milliseconds>(deadline - steady_clock::now());
        grpc::ClientContext context;
        context.set_deadline(std::chrono::system_clock::now() +
                             std::clamp(left, milliseconds(0), kMemberLimit));
        std::stop_callback const stopped(limit.stop, [&context] { context.TryCancel(); });
        grpc::Status const status = call(members_[index], context);
        if (status.ok()) {
            current_.store(index, std::memory_order_relaxed);
            return;
        }
        last = fmt::format("{}: {}", members_[index].address, status.error_message());
        if (!is_members_own(status.error_code())) {
            throw Error(ErrorCode::Refused, fmt::format("etcd refuses to {}: {}", what, last));
        }
    }
    std::vector<std::string> addresses;
    for (Member const& member : members_) addresses.push_back(member.address);
    throw Error(ErrorCode::Timeout, fmt::format("etcd ({}) did not {} in time; last word of {}",
                                                fmt::join(addresses, ", "), what, last));
}

etcdserverpb::TxnResponse EtcdClient::transact(etcdserverpb::TxnRequest const& request,
                                               EtcdLimit const& limit) const {
    etcdserverpb::TxnResponse response;
    call("run a transaction", limit, [&](Member const& member, grpc::ClientContext& context) {
        return member.keys->Txn(&context, request, &response);
    });
    return response;
}

std::optional<EtcdEntry> EtcdClient::read(std::string const& key, EtcdLimit const& limit) const {
    etcdserverpb::RangeRequest request;
    request.set_key(key);
    etcdserverpb::RangeResponse response;
    call("read a key", limit, [&](Member const& member, grpc::ClientContext& context) {
        return member.keys->Range(&context, request, &response);
    });
    return entry_of(response);
}

std::int64_t EtcdClient::grant(std::chrono::seconds lease, EtcdLimit const& limit) const {
    etcdserverpb::LeaseGrantRequest request;
    request.set_ttl(lease.count());
    etcdserverpb::LeaseGrantResponse response;
    call("grant a lease", limit, [&](Member const& member, grpc::ClientContext& context) {
        return member.leases->LeaseGrant(&context, request, &response);
    });
    return response.id();
}

bool EtcdClient::keep_alive(std::int64_t lease, EtcdLimit const& limit) const {
    etcdserverpb::LeaseKeepAliveRequest request;
    request.set_id(lease);
    etcdserverpb::LeaseKeepAliveResponse response;
    call("renew a lease", limit, [&](Member const& member, grpc::ClientContext& context) {
        auto const stream = member.leases->LeaseKeepAlive(&context);
        bool const answered =
            stream->Write(request) && stream->WritesDone() && stream->Read(&response);
        if (answered) context.TryCancel();  // the member would wait for more
        grpc::Status const status = stream->Finish();
        return answered ? grpc::Status::OK : status;
    });
    return response.ttl() > 0;
}

void EtcdClient::revoke(std::int64_t lease, EtcdLimit const& limit) const {
    etcdserverpb::LeaseRevokeRequest request;
    request.set_id(lease);
    etcdserverpb::LeaseRevokeResponse response;
    call("revoke a lease", limit, [&](Member const& member, grpc::ClientContext& context) {
        return member.leases->LeaseRevoke(&context, request, &response);
    });
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
