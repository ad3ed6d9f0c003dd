// Groups' rows turned back into columns: states that travel on, or the result.
#pragma once

#include "operators/batch_builder.hpp"
#include "operators/group_by_plan.hpp"

namespace mgi::operators {

// Appends the keys and states of up to kVector groups to a batch of the plan's partial schema.
void append_partials(GroupByPlan const& plan, char const* const* rows, u32 count,
                     BatchBuilder& builder);

// Appends the keys and final values of up to kVector groups to a batch of the plan's result schema.
// Throws Error(InvalidArgument) naming the column of a sum that its type cannot hold.
void append_results(GroupByPlan const& plan, char const* const* rows, u32 count,
                    BatchBuilder& builder);

}  // namespace mgi::operators
