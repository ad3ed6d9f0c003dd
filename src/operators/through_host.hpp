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
struct SpilledSide {
    std::vector<GpuTable> const* parts = nullptr;
    // What the operator looks at; other columns stay where they are. None: all of them.
    std::set<std::string> columns = {};
};

// The operator over tables in the host's memory, at the same endpoints.
using FromHost =
    std::function<std::vector<Table>(std::vector<std::vector<Table>> const& sides,
                                     OperatorOptions const& options, OperatorReport* report)>;
// What `from_host` makes of the tables. All processes of the operator call it. `why`: what there was no room for.
std::vector<GpuTable> through_host(HostCall const& call, std::string const& what,
                                   std::vector<SpilledSide> const& sides, std::string const& why,
                                   FromHost const& from_host);

}  // namespace mgi::operators
