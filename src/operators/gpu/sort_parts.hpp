// A sort's round, for tables that come from the host.
#pragma once

#include <mgi/gpu_operators.hpp>

namespace mgi::operators::on_gpu {

// As `sort`, but endpoint e gets the rows between splitters e - 1 and e.
std::vector<GpuTable> sort_round(Runtime& runtime, std::vector<Endpoint> const& endpoints,
                                 std::vector<GpuTable> const& rows,
                                 std::vector<SortKey> const& keys, Splitters const& splitters,
                                 OperatorOptions const& options, OperatorReport* report);

}  // namespace mgi::operators::on_gpu
