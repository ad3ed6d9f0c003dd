// Sorted rows' columns, written one after the other.
#pragma once

#include <optional>
#include <vector>

#include "operators/batch_builder.hpp"
#include "operators/run.hpp"
#include "operators/sort_rows.hpp"

namespace mgi::operators {

// Batches of the rows that `count` entries name, in their order. Counts them against the run's budget. Throws Error:
// OutOfMemory for more than its limit, Interrupted after another group's failure.
std::vector<RecordBatch> gather_rows(Schema const& schema, std::vector<bool> const& has_nulls,
                                     SortRows const& rows, SortEntry const* entries, u64 count,
                                     Run& run);

}  // namespace mgi::operators
