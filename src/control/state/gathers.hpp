/// \file
/// What processes say to each other when they meet: each of `size` ranks says its share under one key, and
/// all get everybody's (docs/control.md). A rank that gives up takes its share along. A rank that has failed, or is gone,
/// ends the meeting for all.
#pragma once

#include <compare>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "control/state/effects.hpp"
#include "control/state/keepsakes.hpp"
#include "control/state/settings.hpp"
#include "control/state/shares.hpp"
#include "control/state/timers.hpp"

namespace mgi::control {

/// Part of the controller's state machine, whose time and timers it uses.
class Gathers {
public:
    Gathers(Limits const& limits, Millis keep_ms);

    /// Answers now or later: with all shares, or with what is wrong with this one.
    void say(CallId call, GatherRequest const& request, Millis now, Millis deadline, Timers& timers,
             Effects& effects);
    /// Its deadline has come: the answer names who is missing.
    void due(CallId call, Timers& timers, Effects& effects);
    void gone(CallId call, Timers& timers);
    /// Ends the meetings that count on this endpoint, now and later; the answer says why it is gone.
    void endpoint_gone(std::uint32_t endpoint, std::string const& why, Timers& timers,
                       Effects& effects);
    /// A failure that not all have come to hear is kept no longer.
    void forget_failure(std::uint64_t number);
    /// The oldest answers are kept no longer.
    void forget(Millis now, Timers& timers);

    /// Bytes of gathers under way.
    [[nodiscard]] Shares const& bytes() const { return bytes_; }
    /// Bytes of answers that are kept.
    [[nodiscard]] std::size_t kept_bytes() const { return kept_.size(); }
    /// Calls that wait.
    [[nodiscard]] Shares const& waiting() const { return waiting_; }

private:
    struct Share {
        std::string data;
        bool answered = true;    ///< as all of its calls say
        std::vector<CallId> of;  ///< that wait with it
    };
    struct Meeting {
        std::uint32_t size = 0;
        std::map<std::uint32_t, Share> shares;  ///< by rank
        std::size_t bytes = 0;
        /// The first ranks that have not come, once an error has named them: the next one's deadline has
        /// passed, too, and looking at all ranks for each of them takes a large gather's time squared.
        std::vector<std::uint32_t> missing;
        std::vector<std::pair<std::uint32_t, std::uint32_t>> ranks_at;  ///< by endpoint, sorted
    };
    /// A meeting that one rank has failed. Each of the others hears of it once.
    struct Failed {
        std::uint32_t size = 0;
        std::size_t bytes = 0;
        std::set<std::uint32_t> heard;  ///< ranks
        std::shared_ptr<GatherReply const> reply;
    };
    /// A key is its owner's alone: under another owner it is another key.
    struct Key {
        std::string owner;
        std::string name;
        auto operator<=>(Key const&) const = default;
    };
    struct Waiting {
        Key key;
        std::uint32_t rank = 0;
        std::string request;
    };
    /// Kept for who asks again, because the answer got lost on its way.
    struct Kept {
        Millis until = 0;
        std::string owner;
        std::vector<std::string> requests;
    };

    [[nodiscard]] std::string wrong(GatherRequest const& request) const;
    [[nodiscard]] std::string contradiction(GatherRequest const& request) const;
    [[nodiscard]] static std::vector<std::uint32_t> first_missing(Meeting const& meeting);
    [[nodiscard]] std::string rank_gone(GatherRequest const& request) const;
    void drop(Kept const& kept);
    void take_out(CallId call, Timers& timers);
    Meeting end_meeting(Key const& key, std::shared_ptr<GatherReply const> const& reply, Kept& kept,
                        std::size_t& bytes, Timers& timers, Effects& effects);
    void answer_all(Key const& key, Millis now, Timers& timers, Effects& effects);
    void keep(Kept kept, std::size_t bytes, Timers& timers);
    void fail_meeting(CallId call, GatherRequest const& request, Millis now, Millis deadline,
                      Timers& timers, Effects& effects);
    bool hear_failure(CallId call, GatherRequest const& request, Millis now, Timers& timers,
                      Effects& effects);

    Limits const limits_;
    Millis const keep_ms_;
    std::map<Key, Meeting> meetings_;
    std::unordered_map<CallId, Waiting> calls_;
    std::map<Key, std::shared_ptr<GatherReply const>> answers_;  ///< by request
    std::map<std::pair<Key, std::uint64_t>, Failed> failures_;   ///< and by number: as they came
    std::map<std::uint64_t, Key> failure_keys_;                  ///< by number
    std::uint64_t next_failure_ = 1;
    std::map<std::uint32_t, std::string> gone_;  ///< endpoints, and why: the last ones
    std::deque<std::uint32_t> gone_order_;
    Keepsakes<Kept> kept_;
    Shares waiting_;
    Shares bytes_;
};

}  // namespace mgi::control
