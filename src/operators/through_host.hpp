// Operators over tables on GPUs that have no room for all that the operator needs: the tables are copied to the host's memory, the
// operator works on them in rounds, and its results are copied back.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "operators/host_operators.hpp"

namespace mgi::operators {

// A table of such an operator.
using SpilledSide = std::vector<GpuTable> const*;
// What the operator looks at, by side, of columns that the sides have in all processes; other columns stay where they are. Of a
// side without a name: all of them.
using LookedAt =
    std::function<std::vector<std::set<std::string>>(std::vector<Schema> const& sides)>;

// The operator over tables in the host's memory, at the same endpoints.
using FromHost =
    std::function<std::vector<Table>(std::vector<std::vector<Table>> const& sides,
                                     OperatorOptions const& options, OperatorReport* report)>;
// What `from_host` makes of the tables. All processes of the operator call it. `why`: what there was no room for.
std::vector<GpuTable> through_host(HostCall const& call, std::string const& what,
                                   std::vector<SpilledSide> const& sides, LookedAt const& looked_at,
                                   std::string const& why, FromHost const& from_host);

}  // namespace mgi::operators
