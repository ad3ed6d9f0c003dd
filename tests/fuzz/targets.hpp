/// \file
/// The fuzz targets: everything in the C++ library that reads what others wrote. Each takes any bytes
/// and may throw nothing but a broken promise (see `require`); a crash is what sanitizers report.
#pragma once

#include "fuzz/input.hpp"

namespace mgi::fuzz {

/// Core lists: "0-3,8".
void core_list(Input input);
/// The kernel's directory of NUMA nodes, and the devices made of it.
void numa_nodes(Input input);
/// Arrow schemas of one column a line, "nullable name format".
void arrow_schema(Input input);
/// Arrow arrays and streams whose structs say anything that a producer can get wrong.
void arrow_batch(Input input);
/// Nested values: arrays of them that say anything, and bytes in place of one.
void nested_value(Input input);
/// Schemas and channel options, as a plan is made of them.
void plan(Input input);
/// Topology files of every format (a byte 1 and a byte of choices in front: with facts), and the flows
/// of what was read.
void topology_file(Input input);
/// Files that correct a graph, applied to one.
void corrections(Input input);
/// Messages between applications and their agent: CBOR, and frames of it in pieces.
void agent_message(Input input);
/// What comes over a connection to the controller: a hello, frames of a session and calls, in pieces.
void control_frames(Input input);
/// Forwarding tables and channel directories as they travel.
void plan_bytes(Input input);
/// Servers whose graphs say anything, channels over them, and a link that fails and recovers.
void cluster(Input input);
/// What comes over a connection between servers: frames of a link, and the handshake before them.
void wire(Input input);
/// Heads of HTTP requests, one after another and in pieces.
void http_request(Input input);

}  // namespace mgi::fuzz
