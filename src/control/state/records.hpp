/// \file
/// What the controller keeps of servers, endpoints and channels.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_set>
#include <vector>

#include "control/state/effects.hpp"
#include "control/state/use.hpp"

namespace mgi::control {

enum class Presence : std::uint8_t {
    Present,
    Away,    ///< its lease is over or its session broke; its channels go on
    Failed,  ///< away for longer than the grace, or left; only its name and id are kept, for an hour
};

struct ServerRecord {
    std::uint32_t id = 0;
    std::string name;
    std::string instance;
    std::string version;
    std::uint64_t incarnation = 0;
    Presence presence = Presence::Present;
    SessionId session = 0;  ///< 0: none
    Millis heard = 0;       ///< its last word
    Millis away_since = 0;
    Millis clock_off = 0;
    std::shared_ptr<ServerGraph const> graph = none<ServerGraph>();
    std::set<std::uint32_t> endpoints;
    std::unordered_set<std::uint32_t> channels;  ///< with endpoints here
    std::set<std::uint32_t> created;             ///< channels, with endpoints here or without
    /// Known before this agent's process, and not announced again yet: gone after the grace.
    std::set<std::uint32_t> unclaimed_endpoints;
    std::set<std::uint32_t> unclaimed_channels;
    /// What its registration in parts has not named yet: gone after the last part.
    std::set<std::uint32_t> unnamed_endpoints;
    std::set<std::uint32_t> unnamed_channels;
    Use use;
};

struct EndpointRecord {
    std::uint32_t server = 0;
    std::uint32_t vertex = 0;
    std::string application;
    std::string owner;
    std::string request;
    std::set<std::uint32_t> channels;
};

/// A generation of a channel's plan on its way to the servers.
struct Preparation {
    std::uint64_t generation = 0;
    bool sent = false;                ///< PreparePlan; before, it is being planned
    std::set<std::uint32_t> waiting;  ///< servers that have not accepted yet
    std::uint64_t fingerprint = 0;    ///< of the plan
};

/// What servers said that they hold of a channel which an earlier controller made.
struct Recovery {
    struct Report {
        std::uint64_t committed = 0;  ///< generation; 0: none
        std::uint64_t prepared = 0;
    };
    std::map<std::uint32_t, Report> reports;    ///< by server
    std::unordered_set<std::uint32_t> missing;  ///< endpoints that no server has registered yet
};

struct ChannelRecord {
    std::uint32_t id = 0;
    ChannelSpec spec;
    std::string owner;  ///< of it and of all of its endpoints
    std::string request;
    std::uint32_t creator = 0;        ///< agent; 0: not known, an earlier controller's
    std::uint64_t generation = 0;     ///< that all servers run by; 0: being created
    std::uint64_t last_given = 0;     ///< the highest generation that was ever sent
    std::uint64_t fingerprint = 0;    ///< of the plan it runs by; 0: not known
    std::set<std::uint32_t> servers;  ///< that have endpoints of it which have not left it
    std::set<std::uint32_t> left;     ///< endpoints that it does without: gone, or on their way
    std::optional<Preparation> next;
    std::optional<Recovery> recovery;
    std::set<CallId> calls;   ///< that wait for its creation
    bool stale_plan = false;  ///< a link changed after its plan was made
    bool must_renew = false;  ///< some server lost its plan: renew it even if it comes out the same
};

}  // namespace mgi::control
