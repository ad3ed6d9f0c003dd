/// \file
/// What must hold, kept apart from the state machine: it sees events and effects, and says what is wrong.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>

#include "control/state/cluster.hpp"

namespace mgi::control::test {

struct BrokenPromise : std::runtime_error {
    using std::runtime_error::runtime_error;
};

class Oracle {
public:
    explicit Oracle(Settings const& settings) : settings_(settings) {}

    /// A controller starts; what it may know of presence is nothing.
    void restarted(std::uint64_t epoch, Millis now);

    // Before each event at the controller.
    void time(Millis now);
    /// Whether this word may have an effect: the session is its agent's present one, and the sender is
    /// who the controller last said that it is.
    [[nodiscard]] bool valid(SessionId session, Sender const& sender) const;
    [[nodiscard]] bool valid_caller(Sender const& sender) const;
    void word(SessionId session, AgentMessage const& message);
    void closed(SessionId session);

    // After it.
    void effects(Effects const& effects);
    void states(Snapshot const& snapshot) const;
    /// The effects of an event whose sender was stale.
    static void no_effect(Effects const& effects);

    /// An agent heard that a plan is committed: from now on nobody may take it back.
    void commit_heard(std::uint32_t channel, std::uint64_t generation) {
        heard_.emplace(channel, generation);
    }
    /// The controller's own time: without what it slept.
    [[nodiscard]] Millis now() const { return now_; }

    void id_given(IdKind kind, std::uint32_t id, std::string const& to);

private:
    struct Server {
        std::uint64_t incarnation = 0;
        SessionId session = 0;
        Presence presence = Presence::Present;
        Millis heard = 0;
        Millis away_since = 0;
    };
    using Plan = std::pair<std::uint32_t, std::uint64_t>;
    void away(Server& server) const;

    Settings settings_;
    std::uint64_t epoch_ = 0;
    Millis last_ = 0;
    Millis slept_ = 0;
    Millis now_ = 0;
    std::map<std::uint32_t, Server> servers_;
    std::map<SessionId, std::uint32_t> agents_;
    std::map<std::pair<IdKind, std::uint32_t>, std::string> given_;
    std::map<Plan, std::set<std::uint32_t>> participants_;  ///< of plans made in this epoch
    std::map<Plan, std::set<std::uint32_t>> accepted_;      ///< in this epoch
    std::set<Plan> committed_;                              ///< ever
    std::set<Plan> heard_;                                  ///< of them, by agents
    std::set<std::uint32_t> ended_;                         ///< channels, in this epoch
};

}  // namespace mgi::control::test
