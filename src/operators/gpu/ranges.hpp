// Ranges of keys, each of which an endpoint owns.
#pragma once

#include <vector>

#include <mgi/channel.hpp>

#include "operators/gpu/place.hpp"

namespace mgi::operators::on_gpu {

struct Ranges {
    Routing routing;  // of a channel
    // By part of this process, and row of that: the range that it falls into.
    std::vector<u16 const*> of_part;
    std::vector<Memory> memory;
};

}  // namespace mgi::operators::on_gpu
