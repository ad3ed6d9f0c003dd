/// \file
/// One of several controllers leads: who writes its address under <prefix>leader in etcd, with a lease
/// that it renews. The revision at which the key was made is the leader's epoch and its fencing token:
/// what is written for a leader is written only while the key still has that revision.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>

#include "control/election/etcd_client.hpp"
#include "control/election/fence.hpp"

namespace mgi::control {

/// A time of leadership.
struct Term {
    std::uint64_t epoch = 0;
    std::int64_t lease = 0;
    BootTime sure_until;  ///< nobody else leads before
};

[[nodiscard]] std::string leader_key(EtcdOptions const& options);

/// Used by one thread. Every wait ends when a stop is requested.
class Election {
public:
    /// `address` is what agents reach this controller by.
    Election(EtcdClient const& etcd, EtcdOptions options, std::string address,
             std::stop_token stop);

    /// Waits until this controller leads; nothing when it shall stop. `other` hears of each other
    /// leader, by its address, and "" when there is none or etcd cannot be asked.
    std::optional<Term> campaign(std::function<void(std::string const&)> const& other);

    /// Renews the term, and the fence with it, until it is lost, and says why; "" when it shall stop.
    std::string hold(Term term, Fence& fence);

    /// Waits; false when it shall stop.
    bool pause(std::chrono::milliseconds time);

    /// Makes room for the next leader at once; on failure its lease does, a little later.
    void resign(Term const& term) noexcept;

private:
    std::optional<Term> try_once(std::string& leader);
    [[nodiscard]] EtcdLimit question(std::chrono::milliseconds most) const;

    EtcdClient const& etcd_;
    EtcdOptions options_;
    std::string address_;
    std::stop_token stop_;
    std::mutex mutex_;
    std::condition_variable_any changed_;
};

}  // namespace mgi::control
