/// \file
/// What one seed runs: a channel, who sends and receives on it, and under which schedule.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "hostile/scheduler.hpp"
#include "support/tiny_channel.hpp"

namespace mgi::hostile {

struct Shape {
    std::uint64_t seed = 0;
    Policy policy = Policy::Walk;
    test::TinyOptions channel;
    Schema schema;
    bool loopback = true;  ///< endpoint i is source i and destination i, as far as there are both
    std::uint32_t groups = 1;   ///< of each endpoint
    std::uint32_t threads = 1;  ///< of each group
    bool structs = false;       ///< offers row structs
    bool names = false;         ///< some sends of a partition or broadcast name their destination
    std::uint32_t movers = 1;   ///< by copy
    std::uint32_t sorters = 0;  ///< of each source, with stage buffers
    bool helped = false;        ///< senders sort in the sorters' seats
    bool by_row = false;  ///< sends with `send_row`, divergently; wants sorters and two columns
    std::uint32_t staged_rows = 0;         ///< by row: what a thread keeps before it appends
    std::uint32_t most_rows = 0;           ///< of a group
    std::uint32_t push_one_in = 0;         ///< calls; 0: never
    std::uint32_t slow_receiver = 0;       ///< most pauses with a batch in hand
    std::uint32_t slow_start = 0;          ///< most pauses before the first call
    std::optional<std::uint64_t> fail_at;  ///< step at which the channel fails
};

Shape shape_of(std::uint64_t seed);
std::string describe(Shape const& shape);

}  // namespace mgi::hostile
