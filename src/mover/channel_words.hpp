// What the ends of a channel tell each other over a link, beside its segments.
#pragma once

#include <cstdint>

namespace mgi::mover {

// A link keeps the largest value of each (kind, source, destination).
enum class ChannelWord : std::uint32_t {
    Credit = 1,  // (source, destination): sequences below the value may be sent
    End,         // (source, destination): the number of segments it sent there, plus 1
    Failure,     // the error's code; the text says why
    Attendance,  // (destination): a count of changes * 2, plus 1 if somebody may still receive there
    Progress,    // (a server's number, as source): what it counts of the channel's progress
    Farewell,    // this process needs the channel no more, and nobody needs it for the channel
    Released,    // nor as a relay: the answer to a farewell, once this end has wires to all others
};

}  // namespace mgi::mover
