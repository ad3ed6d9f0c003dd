/// \file
/// What the state machine asks of its surroundings. Effects are carried out in the order in which they
/// stand, those for one session or for the planner in the order of the events that caused them.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "control/proto/control.pb.h"

namespace mgi::control {

using Millis = std::int64_t;

/// When an event happens. Only `steady` decides anything; `wall` is compared with the agents' clocks.
struct Now {
    Millis steady = 0;
    Millis wall = 0;
};

/// Names that the surroundings give to a stream and to a unary call. Never used again; 0 is none.
using SessionId = std::uint64_t;
using CallId = std::uint64_t;

enum class IdKind : std::uint8_t { Agent, Endpoint, Channel };
inline constexpr std::size_t kIdKinds = 3;
char const* to_string(IdKind kind) noexcept;

/// Why a call fails. The service answers with the code of the same name.
enum class Problem : std::uint8_t {
    None,
    InvalidArgument,
    NotFound,
    FailedPrecondition,
    ResourceExhausted,
    Unavailable,
    DeadlineExceeded,
    Aborted,
    Unimplemented,
};

/// A message to one session, or one session's share of a message to many.
struct Send {
    SessionId session = 0;
    std::shared_ptr<ControllerMessage const> message;
    /// Of a PreparePlan: its server's table. What is common to all servers stands in memory once until
    /// its session writes it, and is not copied for each of them while the state machine runs.
    std::string table;
};
/// The message as its session gets it.
ControllerMessage whole(Send send);

/// Ends a session, after what was sent.
struct Close {
    SessionId session = 0;
};

/// The one answer of a call: a problem and its text, or what was asked for.
struct Answer {
    CallId call = 0;
    Problem problem = Problem::None;
    std::string text;
    std::uint32_t id = 0;
    std::uint64_t generation = 0;
    std::shared_ptr<GatherReply const> gathered = {};  ///< one for all who asked
};

/// A block of ids is asked for before the last one is used up: Cluster::ids_reserved answers.
struct Reserve {
    IdKind kind = IdKind::Agent;
};

/// Where an endpoint is.
struct Place {
    std::uint32_t endpoint = 0;
    std::uint32_t agent = 0;
    std::uint32_t vertex = 0;  ///< of that server's graph
};

/// The planner's view of the cluster: it learns servers in the order of these effects.
struct LearnServer {
    std::uint32_t agent = 0;
    std::string name;
    ServerGraph graph;
};
struct LearnLink {
    std::uint32_t agent = 0;
    Link link;  ///< gbps 0: down
};
struct ForgetServer {
    std::uint32_t agent = 0;
};

/// Cluster::planned answers. Channel and generation name it.
struct MakePlan {
    std::uint32_t channel = 0;
    std::uint64_t generation = 0;
    std::vector<Place> sources;
    std::vector<Place> destinations;
    std::uint32_t routing = 0;
    bool relay_gpus = true;
    bool relay_host = true;
    std::uint32_t max_nics = 0;  ///< 0: all
};

/// A channel's plan as bytes, or why there is none.
struct PlanMade {
    std::string directory;                        ///< one for all servers
    std::map<std::uint32_t, std::string> tables;  ///< by agent, one for each server that takes part
    std::string error;                            ///< not empty: no plan
};

using Effect =
    std::variant<Send, Close, Answer, Reserve, LearnServer, LearnLink, ForgetServer, MakePlan>;
using Effects = std::vector<Effect>;

}  // namespace mgi::control
