#include "operators/gpu/group_by.hpp"

#include "operators/gpu/at_once.hpp"
#include "operators/gpu/group_by_rounds.hpp"
#include "operators/gpu/run.hpp"
#include "operators/host_operators.hpp"

namespace mgi::operators::on_gpu {

std::vector<GpuTable> group_by_at_once(Runtime& runtime, std::vector<Endpoint> const& endpoints,
                                       std::vector<GpuTable> const& parts,
                                       std::vector<std::string> const& keys,
                                       std::vector<Aggregate> const& aggregates,
                                       OperatorOptions const& options, OperatorReport* report) {
    return run_where_rows_fit(
        "group_by", runtime, endpoints, {{parts, ""}}, options, report,
        arguments_of(keys, aggregates),
        [&](Sides const&) { return ColumnsOfSides{columns_of(keys, aggregates)}; },
        [&](Operation& operation, Sides const& sides) {
            return group_by_on(operation, sides[0], keys, aggregates);
        });
}

std::vector<GpuTable> group_round(Runtime& runtime, std::vector<Endpoint> const& endpoints,
                                  std::vector<GpuTable> const& parts,
                                  std::vector<std::string> const& keys,
                                  std::vector<Aggregate> const& aggregates,
                                  OperatorOptions const& options, OperatorReport* report) {
    return run_on_gpus(
        "group_by", runtime, endpoints, options, report, arguments_of(keys, aggregates),
        [&](Operation& operation) { return group_round_on(operation, parts, keys, aggregates); });
}

std::vector<GpuTable> merge_rounds(Runtime& runtime, std::vector<Endpoint> const& endpoints,
                                   std::vector<GpuTable> const& groups, Schema const& rows,
                                   std::vector<std::string> const& keys,
                                   std::vector<Aggregate> const& aggregates,
                                   OperatorOptions const& options, OperatorReport* report) {
    return run_on_gpus("group_by", runtime, endpoints, options, report,
                       arguments_of(keys, aggregates), [&](Operation& operation) {
                           return merge_rounds_on(operation, groups, rows, keys, aggregates);
                       });
}

}  // namespace mgi::operators::on_gpu
