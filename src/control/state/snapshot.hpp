/// \file
/// What the status page, `mgi status` and monitoring show (docs/control.md).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "control/state/use.hpp"

namespace mgi::control {

/// What FlowUse says, and the rate over the last seconds.
struct FlowView {
    std::uint64_t rows = 0;
    std::uint64_t bytes = 0;
    double gbps = 0;
    std::uint64_t segments = 0;
    std::uint64_t in_flight = 0;
    std::uint64_t waiting = 0;
    std::uint64_t waits = 0;
    std::uint64_t waited_ms = 0;
    std::uint64_t longest_wait_ms = 0;
    std::uint64_t resends = 0;
};

/// A path of a channel's that begins on a server. kAll of ClusterPathUse: all endpoints of that side.
struct PathView {
    std::uint32_t server = 0;
    std::uint32_t source = 0;
    std::uint32_t destination = 0;
    std::string by;
    std::string nic;
    std::string peer;
    FlowView flow;
};

struct WaitView {
    std::uint32_t server = 0;
    WaitUse use;
};

/// A server's NIC: what it carries now, MGI's or not, of what it can; and of that MGI's payload that
/// leaves by it.
struct NicView {
    std::string name;
    bool in_graph = false;  ///< else only the payload is known
    double out_gbps = 0;
    double out_capacity_gbps = 0;
    double in_gbps = 0;
    double in_capacity_gbps = 0;
    FlowView payload;
};

struct ServerView {
    std::uint32_t id = 0;
    std::string name;
    std::string state;  ///< present, away, failed
    std::string version;
    std::uint64_t incarnation = 0;
    std::size_t endpoints = 0;
    std::int64_t lease_left_ms = 0;
    std::int64_t clock_off_ms = 0;
    std::shared_ptr<ServerGraph const> graph = none<ServerGraph>();
    Use use;
    std::vector<NicView> nics = {};
};

struct EndpointView {
    std::uint32_t id = 0;
    std::uint32_t server = 0;
    std::uint32_t vertex = 0;  ///< of its server's graph
    std::string application;
    std::string owner;
};

struct ChannelView {
    std::uint32_t id = 0;
    std::string name;
    std::string owner;
    std::string state;  ///< preparing, running, recovering, failed, deleted
    std::uint64_t generation = 0;
    std::size_t sources = 0;
    std::size_t destinations = 0;
    std::vector<std::uint32_t> servers;
    std::string why;
    FlowView flow = {};
    std::uint64_t queued = 0;
    std::vector<PathView> paths = {};  ///< the busiest first
    std::uint64_t more_paths = 0;
    std::vector<WaitView> waits = {};  ///< those for room first, then the longest
    std::uint64_t more_waits = 0;
};

struct FailureView {
    double at_s = 0;  ///< since the controller's start
    std::string what;
};

/// Since the controller's start.
struct Counters {
    std::uint64_t registrations = 0;
    std::uint64_t heartbeats = 0;
    std::uint64_t messages = 0;  ///< of sessions, heartbeats among them
    std::uint64_t refused = 0;   ///< sessions' messages
    std::uint64_t calls = 0;
    std::uint64_t calls_failed = 0;
    std::uint64_t channels_created = 0;
    std::uint64_t channels_failed = 0;
    std::uint64_t plans_renewed = 0;
    std::uint64_t plans_aborted = 0;
};

/// Taken under the controller's lock, so it shares graphs and figures as they were: who shows them reads
/// them without.
struct Snapshot {
    std::uint64_t epoch = 0;
    std::optional<std::string> owner = {};  ///< who sees no more than is his; none: who sees all
    double uptime_s = 0;
    std::vector<ServerView> servers;
    std::vector<EndpointView> endpoints;  ///< by id
    std::vector<ChannelView> channels;    ///< by id; those that ended lately behind them
    std::vector<FailureView> failures;    ///< oldest first
    Counters counters;
};

/// The rest, which needs no lock: rates and totals of the channels that there are and of NICs, from the
/// servers' figures, and the order of the endpoints.
void complete(Snapshot& snapshot);

/// What an owner may see: his endpoints and channels, and the servers with their devices, links and NICs,
/// which are everybody's. Not how many endpoints others have, nor failures, whose texts name others', nor
/// counters.
Snapshot seen_by(std::string const& owner, Snapshot const& all);

}  // namespace mgi::control
