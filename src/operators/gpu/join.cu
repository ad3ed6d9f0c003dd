#include "operators/gpu/join.hpp"

#include "operators/gpu/at_once.hpp"
#include "operators/gpu/run.hpp"
#include "operators/host_operators.hpp"

namespace mgi::operators::on_gpu {

std::vector<GpuTable> join_at_once(Runtime& runtime, std::vector<Endpoint> const& endpoints,
                                   std::vector<GpuTable> const& left,
                                   std::vector<GpuTable> const& right, JoinSpec const& spec,
                                   OperatorOptions const& options, OperatorReport* report) {
    OperatorOptions of_call = options;
    // Who says how rows come together has it his way.
    if (spec.broadcast != Broadcast::Auto) of_call.one_endpoint_bytes = 0;
    return run_where_rows_fit(
        "join", runtime, endpoints, {{left, ": left"}, {right, ": right"}}, of_call, report,
        arguments_of(spec),
        [&](Sides const& sides) {
            JoinColumns const columns = columns_of(sides[0], sides[1], spec);
            return ColumnsOfSides{columns.left, columns.right};
        },
        [&](Operation& operation, Sides const& sides) {
            return join_on(operation, sides[0], sides[1], spec);
        });
}

}  // namespace mgi::operators::on_gpu
