/// \file
/// What the status page, `mgi status` and monitoring show (docs/control.md).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "control/state/use.hpp"

namespace mgi::control {

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
};

struct EndpointView {
    std::uint32_t id = 0;
    std::uint32_t server = 0;
    std::uint32_t vertex = 0;  ///< of its server's graph
    std::string application;
};

struct ChannelView {
    std::uint32_t id = 0;
    std::string name;
    std::string state;  ///< preparing, running, recovering, failed, deleted
    std::uint64_t generation = 0;
    std::size_t sources = 0;
    std::size_t destinations = 0;
    std::vector<std::uint32_t> servers;
    std::uint64_t rows = 0;
    std::uint64_t bytes = 0;
    double gbps = 0;
    std::string why;
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
    double uptime_s = 0;
    std::vector<ServerView> servers;
    std::vector<EndpointView> endpoints;  ///< by id
    std::vector<ChannelView> channels;    ///< by id; those that ended lately behind them
    std::vector<FailureView> failures;    ///< oldest first
    Counters counters;
};

/// The rest, which needs no lock: rates and totals of the channels that there are, from the servers'
/// figures, and the order of the endpoints.
void complete(Snapshot& snapshot);

}  // namespace mgi::control
