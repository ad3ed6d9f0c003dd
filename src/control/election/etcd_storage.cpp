#include "control/election/etcd_storage.hpp"

#include <fmt/format.h>

#include <charconv>
#include <limits>

#include <mgi/error.hpp>

namespace mgi::control {

namespace {

constexpr std::chrono::seconds kLimit{3};
/// Nobody else writes these keys but a leader, of which there is one: a second attempt is for an answer
/// that got lost.
constexpr int kAttempts = 8;
constexpr std::uint64_t kEndOfIds = std::uint64_t(std::numeric_limits<std::uint32_t>::max()) + 1;

std::uint64_t next_of(std::string const& key, EtcdEntry const& entry) {
    std::uint64_t next = 0;
    char const* const end = entry.value.data() + entry.value.size();
    auto const [rest, problem] = std::from_chars(entry.value.data(), end, next);
    if (problem != std::errc() || rest != end || next == 0 || next > kEndOfIds) {
        throw Error(
            ErrorCode::Refused,
            fmt::format("etcd key {}: \"{:.40}\" is no next id; nothing but controllers may "
                        "write there. Put in a number above every id that was given",
                        key, entry.value));
    }
    return next;
}

}  // namespace

EtcdStorage::EtcdStorage(EtcdClient const& etcd, EtcdOptions options, Term const& term,
                         std::stop_token stop)
    : etcd_(etcd), options_(std::move(options)), epoch_(term.epoch), stop_(std::move(stop)) {}

IdBlock EtcdStorage::reserve(IdKind kind, std::uint32_t count) {
    EtcdLimit const limit(std::chrono::steady_clock::now() + kLimit, stop_);
    std::string const key = options_.prefix + "next/" + to_string(kind);
    etcdserverpb::Compare const leading = created_at(leader_key(options_), std::int64_t(epoch_));
    for (int attempt = 0; attempt < kAttempts; ++attempt) {
        auto const found = etcd_.read(key, limit);
        std::uint64_t const next = found ? next_of(key, *found) : 1;
        if (next + count > kEndOfIds) {
            throw Error(ErrorCode::OutOfMemory,
                        fmt::format("every 32-bit {} id is used up", to_string(kind)));
        }
        etcdserverpb::TxnRequest request;
        *request.add_compare() = leading;
        *request.add_compare() = changed_at(key, found ? found->mod_revision : 0);
        *request.add_success() = put(key, std::to_string(next + count));
        *request.add_failure() = get(leader_key(options_));
        auto const answer = etcd_.transact(request, limit);
        if (answer.succeeded()) return {std::uint32_t(next), count};
        auto const leader = entry_of(answer.responses(0).response_range());
        if (!leader || std::uint64_t(leader->create_revision) != epoch_) {
            throw Error(ErrorCode::Refused,
                        fmt::format("this controller leads no more (epoch {}); {} does", epoch_,
                                    leader ? leader->value : "nobody yet"));
        }
    }
    throw Error(ErrorCode::Refused, fmt::format("etcd key {} changes all the time: two clusters "
                                                "with one prefix? Give each its own --etcd-prefix",
                                                key));
}

}  // namespace mgi::control
