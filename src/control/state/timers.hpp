/// \file
/// What is due when: at most one time for each (kind, id).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "control/state/effects.hpp"

namespace mgi::control {

enum class Due : std::uint8_t {
    Registration,  ///< a session that has not registered yet
    Lease,         ///< a server's lease, or its grace
    Claims,        ///< a restarted agent's applications have not all announced themselves again
    Preparation,   ///< a channel's plan is not accepted by all
    Call,          ///< a call's deadline; after Preparation, which knows who is late
    Recovery,      ///< a channel that some servers hold waits for the others
    Replan,        ///< a plan that could not be renewed is tried again
    Forget,        ///< a server has failed long ago
    Gather,        ///< a call that waits for others' shares
    FailedGather,  ///< not all have come to hear that one of them has failed; id: its number
    Gathered,      ///< the oldest answer of a gather is kept no longer; id 0
};

/// Equal times are due in the order of kind and id, so that a run can be repeated.
class Timers {
public:
    void set(Due due, std::uint64_t id, Millis at) {
        auto const [entry, added] = at_.try_emplace({due, id}, at);
        if (!added) {
            queue_.erase({entry->second, due, id});
            entry->second = at;
        }
        queue_.emplace(at, due, id);
    }
    void cancel(Due due, std::uint64_t id) {
        auto const entry = at_.find({due, id});
        if (entry == at_.end()) return;
        queue_.erase({entry->second, due, id});
        at_.erase(entry);
    }
    /// Takes out the first that is due.
    std::optional<std::pair<Due, std::uint64_t>> take(Millis now) {
        if (queue_.empty() || std::get<0>(*queue_.begin()) > now) return std::nullopt;
        auto const [at, due, id] = *queue_.begin();
        queue_.erase(queue_.begin());
        at_.erase({due, id});
        return std::pair{due, id};
    }
    [[nodiscard]] std::optional<Millis> next() const {
        if (queue_.empty()) return std::nullopt;
        return std::get<0>(*queue_.begin());
    }
    [[nodiscard]] std::size_t size() const { return queue_.size(); }

private:
    std::set<std::tuple<Millis, Due, std::uint64_t>> queue_;
    std::map<std::pair<Due, std::uint64_t>, Millis> at_;
};

}  // namespace mgi::control
