#include "operators/gpu/sort.hpp"

#include "operators/gpu/at_once.hpp"
#include "operators/gpu/run.hpp"

namespace mgi::operators::on_gpu {

std::vector<GpuTable> sort_at_once(Runtime& runtime, std::vector<Endpoint> const& endpoints,
                                   std::vector<GpuTable> const& parts,
                                   std::vector<SortKey> const& keys, OperatorOptions const& options,
                                   OperatorReport* report) {
    return run_where_rows_fit(
        "sort", runtime, endpoints, {{parts, ""}}, options, report, arguments_of(keys),
        [](Sides const&) { return ColumnsOfSides(1); },
        [&](Operation& operation, Sides const& sides) {
            return sort_on(operation, sides[0], keys);
        });
}

std::vector<GpuTable> sort_round(Runtime& runtime, std::vector<Endpoint> const& endpoints,
                                 std::vector<GpuTable> const& rows,
                                 std::vector<SortKey> const& keys, Splitters const& splitters,
                                 OperatorOptions const& options, OperatorReport* report) {
    return run_on_gpus(
        "sort", runtime, endpoints, options, report, arguments_of(keys),
        [&](Operation& operation) { return sort_on(operation, rows, keys, &splitters); });
}

}  // namespace mgi::operators::on_gpu
