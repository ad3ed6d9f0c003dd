/// \file
/// A cluster as an application sees it through its server's agent (docs/control.md): ids for endpoints
/// and channels, the controller's plans, and word of what has ended. `Runtime::connect` stands on it;
/// engines that move their bytes themselves use it alone.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <mgi/error.hpp>
#include <mgi/job.hpp>

namespace mgi {

struct ClusterOptions {
    /// Path of the agent's socket; empty: $MGI_AGENT, else that of this user's agent
    /// ($XDG_RUNTIME_DIR/mgi/agent.sock, where that folder is this user's alone) if there is one, else /run/mgi/agent.sock.
    std::string agent;
    /// The application's name in logs and status; empty: the program's.
    std::string name;
    /// Which of the processes that were started together this one is; none: what the environment says.
    std::optional<Job> job;
    /// What all processes of a job know, and nobody else: at least 32 random characters. Its endpoints, channels and gathers are
    /// then that job's alone, on whatever server and as whatever user its processes run. Empty: $MGI_JOB_SECRET, else that of the
    /// file $MGI_JOB_SECRET_FILE; without any, they are this user's (as of the user's number, on all servers).
    std::string job_secret;
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

/// What has been sent from somewhere to somewhere since a channel was made, and what holds it up now.
struct ClusterFlow {
    std::uint64_t rows = 0;
    std::uint64_t bytes = 0;      ///< payload
    std::uint64_t segments = 0;   ///< that stand in their receive queues, or have stood there
    std::uint64_t in_flight = 0;  ///< segments that do not stand there yet
    std::uint64_t waiting = 0;    ///< of lanes: those that wait for a credit now
    /// Segments that have waited for a credit, all of that time together, and the longest of them: as
    /// seen by who looks every 50 ms, so shorter waits are mostly missed.
    std::uint64_t waits = 0;
    std::uint64_t waited_ms = 0;
    std::uint64_t longest_wait_ms = 0;
    std::uint64_t resends = 0;  ///< segments that were sent again, since a wire had died
};

/// A part of a channel's flow: from one endpoint to another, or over one wire of a link to a process of
/// another server. What goes by wire is a part of both, and only there `resends` are known.
struct ClusterPathUse {
    static constexpr std::uint32_t kAll = UINT32_MAX;
    std::uint32_t source = kAll;       ///< endpoint; kAll: of all of them
    std::uint32_t destination = kAll;  ///< endpoint; kAll: one lane, or wire, is for all of them
    /// "reference", "copy", "wire" to another server, or two of them: "reference and wire"; of a way between two
    /// GPUs that have several "copy from cuda:0 by cuda:2".
    std::string by;
    std::string nic;   ///< of a wire: by which it leaves this server
    std::string peer;  ///< of a wire: whom it leads to, "rank 3 on server b"; of a way, "cuda:1"
    ClusterFlow flow;  ///< of a wire or a way: bytes as they travel, and no rows
};

/// The part of a channel's flow that leaves this server by one NIC.
struct ClusterNicUse {
    std::string nic;
    ClusterFlow flow;  ///< as of a wire
};

/// Somebody who cannot go on, and whom he waits for.
struct ClusterWait {
    enum class For : std::uint8_t {
        Credit,  ///< a source, for a destination to give segments back
        Rows,    ///< a destination, for sources to send or to end
        Mover,   ///< a source, for its segments to be moved although there is room for them
        Link,    ///< a source, for its segments that are on their way to another server
    };
    For what = For::Credit;
    std::uint32_t who = 0;            ///< endpoint
    std::vector<std::uint32_t> whom;  ///< endpoints, the first kMost of them
    std::uint32_t more = 0;           ///< so many more
    std::uint64_t ms = 0;             ///< so long
    std::string why;                  ///< what is known of those: "has not flushed", ...
    static constexpr std::size_t kMost = 8;
};

/// What this application does with a channel: its own sources' flow, and who of its endpoints waits.
struct ClusterUse {
    std::uint32_t channel = 0;
    ClusterFlow flow;
    std::uint64_t queued = 0;  ///< segments that its destinations have not taken yet
    /// The busiest paths, and how many more there are; likewise the longest waits.
    std::vector<ClusterPathUse> paths;
    std::uint64_t more_paths = 0;
    std::vector<ClusterNicUse> nics;  ///< all of them
    std::vector<ClusterWait> waits;
    std::uint64_t more_waits = 0;
    static constexpr std::size_t kMostPaths = 16;
    static constexpr std::size_t kMostNics = 64;
    static constexpr std::size_t kMostWaits = 8;
};

/// What a process says where several meet (ClusterClient::gather).
struct ClusterGather {
    std::string key;
    std::uint32_t rank = 0;
    std::uint32_t size = 0;
    std::string data;
    /// The longest that it waits for the others; 0 is the client's own.
    std::chrono::milliseconds timeout{0};
    /// An endpoint of each rank, by rank, or none: whose endpoint is gone, by its process' end for one, is waited for no more.
    std::vector<std::uint32_t> endpoints = {};
    /// This rank cannot go on. Nobody is waited for: each other rank hears `data` alone, at once or when it comes within the
    /// timeout, also where this process has ended meanwhile.
    bool failed = false;
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
    /// Throws the reason if a channel that this client created, or has had endpoints in, has ended
    /// otherwise: GroupFailed when it failed, Deleted. Of others' channels the last 1024 are known.
    void check_channel(std::uint32_t id) const;

    /// This client's endpoints leave the channel, and a creator its right to it: they may be given back,
    /// and this process may end, without the channel's end. It is over when all have left it. Returns
    /// when the agent knows, which tells the controller as soon as it can. No error for a channel that
    /// has ended. Throws Error(NotFound) for a channel of others.
    void leave_channel(std::uint32_t id);
    /// The same without waiting for it; what fails is logged.
    void abandon_channel(std::uint32_t id) noexcept;

    /// Hands a file descriptor (a channel's shared memory) to the agent, for the other processes of
    /// this server that have endpoints of the channel. It stays the caller's: the agent has one of its
    /// own until the channel ends here, or another one is put in its place. When the agent is started
    /// again, this client hands it over again, until the channel ends or is left. Throws
    /// Error(NotFound) for a channel without an endpoint of this client.
    void put_part(std::uint32_t channel, int descriptor);
    /// The descriptor that another process of this server has put, or will put within the timeout. The
    /// caller closes it. Throws as put_part, and Error(Timeout).
    int get_part(std::uint32_t channel);

    /// Memory (a memfd) in which the processes of this server and user leave word for each other: the
    /// agent keeps the first one that is offered, and every caller gets that one, which he closes. What
    /// is in it is theirs to check. When the agent is started again, this client offers what it got.
    int share_board(int descriptor);

    /// What `size` processes say to each other, each with its own rank, under one key: all get what all
    /// have said, by rank. Across servers; waits until all have come. At most 256 KiB each, 32 MiB
    /// together. A key may be used again once its gather has returned everywhere. Throws
    /// Error(Timeout) that names the ranks which have not come, InvalidArgument for a size or rank
    /// that contradicts the others'.
    /// `timeout` 0 is the client's own.
    std::vector<std::string> gather(
        std::string const& key, std::uint32_t rank, std::uint32_t size, std::string const& data,
        std::chrono::milliseconds timeout = std::chrono::milliseconds(0));
    /// The same. Where a rank has failed, what it says comes alone: all else is empty. Throws Error(GroupFailed) that names a
    /// rank whose endpoint is gone.
    std::vector<std::string> gather(ClusterGather const& said);

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
