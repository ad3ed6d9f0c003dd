/// \file
/// What the controller knows of its cluster, and the rules by which that changes: presence by leases,
/// ids, channels in two steps, recovery after a controller's or an agent's restart (docs/control.md).
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "control/state/effects.hpp"
#include "control/state/gathers.hpp"
#include "control/state/ids.hpp"
#include "control/state/keepsakes.hpp"
#include "control/state/records.hpp"
#include "control/state/settings.hpp"
#include "control/state/shares.hpp"
#include "control/state/snapshot.hpp"
#include "control/state/timers.hpp"
#include "control/state/turns.hpp"

namespace mgi::control {

/// A state machine: events in, effects out. No I/O, no thread, no clock; the same events at the same
/// times give the same effects. Not thread-safe. Events must come in the order of their times, and at
/// least one (`tick` if nothing else) each heartbeat: a longer pause is taken as the controller's own
/// sleep, and what it slept counts against nobody.
class Cluster {
public:
    /// `epoch` is this controller's; `blocks` are the first ids that it may give.
    Cluster(Settings const& settings, std::uint64_t epoch, IdBlocks const& blocks, Now now);

    void session_opened(SessionId session, Now now, Effects& effects);
    /// Takes figures out of the message, and cuts its texts.
    void session_message(SessionId session, AgentMessage& message, Now now, Effects& effects);
    void session_closed(SessionId session, Now now, Effects& effects);

    /// Each call gets exactly one Answer, at the latest at its deadline, unless it is gone before.
    void create_endpoint(CallId call, CreateEndpointRequest const& request, Now now,
                         Effects& effects);
    void delete_endpoint(CallId call, DeleteEndpointRequest const& request, Now now,
                         Effects& effects);
    void create_channel(CallId call, CreateChannelRequest const& request, Now now,
                        Effects& effects);
    void delete_channel(CallId call, DeleteChannelRequest const& request, Now now,
                        Effects& effects);
    void gather(CallId call, GatherRequest const& request, Now now, Effects& effects);
    /// The caller gave up. What it asked for goes on, except a gather: it may ask again with the same
    /// request.
    void call_gone(CallId call, Now now, Effects& effects);

    void planned(std::uint32_t channel, std::uint64_t generation, PlanMade plan, Now now,
                 Effects& effects);
    void ids_reserved(IdKind kind, IdBlock block);
    void ids_not_reserved(IdKind kind);

    void tick(Now now, Effects& effects);
    /// When the next thing is due, in the time of `Now`.
    [[nodiscard]] std::optional<Millis> next_due() const;

    [[nodiscard]] Snapshot snapshot(Now now) const;
    [[nodiscard]] std::uint64_t epoch() const { return epoch_; }
    [[nodiscard]] std::size_t timers() const { return timers_.size(); }
    [[nodiscard]] Gathers const& gathers() const { return gathers_; }
    /// What owners use now of each limit that they share.
    [[nodiscard]] std::array<Shares const*, 7> shares() const;

private:
    struct Failure {
        Problem problem = Problem::None;
        std::string text;
    };
    struct Remembered {
        Failure failure;
        std::size_t spec = 0;  ///< hash of what it was asked with
        std::string owner;
    };
    struct HeldPlans {
        HeldChannel const* any = nullptr;
        std::uint64_t committed = 0;
        std::uint64_t prepared = 0;
        bool creator = false;  ///< an application of this server created it
        bool creator_left = false;
        std::set<std::uint32_t> left = {};  ///< endpoints, of any server
    };
    /// What a list of held things is.
    enum class Telling : std::uint8_t {
        All,   ///< an agent that registers again: what it does not name is gone
        Part,  ///< the same, and it names the rest in what follows
        Some,  ///< a restarted agent: its applications may name more within the grace
        More,  ///< what they named since
    };

    /// Of what such a registration has not named yet, nobody knows whether it is held.
    static constexpr char const* kInParts = "its server's registration is not complete yet: repeat";

    // cluster.cpp: time, senders, messages out
    void advance(Now now, Effects& effects);
    void due(Due what, std::uint64_t id, Effects& effects);
    [[nodiscard]] Failure check(Sender const& sender) const;
    ServerRecord* sender_of(CallId call, Sender const& sender, Effects& effects);
    void send(SessionId session, ControllerMessage message, Effects& effects) const;
    void send_to(std::uint32_t agent, ControllerMessage message, Effects& effects) const;
    void send_to_all(std::set<std::uint32_t> const& agents, ControllerMessage message,
                     Effects& effects) const;
    void refuse(SessionId session, Refused::Why why, std::string text, Effects& effects);
    void answer(CallId call, Failure failure, Effects& effects);
    /// This controller is so young that what agents held under an earlier one may not be known yet.
    [[nodiscard]] bool young() const { return now_ - started_ < settings_.grace_ms; }
    void note(std::string what);

    // servers.cpp: registration, leases, presence
    void register_agent(SessionId session, Sender const& sender, Register& message,
                        Effects& effects);
    ServerRecord* admit(SessionId session, Sender const& sender, Register const& message,
                        Effects& effects);
    /// The server that failed first makes room for another one; false where none has.
    bool forget_one();
    void forget(ServerRecord const& server);
    void heartbeat(ServerRecord& server, Heartbeat& message, Effects& effects);
    void link_change(ServerRecord& server, LinkChange const& message, Effects& effects);
    void heard(ServerRecord& server, Effects& effects);
    void away(ServerRecord& server, std::string const& why, Effects& effects);
    void failed(ServerRecord& server, std::string const& why, Effects& effects);
    void lease_due(ServerRecord& server, Effects& effects);
    void tell_others(ServerRecord const& server, Effects& effects) const;
    void break_preparations(ServerRecord const& server, std::string const& why, Effects& effects);

    // held.cpp: what agents hold when they register
    void hold(ServerRecord& server, Telling telling,
              google::protobuf::RepeatedPtrField<HeldEndpoint> const& endpoints,
              google::protobuf::RepeatedPtrField<HeldChannel> const& channels, Lost& lost,
              Effects& effects);
    bool hold_endpoint(ServerRecord& server, HeldEndpoint const& held);
    [[nodiscard]] bool is_awaited_of_others(HeldEndpoint const& held) const;
    bool hold_channel(ServerRecord& server, std::uint32_t id, HeldPlans const& held,
                      Effects& effects);
    void note_unnamed(ServerRecord& server, Telling telling,
                      std::set<std::uint32_t> const& endpoints,
                      std::map<std::uint32_t, HeldPlans> const& channels);
    void drop_unnamed(ServerRecord& server, Effects& effects);
    ChannelRecord* learn_channel(std::uint32_t id, HeldChannel const& held);
    void settle_plans(ChannelRecord& channel, std::uint32_t agent, HeldPlans const& held,
                      Effects& effects);
    void try_recover(ChannelRecord& channel, Effects& effects);
    void recovery_due(ChannelRecord& channel, Effects& effects);
    void claims_due(ServerRecord& server, Effects& effects);

    // leaving.cpp: endpoints that a channel does without
    void channel_left(ServerRecord& server, ChannelLeft const& message, Effects& effects);
    void leave(ChannelRecord& channel, std::set<std::uint32_t> const& endpoints, Effects& effects);
    void creator_left(ChannelRecord& channel, ServerRecord& server, Effects& effects);
    void detach(ChannelRecord& channel, std::uint32_t agent, Effects& effects);
    void tell_left(ChannelRecord const& channel, std::uint32_t agent, Effects& effects) const;
    [[nodiscard]] static bool one_side_left(ChannelRecord const& channel);

    // endpoints.cpp
    /// As its agent says.
    void give_up_endpoint(std::uint32_t id, std::string const& why, Effects& effects);
    void remove_endpoint(std::uint32_t id, std::string const& why, Effects& effects);

    // channels.cpp: creation, two steps, end
    [[nodiscard]] Failure check_spec(ChannelSpec const& spec, std::string const& owner) const;
    [[nodiscard]] bool has_endpoint_of_others(ChannelSpec const& spec,
                                              std::string const& owner) const;
    [[nodiscard]] bool may_come_back(std::uint32_t endpoint) const;
    bool answer_known_request(CallId call, CreateChannelRequest const& request, Effects& effects);
    /// Milliseconds; 0 is the controller's own.
    [[nodiscard]] Millis limit(std::uint32_t deadline_ms) const;
    void wait_for(CallId call, ChannelRecord& channel, std::uint32_t deadline_ms);
    void stop_waiting(CallId call);
    void add_channel(ChannelRecord& channel);
    static void set_creator(ChannelRecord& channel, ServerRecord& server);
    void join(ChannelRecord& channel, std::uint32_t endpoint);
    void start_plan(ChannelRecord& channel, std::uint32_t deadline_ms, Effects& effects);
    void pump_plans(Effects& effects);
    [[nodiscard]] MakePlan plan_of(ChannelRecord const& channel) const;
    void plan_made(ChannelRecord& channel, PlanMade plan, Effects& effects);
    void plan_ack(ServerRecord& server, PlanAck const& ack, Effects& effects);
    void commit(ChannelRecord& channel, Effects& effects);
    /// The plan under way is given up: a channel being created ends, another one runs on.
    void abort(ChannelRecord& channel, Problem problem, std::string const& why, Effects& effects);
    void end(ChannelRecord& channel, bool failure, Problem problem, std::string const& why,
             Effects& effects);
    /// When there is room for it.
    void renew(ChannelRecord const& channel) { to_renew_.add(channel.owner, channel.id, true); }
    void pump_renewals(Effects& effects);
    void clear_next(ChannelRecord& channel);
    void answer_all(ChannelRecord& channel, Failure const& failure, Effects& effects);
    /// Of what may be registered yet, although it is over.
    static void note_ended(std::unordered_set<std::uint32_t>& ended, std::size_t most,
                           std::uint32_t id);
    void remember(ChannelRecord const& channel, Failure const& failure);
    void forget(ChannelRecord& channel, Failure const& failure, std::string const& state);

    [[nodiscard]] std::string name_of(std::uint32_t agent) const;

    // invariants.cpp: what agrees between events, in builds with assertions
    void check_invariants() const;
    void check_servers() const;
    void check_endpoints() const;
    void check_channels() const;
    void check_channel(ChannelRecord const& channel) const;

    Settings const settings_;
    std::uint64_t const epoch_;
    Ids ids_;
    Millis started_;
    Millis last_event_;
    Millis slept_ = 0;  ///< time in which the controller itself did not run
    Millis now_;        ///< of the event at hand, without what was slept
    Millis wall_ = 0;

    std::map<std::uint32_t, ServerRecord> servers_;
    std::unordered_map<std::string, std::uint32_t> server_names_;
    std::unordered_map<SessionId, std::uint32_t> sessions_;  ///< agent; 0: not registered yet
    std::unordered_map<std::uint32_t, EndpointRecord> endpoints_;
    std::unordered_map<std::string, std::uint32_t> endpoint_requests_;
    std::map<std::uint32_t, ChannelRecord> channels_;
    std::unordered_map<std::string, std::uint32_t> channel_requests_;
    std::unordered_map<CallId, std::uint32_t> calls_;  ///< channel that a call waits for
    std::size_t renewing_ = 0;
    Turns to_renew_;
    Turns to_plan_;
    /// What the planner has before it: channels and generations, which may be over.
    std::set<std::pair<std::uint32_t, std::uint64_t>> planning_;

    Shares endpoints_of_;
    Shares channels_of_;
    Shares channel_endpoints_of_;
    Shares creations_of_;
    Shares calls_of_;

    /// Requests whose channel is over, so that they get the same answer again.
    std::unordered_map<std::string, Remembered> over_;
    Keepsakes<std::string> over_kept_;
    /// Requests of endpoints that their agents gave up.
    std::unordered_set<std::string> over_endpoints_;
    Keepsakes<std::string> over_endpoints_kept_;
    /// An earlier controller's channels and endpoints that ended under this one: whoever still holds them
    /// has lost them. Full, nothing is learned any more.
    std::unordered_set<std::uint32_t> ended_earlier_;
    std::unordered_set<std::uint32_t> ended_earlier_endpoints_;
    /// Channels being recovered, by the endpoints they still miss.
    std::unordered_map<std::uint32_t, std::set<std::uint32_t>> awaited_;
    std::deque<ChannelView> ended_;
    std::deque<FailureView> failures_;
    std::uint64_t failures_told_ = 0;
    Counters counters_;
    Timers timers_;
    Gathers gathers_;
};

}  // namespace mgi::control
