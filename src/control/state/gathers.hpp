/// \file
/// What processes say to each other when they meet: each of `size` ranks says its share under one key, and
/// all get everybody's (docs/control.md). Whoever gives up takes its share along.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
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
    void drop(Kept const& kept);
    void take_out(CallId call, Timers& timers);
    void answer_all(Key const& key, Millis now, Timers& timers, Effects& effects);

    Limits const limits_;
    Millis const keep_ms_;
    std::map<Key, Meeting> meetings_;
    std::unordered_map<CallId, Waiting> calls_;
    std::map<Key, std::shared_ptr<GatherReply const>> answers_;  ///< by request
    Keepsakes<Kept> kept_;
    Shares waiting_;
    Shares bytes_;
};

}  // namespace mgi::control
