// Who a channel waits for, and whether anybody is there: what the watchdog judges by.
#pragma once

#include <string>
#include <vector>

#include "runtime/registry.hpp"

namespace mgi {

// By member of a shared channel: its heart has stood still. Empty for other channels.
using Silent = std::vector<bool>;

// Whether anybody has sent or received, or asked to.
bool has_started(ChannelImpl& channel);

// Tells the other members of a shared channel who of this process may still send and receive. The caller
// holds the registry's mutex, as for all below.
void attend(ChannelImpl& channel, Registry const& registry);

// Who is awaited and gone, as "nobody receives at endpoint 3"; empty if nobody is.
std::string who_is_gone(ChannelImpl& channel, Registry const& registry, Silent const& silent);

// Attachments at the channel's endpoints whose kernels nobody has said to run: these are not there.
std::string unlaunched_report(ChannelImpl const& channel, Registry const& registry);

// State of every lane and queue that holds rows, and of every member, for a stall's error.
std::string stall_report(ChannelImpl& channel, Silent const& silent = {});

}  // namespace mgi
