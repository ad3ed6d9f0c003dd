// Where a sort cuts the order of its keys into ranges, one for each endpoint.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "operators/conversation.hpp"
#include "operators/input.hpp"

namespace mgi::operators {

// Samples of rows, and how many rows each stands for.
struct Samples {
    Splitters rows;
    std::vector<double> weights;
};

// How many rows of each part of this process are looked at, and how many bytes of a text at most.
struct Sampling {
    std::vector<u64> counts;
    u32 longest = 0;
};
// For so many ranges. `own_rows`: by part; of others' 0.
Sampling plan_samples(std::vector<device::KeyOrder> const& keys, std::vector<u64> const& own_rows,
                      u64 all_rows, std::size_t ranges, bool alone);
// Which row of a part a sample is: one at random from each of `count` runs of equal length.
u64 sampled_row(u64 rows, u64 count, u64 sample);

// What all processes say, by process.
using Gather = std::function<std::vector<std::string>(std::string const& words)>;
// From this process' samples, and what the others gather of theirs.
Splitters agree_on_splitters(std::vector<device::KeyOrder> const& keys, Samples const& own,
                             std::size_t ranges, Gather const& gather);

// One splitter fewer than there are ranges, between which about equally many rows of all processes lie: the same in
// each of them. They follow from samples, which each process takes of its own parts.
Splitters choose_splitters(Conversation& talk, Input const& input,
                           std::vector<SortKey> const& order, std::size_t ranges);

// Every `step`-th splitter, from number `first` on.
Splitters some_splitters(Splitters const& all, std::size_t first, std::size_t step);

}  // namespace mgi::operators
