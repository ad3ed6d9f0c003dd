/// \file
/// The agent without its sockets: applications' requests and the controller's messages in, messages to
/// both out. Time comes from outside and nothing waits, so that tests run it in virtual time.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <mgi/cluster.hpp>

#include "control/agent/holdings.hpp"
#include "control/agent/ports.hpp"
#include "control/agent/session.hpp"

namespace mgi::control {

struct CoreOptions {
    std::string name;      ///< of this server in the cluster
    std::string instance;  ///< random, of this process
    std::string version;
    ServerGraph graph;
    SessionOptions session;
    /// Of what applications hold, in one message: a registration says it in as many as it takes. Well
    /// below what a message may have, for its last channel goes beyond it.
    std::size_t part_bytes = std::size_t(16) << 20;
};

/// Single-threaded.
class AgentCore {
public:
    static constexpr std::size_t kMostApplications = 1024;
    static constexpr std::size_t kMostRequests = 256;          ///< waiting, of one application
    static constexpr std::size_t kMostEndpointsEach = 65'536;  ///< of one application
    static constexpr std::size_t kMostNamed = 1u
                                              << 22;  ///< endpoints that one hello's channels name
    static constexpr Milliseconds kHelloLimit{5000};
    static constexpr Milliseconds kDefaultLimit{10'000};
    static constexpr Milliseconds kLongestLimit{600'000};
    /// For the outcome of what was asked for by an application that waits no more.
    static constexpr Milliseconds kGiveBackLimit{30'000};

    AgentCore(CoreOptions options, AgentPorts& ports);

    // What applications do.
    void application_came(ApplicationId id, std::uint32_t pid, std::uint32_t uid, Time now);
    void application_said(ApplicationId id, Json const& message, Time now);
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
        Time since{};
        std::size_t requests = 0;  ///< that wait
    };
    /// An application's request that the controller decides.
    struct Request {
        ApplicationId application = 0;  ///< 0: nobody waits for it
        std::uint64_t id = 0;           ///< the application's
        std::string op;
        UnaryRequest message;
        Time deadline{};
        Time again{};               ///< not before
        CallNumber call = 0;        ///< under way; 0: not
        std::uint64_t session = 0;  ///< in which it was sent
        std::string trouble;        ///< what kept it so far
        std::uint32_t made = 0;     ///< a channel whose plan is not committed here yet
        std::uint64_t generation = 0;
    };
    using Requests = std::map<std::uint64_t, Request>;

    // core_applications.cpp
    void said(ApplicationId id, Application& application, Json const& message, Time now);
    void hello(ApplicationId id, Application& application, Json const& message);
    void create_endpoint(Request request, Json const& message);
    void delete_endpoint(Request request, Json const& message);
    void create_channel(Request request, Json const& message);
    void delete_channel(Request request, Json const& message);
    void use(Json const& message);
    [[nodiscard]] std::uint32_t place_for(std::string const& device) const;
    [[nodiscard]] std::string device_names() const;

    // core_requests.cpp
    void ask(Request request);
    bool take_over(Request const& request);
    void dispatch(Time now);
    void send(Requests::iterator at, Time now);
    void done(Requests::iterator at, CallOutcome const& outcome);
    void answer_channel(Requests::iterator at);
    void answer(Request const& request, Json message);
    void fail(Requests::iterator at, ErrorCode code, std::string const& text);
    Requests::iterator forget(Requests::iterator at);
    void give_back(UnaryRequest message);
    [[nodiscard]] bool is_given_back(std::uint32_t channel) const;
    void renew_give_backs();
    [[nodiscard]] static bool makes(UnaryRequest const& message);
    [[nodiscard]] bool expires(Request const& request) const;

    // core_controller.cpp
    [[nodiscard]] Register registration();
    void joined(Registered const& registered);
    void received(ControllerMessage const& message);
    void prepare(PreparePlan const& prepare);
    void commit(CommitPlan const& commit);
    void end_channel(std::uint32_t id, bool failed, std::string const& why);
    void lose_endpoint(std::uint32_t id, std::string const& why);
    void tell_controller_state(bool reached, std::string const& why);
    void tell_all(Json const& notice);
    void report(AgentMessage message);
    bool tell_some(google::protobuf::RepeatedPtrField<HeldEndpoint>& endpoints,
                   google::protobuf::RepeatedPtrField<HeldChannel>& channels);
    void announce();
    [[nodiscard]] std::string name_of(ApplicationId application) const;
    void add_figures(Heartbeat& heartbeat) const;

    CoreOptions const options_;
    ServerGraph graph_;  ///< with what links do now
    AgentPorts& ports_;
    Holdings holdings_;
    ControllerSession session_;
    bool in_parts_ = false;             ///< the registration had no room for all
    std::vector<AgentMessage> unsaid_;  ///< what came to pass while a registration is under way
    std::map<ApplicationId, Application> applications_;
    Requests requests_;
    std::uint64_t next_request_ = 1;
    std::map<CallNumber, std::uint64_t> calls_;  ///< under way, and whose
    CallNumber next_call_ = 1;
    std::map<std::uint32_t, ChannelUse> used_;
    std::vector<LinkUse> links_used_;
    Time now_{};  ///< of the event at hand
};

}  // namespace mgi::control
