// What the socket's messages say, in the words of <mgi/cluster.hpp>: shared by application and agent.
#pragma once

#include <mgi/cluster.hpp>

#include "control/local/cbor.hpp"

namespace mgi::control {

inline constexpr std::size_t kMostOpaqueBytes = 256u << 10;  // of a schema, and of options

/// Fields `name`, `sources`, `destinations`, `routing`, `schema`, `options`, `rules` of a message.
void add_spec(Json& message, ClusterChannelSpec const& spec);
/// Throws Error(InvalidArgument), also for a channel without sources or destinations.
ClusterChannelSpec spec_in(Json const& message);

/// The same with `channel`, `generation`, `directory`, `table`.
Json json_of(ClusterPlan const& plan);
ClusterPlan plan_in(Json const& message);

/// What a gather's answer says, by rank. Throws Error(Internal) where that is not of `size` ranks.
std::vector<std::string> shares_in(Json const& message, std::uint32_t size);

/// `error: {code, message}`.
Json error_value(ErrorCode code, std::string const& message);
Error error_in(Json const& value);

/// $MGI_JOB_SECRET, else the first line of the file $MGI_JOB_SECRET_FILE; empty: neither is set. Throws Error(InvalidArgument) for a
/// file that cannot be read, or that others than its owner may read.
std::string default_job_secret();

/// Where an agent that this user starts puts its socket: $MGI_AGENT, $XDG_RUNTIME_DIR/mgi/agent.sock;
/// for root, and where that folder is not there or not this user's alone, /run/mgi/agent.sock.
std::string own_socket();
/// Where an application looks for one: the same, if there is one, else /run/mgi/agent.sock.
std::string default_socket();

}  // namespace mgi::control
