/// \file
/// A cluster as an application sees it through its server's agent (docs/control.md): ids for endpoints
/// and channels, the controller's plans, and word of what has ended. `Runtime::connect` stands on it;
/// engines that move their bytes themselves use it alone.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <mgi/error.hpp>

namespace mgi {

struct ClusterOptions {
    /// Path of the agent's socket; empty: $MGI_AGENT, else that of this user's agent
    /// ($XDG_RUNTIME_DIR/mgi/agent.sock) if there is one, else /run/mgi/agent.sock.
    std::string agent;
    /// The application's name in logs and status; empty: the program's.
    std::string name;
    /// The longest that a call takes. While agent or controller are away, calls wait for them so long.
    std::chrono::milliseconds timeout{10'000};
};

/// A place for endpoints on this server: a CPU or GPU of the agent's graph.
struct ClusterDevice {
    std::uint32_t vertex = 0;
    std::string name;
    bool gpu = false;
};

struct ClusterEndpoint {
    std::uint32_t id = 0;  ///< unique in the cluster, never used twice
    std::uint32_t vertex = 0;
    std::string device;
};

/// What a cluster's channel is asked for. Schema and options are opaque to agents and controller.
struct ClusterChannelSpec {
    std::string name;
    std::vector<std::uint32_t> sources;       ///< endpoint ids, of any server
    std::vector<std::uint32_t> destinations;  ///< the same
    std::uint32_t routing = 0;                ///< device::RoutingKind
    std::string schema;
    std::string options;
    bool relay_gpus = true;
    bool relay_host = true;
    std::uint32_t max_nics = 0;  ///< 0: all
};

/// A channel's plan as every server that takes part has it.
struct ClusterPlan {
    std::uint32_t channel = 0;
    std::uint64_t generation = 0;  ///< one more with each new plan of the channel
    ClusterChannelSpec spec;
    /// Where its endpoints are, and this server's forwarding tables, as the planner serializes them;
    /// empty on a server that has none of its endpoints.
    std::string directory;
    std::string table;
    std::string
        request;  ///< the call that asked for the channel: random, so that it can be repeated
};

/// Rows and payload bytes that this application has sent on a channel since it was made.
struct ClusterUse {
    std::uint32_t channel = 0;
    std::uint64_t rows = 0;
    std::uint64_t bytes = 0;
};

/// What happens without being asked for. Called on a ClusterClient's own thread, one at a time; calls
/// to that client from there would wait for themselves, and throw Error(Refused).
class ClusterListener {
public:
    ClusterListener() = default;
    ClusterListener(ClusterListener const&) = delete;
    ClusterListener& operator=(ClusterListener const&) = delete;
    virtual ~ClusterListener() = default;

    /// A new channel that has endpoints of this application, or a new generation of one.
    virtual void plan_changed(ClusterPlan const&) {}
    virtual void channel_ended(std::uint32_t /*channel*/, bool /*failed*/,
                               std::string const& /*why*/) {}
    virtual void endpoint_lost(std::uint32_t /*endpoint*/, std::string const& /*why*/) {}
    /// `state`: "present", "away" or "failed".
    virtual void server_changed(std::string const& /*server*/, std::string const& /*state*/) {}
    /// The agent has reached the controller, or lost it; channels go on meanwhile.
    virtual void controller_changed(bool /*reached*/, std::string const& /*why*/) {}
    /// This process has reached the agent again, or lost it.
    virtual void agent_changed(bool /*reached*/, std::string const& /*why*/) {}
    /// Asked now and then, for the status page.
    virtual std::vector<ClusterUse> usage() { return {}; }
};

/// An application's place in a cluster. Thread-safe. When it dies, the application's endpoints are given
/// back and their channels end. When the agent is started again, it connects and says what it holds.
///
/// Every call throws Error: Timeout (says who has not answered), Deleted (closed), Refused (agent or
/// controller will not do it), and what its own line says.
class ClusterClient {
public:
    /// Throws Error(NotFound) where there is no agent, Refused for an agent of another version.
    explicit ClusterClient(ClusterOptions const& options = {},
                           std::shared_ptr<ClusterListener> listener = nullptr);
    ClusterClient(ClusterClient const&) = delete;
    ClusterClient& operator=(ClusterClient const&) = delete;
    ~ClusterClient();

    [[nodiscard]] std::string server() const;  ///< this one's name
    [[nodiscard]] std::vector<ClusterDevice> devices() const;

    /// On a device by name, or on the one with the fewest endpoints of all applications, GPUs first.
    /// Throws Error(NotFound) that lists the devices.
    ClusterEndpoint create_endpoint(std::string const& device = "");
    /// Throws Error(NotFound).
    void delete_endpoint(std::uint32_t id);

    /// Returns when every server that takes part has the plan. Throws Error(NotFound) for an endpoint
    /// that does not exist, InvalidArgument, Refused with the name of a server that will not.
    ClusterPlan create_channel(ClusterChannelSpec const& spec);
    /// Ends it on every server. Throws Error(NotFound).
    void delete_channel(std::uint32_t id);
    /// The same without waiting for it; what fails is logged.
    void release_channel(std::uint32_t id) noexcept;
    /// Throws the reason if a channel that this client created has ended otherwise: GroupFailed when
    /// it failed, Deleted.
    void check_channel(std::uint32_t id) const;

    /// The cluster's status, JSON (docs/control.md).
    std::string status();

    /// Calls that wait now throw Error(Interrupted).
    void interrupt() noexcept;
    /// Gives everything back; calls that wait throw Error(Deleted). Done by the destructor.
    void close() noexcept;

    class Impl;

private:
    std::unique_ptr<Impl> impl_;
};

}  // namespace mgi
