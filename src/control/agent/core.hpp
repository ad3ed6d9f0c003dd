/// \file
/// The agent without its sockets: applications' requests and the controller's messages in, messages to
/// both out. Time comes from outside and nothing waits, so that tests run it in virtual time.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <mgi/cluster.hpp>

#include "control/agent/hello.hpp"
#include "control/agent/holdings.hpp"
#include "control/agent/owner.hpp"
#include "control/agent/ports.hpp"
#include "control/agent/session.hpp"
#include "control/agent/usage.hpp"
#include "control/net/bounded_log.hpp"
#include "control/state/keepsakes.hpp"
#include "control/state/shares.hpp"

namespace mgi::control {

struct CoreOptions {
    std::string name;      ///< of this server in the cluster
    std::string instance;  ///< random, of this process
    std::string version;
    ServerGraph graph;
    Usage::NicNames nics;    ///< of the graph
    std::string ticket_key;  ///< as of Tickets
    /// The kernel's number for users that it has no number for here: that many of them may be.
    std::optional<std::uint32_t> nobody;
    std::uint32_t operator_uid = 0;  ///< whose applications see all that goes on, as root's do
    SessionOptions session;
    /// Of what applications hold, in one message: a registration says it in as many as it takes. Well
    /// below what a message may have, for its last channel goes beyond it.
    std::size_t part_bytes = std::size_t(16) << 20;
};

/// Single-threaded.
class AgentCore {
public:
    static constexpr std::size_t kMostApplications = 1024;
    static constexpr std::size_t kMostRequests = 256;        ///< waiting, of one application
    static constexpr std::size_t kMostRequestsOfAll = 4096;  ///< also of who has left
    /// Of one application's requests that wait, as the controller is asked: heartbeats share their way.
    static constexpr std::size_t kMostRequestBytes = std::size_t(16) << 20;
    static constexpr std::size_t kMostEndpointsEach = 65'536;  ///< of one application
    static constexpr std::size_t kMostNamed = 1u
                                              << 22;  ///< endpoints that one hello's channels name
    static constexpr Milliseconds kHelloLimit{5000};
    static constexpr Milliseconds kDefaultLimit{10'000};
    static constexpr Milliseconds kLongestLimit{600'000};
    /// For the outcome of what was asked for by an application that waits no more.
    static constexpr Milliseconds kGiveBackLimit{30'000};
    /// Until a channel is deleted whose creator has ended with endpoints in it: that they are gone says
    /// more, and has failed the channel by then.
    static constexpr Milliseconds kAfterEndpoints{500};
    /// So long what a channel's endpoints of this server have left is said to a new controller: the last
    /// one may not have told the others.
    static constexpr Milliseconds kRepeatLeaving{10'000};
    /// So long a gather that was answered is said again to a new controller: others may not have been.
    static constexpr Milliseconds kRepeatGathers{10'000};
    static constexpr std::size_t kMostParts = 4096;    ///< file descriptors that are kept
    static constexpr std::size_t kMostRepeated = 256;  ///< of them

    AgentCore(CoreOptions options, AgentPorts& ports);

    // What applications do.
    void application_came(ApplicationId id, std::uint32_t pid, std::uint32_t uid, Time now);
    /// `fd` is what the message brought, if it says that it does: empty, if that got lost.
    void application_said(ApplicationId id, Json const& message, Time now, Fd fd = {});
    /// Its socket closed or broke, or its process ended.
    void application_left(ApplicationId id, std::string const& why, Time now);

    // What the controller does.
    void session_received(std::uint64_t session, ControllerMessage const& message, Time now);
    void session_broken(std::uint64_t session, std::string const& why, Time now);
    void call_ended(CallNumber number, CallOutcome outcome, Time now);

    /// A link changed its rate; 0: it is down.
    void link_changed(std::uint32_t from, std::uint32_t to, double gbps);
    /// What links move now, for the heartbeats that follow; the others move nothing that is known.
    void links_used(std::vector<LinkUse> uses) { links_used_ = std::move(uses); }
    /// The server leaves the cluster; false if it does not, because applications hold something.
    bool leave(std::string const& why);
    [[nodiscard]] bool joined() const { return session_.joined(); }

    void tick(Time now);
    /// When `tick` is next of use.
    [[nodiscard]] Time next() const;

    /// What the agent knows, for people and for its metrics.
    [[nodiscard]] Json status() const;

private:
    struct Application {
        std::string name;  ///< empty until its hello
        std::uint32_t pid = 0;
        std::uint32_t uid = 0;
        std::string user;   ///< of it, whom its place and its requests count for
        std::string owner;  ///< of what it names, since its hello
        Time since{};
        std::size_t requests = 0;       ///< that wait
        std::size_t request_bytes = 0;  ///< of those that the controller is asked
    };
    /// An application's request that the controller decides.
    struct Request {
        ApplicationId application = 0;  ///< 0: nobody waits for it
        std::uint64_t id = 0;           ///< the application's
        std::string user;               ///< whom it counts for, also once its application has left
        std::string op;
        UnaryRequest message;
        std::size_t bytes = 0;  ///< of the message
        Time deadline{};
        Time again{};               ///< not before
        CallNumber call = 0;        ///< under way; 0: not
        std::uint64_t session = 0;  ///< in which it was sent
        std::string trouble;        ///< what kept it so far
        std::uint32_t made = 0;     ///< a channel whose plan is not committed here yet
        std::uint64_t generation = 0;
        /// A gather that is answered: of the controller with this epoch it needs nothing more.
        std::uint64_t answered_by = 0;
    };
    using Requests = std::map<std::uint64_t, Request>;
    /// An application that waits for another one's part.
    struct PartWait {
        ApplicationId application = 0;
        std::uint64_t id = 0;  ///< of its request
        std::uint32_t channel = 0;
        Time deadline{};
    };

    // core_applications.cpp
    void said(ApplicationId id, Application& application, Json const& message, Time now, Fd fd);
    void hello(ApplicationId id, Application& application, Json const& message);
    [[nodiscard]] std::string owner_in(Application const& application, Json const& message) const;
    [[nodiscard]] bool sees_all(Application const& application) const;
    [[nodiscard]] std::string board_of(Application const& application) const;
    /// Whether the application has proven that it holds it.
    bool take_endpoint(ApplicationId id, HelloEndpoint const& claim);
    bool take_channel(ApplicationId id, HelloChannel const& claim);
    void create_endpoint(Request request, Json const& message);
    void delete_endpoint(Request request, Json const& message);
    void create_channel(Request request, Json const& message);
    void delete_channel(Request request, Json const& message);
    void use(ApplicationId id, Json const& message);
    [[nodiscard]] std::uint32_t place_for(std::string const& device) const;
    [[nodiscard]] std::string device_names() const;

    // core_requests.cpp
    void ask(Request request);
    /// Throws Error(Refused) where the application, or its user, may have no more that wait.
    void check_room(Request const& request) const;
    void add(std::uint64_t number, Request request);
    bool take_over(Request const& request);
    /// All, or those from that number on.
    void dispatch(Time now, std::uint64_t first = 0);
    void send(Requests::iterator at, Time now);
    void done(Requests::iterator at, CallOutcome const& outcome);
    void answer_channel(Requests::iterator at);
    void answer(Request const& request, Json message);
    void fail(Requests::iterator at, ErrorCode code, std::string const& text);
    Requests::iterator forget(Requests::iterator at);
    void give_back(UnaryRequest message, Time not_before = {});
    [[nodiscard]] bool is_given_back(std::uint32_t channel) const;
    void renew_give_backs();
    /// What agrees between events, in builds with assertions.
    void check_invariants() const;
    void drop(Requests::iterator at);
    [[nodiscard]] static bool makes(UnaryRequest const& message);
    [[nodiscard]] bool expires(Request const& request) const;

    // core_gathers.cpp
    void gather(Request request, Json const& message);
    void gathered(Requests::iterator at, GatherReply const& reply);
    void repeat_gathers();
    [[nodiscard]] static bool is_gather(Request const& request);
    [[nodiscard]] static bool is_failure(Request const& request);

    // core_channels.cpp: what a channel's processes on this server share, and how they leave it
    HeldPlans& joined_channel(Request const& request, std::uint32_t id);
    void put_part(Request const& request, Json const& message, Fd fd);
    void get_part(Request const& request, Json const& message);
    void hand_part(PartWait const& wait, HeldPlans const& held);
    void share_board(Request const& request, Json const& message, Fd fd);
    void forget_board(std::string const& board);
    void waits_no_more(PartWait const& wait);
    /// Those of which it holds end with this answer.
    void end_part_waits(std::function<bool(PartWait const&)> const& of, Json answer);
    void leave_channel(Request const& request, Json const& message);
    void take_left(ApplicationId id, std::uint32_t channel, Json const& message);
    void channel_left(ChannelLeft const& left);
    void goes_on_elsewhere(std::uint32_t channel);
    void forget_left(Time now);

    // core_controller.cpp
    [[nodiscard]] Register registration();
    void joined(Registered const& registered);
    void received(ControllerMessage const& message);
    void prepare(PreparePlan const& prepare);
    void commit(CommitPlan const& commit);
    /// `but` knows it already.
    void end_channel(std::uint32_t id, bool failed, std::string const& why, ApplicationId but = 0);
    void lose_endpoint(std::uint32_t id, std::string const& why);
    void tell_controller_state(bool reached, std::string const& why);
    void tell_all(Json const& notice);
    void report(AgentMessage message);
    bool tell_some(google::protobuf::RepeatedPtrField<HeldEndpoint>& endpoints,
                   google::protobuf::RepeatedPtrField<HeldChannel>& channels);
    void announce();
    [[nodiscard]] std::string name_of(ApplicationId application) const;
    [[nodiscard]] std::string owner_of(ApplicationId application) const;
    /// The plan that runs as its parties are told of it, with the ticket that proves it.
    [[nodiscard]] Json told_plan(HeldPlans const& held) const;
    /// The same as its creator is told, with the ticket that proves that.
    [[nodiscard]] Json told_creator(Json told, HeldPlans const& held) const;
    void add_figures(Heartbeat& heartbeat) const;

    CoreOptions const options_;
    Tickets const tickets_{options_.ticket_key};
    ServerGraph graph_;  ///< with what links do now
    AgentPorts& ports_;
    Holdings holdings_;
    ControllerSession session_;
    bool in_parts_ = false;             ///< the registration had no room for all
    std::vector<AgentMessage> unsaid_;  ///< what came to pass while a registration is under way
    std::map<ApplicationId, Application> applications_;
    Requests requests_;
    // Users share the places and the time of this agent.
    Shares applications_of_{"applications at this agent", kMostApplications, "end some"};
    Shares requests_of_{"requests that wait at this agent", kMostRequestsOfAll, "ask later"};
    std::uint64_t next_request_ = 1;
    std::map<CallNumber, std::uint64_t> calls_;  ///< under way, and whose
    CallNumber next_call_ = 1;
    std::vector<PartWait> part_waits_;
    std::map<std::string, Fd> boards_;  ///< by user: what his processes share about this server
    net::BoundedLog unproven_log_;
    std::map<std::uint32_t, Time>
        left_;  ///< channels that go on elsewhere, and until when they are kept
    Keepsakes<std::uint64_t> repeated_;  ///< requests: gathers that are answered
    Usage usage_{options_.nics};
    std::vector<LinkUse> links_used_;
    Time now_{};  ///< of the event at hand
};

}  // namespace mgi::control
