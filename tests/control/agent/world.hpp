/// \file
/// A cluster in virtual time: the controller's state machine and agents' cores as they are, a network
/// between them that delays, breaks and parts, and applications that are lists of messages.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "control/agent/core.hpp"
#include "control/state/cluster.hpp"

namespace mgi::control::test {

class World;

/// A server: its agent, or none for a while, and what its applications were told.
class Node final : public AgentPorts {
public:
    Node(World& world, std::string name) : world_(world), name_(std::move(name)) {}

    void start();
    void kill();
    [[nodiscard]] bool runs() const { return core_ != nullptr; }
    [[nodiscard]] AgentCore& core() { return *core_; }

    /// A new application's id, after its hello. `held` has "endpoints" and "channels".
    ApplicationId application(std::string const& name, Json held = Json::object());
    void leave(ApplicationId application);
    /// The request's id.
    std::uint64_t ask(ApplicationId application, Json request);
    /// The answer so far, if there is one.
    std::optional<Json> answer(ApplicationId application, std::uint64_t id);
    std::vector<Json> notices(ApplicationId application, std::string const& kind);

    void open_session(std::uint64_t session, std::string const& controller) override;
    void send(AgentMessage const& message) override;
    void close_session() override;
    void call(CallNumber number, UnaryRequest const& request, Milliseconds limit) override;
    void cancel(CallNumber number) override;
    void tell(ApplicationId application, Json const& message) override;
    void hand(ApplicationId application, Json const& message, Fd fd) override;
    void dismiss(ApplicationId) override {}
    [[nodiscard]] std::int64_t wall_ms() const override;

    void thaw();

    bool parted = false;     ///< from the controller: nothing arrives, nothing breaks
    bool frozen = false;     ///< SIGSTOP; what comes waits for `thaw`
    std::vector<Fd> handed;  ///< with messages, to applications

private:
    friend class World;
    void received(SessionId session, ControllerMessage const& message);
    void broken(SessionId session, std::string const& why);

    World& world_;
    std::string const name_;
    std::unique_ptr<AgentCore> core_;
    std::uint64_t life_ = 0;                      ///< which start of the agent's process this is
    SessionId session_ = 0;                       ///< the controller's number of the open session
    std::map<SessionId, std::uint64_t> numbers_;  ///< the core's number of each
    std::vector<std::pair<SessionId, CallNumber>> calls_;
    ApplicationId next_application_ = 1;
    std::uint64_t next_request_ = 1;
    std::map<ApplicationId, std::vector<Json>> told_;
    std::vector<std::function<void()>> waiting_;
};

class World {
public:
    explicit World(std::size_t servers, std::uint64_t seed = 1);
    ~World();

    Node& node(std::size_t index) { return *nodes_.at(index); }
    [[nodiscard]] std::size_t size() const { return nodes_.size(); }

    void start_controller();
    void kill_controller();
    [[nodiscard]] Snapshot snapshot();

    void run(Milliseconds time);
    /// Until it holds, at most a minute; whether it does.
    bool run_until(std::function<bool()> const& holds);
    /// Until the request is answered.
    Json answer(Node& node, ApplicationId application, Json request);
    void after(Milliseconds delay, std::function<void()> event);

    [[nodiscard]] Time now() const { return now_; }
    std::mt19937_64 random;
    Settings settings;

private:
    friend class Node;
    struct Route {
        Node* node = nullptr;
        std::uint64_t life = 0;
        Time last_up{};  ///< messages of a session keep their order
        Time last_down{};
    };
    struct CallRoute {
        Node* node = nullptr;
        std::uint64_t life = 0;
        CallNumber number = 0;
    };

    [[nodiscard]] Now controllers_now() const;
    void at(Time time, std::function<void()> event) { events_.emplace(time, std::move(event)); }
    void deliver(Node& node, std::uint64_t life, std::function<void()> event);
    Time in_order(Time& last);
    void carry_out(Effects& effects);
    void carry_out(Answer const& answer);
    void carry_out(MakePlan const& plan);
    void break_session(SessionId session);
    template <class Event>
    void happens(Event&& event) {
        if (cluster_ == nullptr) return;
        Effects effects;
        event(*cluster_, controllers_now(), effects);
        carry_out(effects);
    }

    Time now_{};
    std::multimap<Time, std::function<void()>> events_;
    std::vector<std::unique_ptr<Node>> nodes_;
    std::unique_ptr<Cluster> cluster_;
    std::uint64_t epoch_ = 0;
    std::array<std::uint32_t, kIdKinds> reserved_{1, 1, 1};
    SessionId next_session_ = 1;
    CallId next_call_ = 1;
    std::map<SessionId, Route> routes_;
    std::map<CallId, CallRoute> calls_;
};

}  // namespace mgi::control::test
