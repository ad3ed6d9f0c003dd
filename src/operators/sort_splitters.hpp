// Where a sort cuts the order of its keys into ranges, one for each endpoint.
#pragma once

#include <vector>

#include "operators/conversation.hpp"
#include "operators/input.hpp"

namespace mgi::operators {

// One splitter fewer than there are endpoints, between which about equally many rows of all processes lie: the same in
// each of them. They follow from samples, which each process takes of its own parts.
Splitters choose_splitters(Conversation& talk, Input const& input,
                           std::vector<SortKey> const& order);

}  // namespace mgi::operators
