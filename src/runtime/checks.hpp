// What `create_channel` is asked for, checked before anything is made.
#pragma once

#include <string>

#include <mgi/channel.hpp>

namespace mgi {

// "channel 'name'" or "a channel", for errors.
std::string name_of(ChannelSpec const& spec);

// The schema rows have inside: raw messages are one Binary column, rows without columns a bit each.
Schema schema_of(ChannelSpec const& spec);

// Throws Error(InvalidArgument) for keys, routing and options that contradict each other.
void check_spec(ChannelSpec const& spec, Schema const& schema);

}  // namespace mgi
