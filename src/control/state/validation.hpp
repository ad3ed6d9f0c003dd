/// \file
/// What messages may hold. Each check gives an empty text, or what is wrong, where, and what was expected.
#pragma once

#include <string>
#include <string_view>

#include "control/proto/control.pb.h"
#include "control/state/settings.hpp"

namespace mgi::control {

std::string wrong_graph(ServerGraph const& graph, Limits const& limits);
std::string wrong_link(Link const& link, int vertices);
std::string wrong_spec(ChannelSpec const& spec, Limits const& limits);
/// Names are shown to people and stand in logs: 1 to `most` bytes, no control characters.
std::string wrong_name(std::string_view what, std::string_view name, std::size_t most);
/// What others wrote, fit for logs, pages and messages: at most `most` bytes and "...", cut between
/// characters, and control characters as spaces.
std::string clean_text(std::string_view text, std::size_t most);
/// Random names that a peer makes for itself: 8 to 64 bytes.
std::string wrong_token(std::string_view what, std::string_view token);
/// To whom something belongs: at most 64 bytes.
std::string wrong_owner(std::string_view owner);
/// Whether endpoints can be there.
bool carries_endpoints(ServerGraph const& graph, std::uint32_t vertex);

}  // namespace mgi::control
