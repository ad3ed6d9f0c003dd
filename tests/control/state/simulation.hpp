/// \file
/// A cluster under virtual time: the controller's state machine with storage, a planner and agents that
/// crash, freeze, are cut off and come back; every step is drawn from one seed and checked.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <queue>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "control/state/cluster.hpp"
#include "control/state/oracle.hpp"
#include "support/random.hpp"

namespace mgi::control::test {

/// An agent's process, and what its applications would say to the next one.
struct SimAgent {
    struct Channel {
        HeldChannel held;
        std::uint64_t committed = 0;
        std::uint64_t prepared = 0;
    };
    std::string name;
    std::string instance;
    bool alive = true;
    bool impostor = false;  ///< a second process by another's name
    SessionId session = 0;  ///< 0: none, as far as it knows
    bool registered = false;
    Sender sender;
    Millis frozen_until = 0;
    Millis cut_until = 0;                              ///< its network
    std::map<std::uint32_t, std::uint32_t> endpoints;  ///< id to vertex
    std::map<std::uint32_t, Channel> channels;
    std::map<std::uint32_t, std::uint32_t> later_endpoints;  ///< of applications not back yet
    std::map<std::uint32_t, Channel> later_channels;
    bool in_parts = false;  ///< its registration had not room for all
    std::set<std::uint32_t> unnamed_endpoints;
    std::set<std::uint32_t> unnamed_channels;
    std::set<std::uint32_t> ended;   ///< channels whose end it was told
    std::vector<AgentMessage> said;  ///< some of its words, to be said again when they are old
};

class Simulation {
public:
    explicit Simulation(std::uint64_t seed);
    /// Throws std::runtime_error that says which promise was broken, and when.
    void run();
    /// What happened, for a replay.
    bool trace = false;

private:
    struct Stream {
        std::size_t agent = 0;
        bool agent_side = true;
        bool controller_side = true;
        Millis last_up = 0;
        Millis last_down = 0;
        std::deque<AgentMessage> up;  ///< on their way, in order
        std::deque<std::shared_ptr<ControllerMessage const>> down;
    };
    struct PendingCall {
        Millis deadline = 0;  ///< in the controller's own time
        std::uint64_t epoch = 0;
        std::function<void(Answer const&)> done;
    };

    // the world
    void at(Millis when, std::function<void()> what);
    void run_until(Millis end);
    void say(std::string const& what) const;
    [[noreturn]] void broken(std::string const& promise) const;
    Millis soon(Millis most) { return time_ + random_.between(0, most); }

    // the controller
    void start_controller();
    void crash_controller();
    void tick();
    using Event = std::function<void(Cluster&, Now, Effects&)>;
    /// An event of this life of the controller; lost if that is over. Returns its effects.
    Effects apply(Event const& event);
    void to_controller(std::function<void()> what);
    void carry_out(Effects& effects);
    void plan(MakePlan const& request);
    void reserve(IdKind kind);

    // agents
    void connect(std::size_t index);
    void lose_session(std::size_t index, Millis controller_sees);
    void agent_says(std::size_t index, AgentMessage message);
    void deliver_up(SessionId session, AgentMessage message);
    void hear_next(SessionId session);
    void hear(std::size_t index, ControllerMessage const& message);
    void hear_registered(std::size_t index, Registered const& reply, std::uint64_t epoch);
    void prepare(std::size_t index, PreparePlan const& plan);
    void beat(std::size_t index);
    void crash(std::size_t index, bool for_ever);
    void announce(std::size_t index);
    [[nodiscard]] Register registration(SimAgent& agent);
    /// What the registration left out.
    void name_rest(std::size_t index);

    // clients
    void create_endpoint(std::size_t index, std::string request, int tries);
    void create_channel(std::size_t index, CreateChannelRequest request, int tries);
    void call(std::size_t index, Millis limit,
              std::function<void(Cluster&, CallId, Now, Effects&)> ask,
              std::function<void(Answer const*)> done);
    [[nodiscard]] std::vector<std::uint32_t> some_endpoints();

    // faults
    void fault();
    void old_words();
    void settle();
    void check_settled();

    mgi::test::Random random_;
    Settings settings_;
    Millis time_ = 1'000'000;
    std::uint64_t steps_ = 0;
    struct Later {
        Millis when;
        std::uint64_t order;
        std::function<void()> what;
        bool operator<(Later const& other) const {
            return std::tie(when, order) > std::tie(other.when, other.order);
        }
    };
    std::priority_queue<Later> queue_;
    std::uint64_t order_ = 0;
    bool calm_ = false;

    std::unique_ptr<Cluster> cluster_;
    std::uint64_t epoch_ = 0;
    Millis frozen_until_ = 0;
    Millis planner_free_ = 0;
    std::array<std::uint32_t, kIdKinds> next_id_{1, 1, 1};
    std::uint64_t names_ = 1;
    std::uint64_t link_version_ = 0;
    Oracle oracle_;

    std::deque<SimAgent> agents_;
    std::map<SessionId, Stream> streams_;
    std::map<CallId, PendingCall> calls_;
};

}  // namespace mgi::control::test
