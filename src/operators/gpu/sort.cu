#include "operators/gpu/sort.hpp"

#include "operators/gpu/at_once.hpp"
#include "operators/gpu/run.hpp"

namespace mgi::operators::on_gpu {

namespace {

std::vector<GpuTable> sort_by(Runtime& runtime, std::vector<Endpoint> const& endpoints,
                              std::vector<GpuTable> const& parts, std::vector<SortKey> const& keys,
                              Splitters const* splitters, OperatorOptions const& options,
                              OperatorReport* report) {
    return run_on_gpus(
        "sort", runtime, endpoints, options, report, arguments_of(keys),
        [&](Operation& operation) { return sort_on(operation, parts, keys, splitters); });
}

}  // namespace

std::vector<GpuTable> sort_at_once(Runtime& runtime, std::vector<Endpoint> const& endpoints,
                                   std::vector<GpuTable> const& parts,
                                   std::vector<SortKey> const& keys, OperatorOptions const& options,
                                   OperatorReport* report) {
    return sort_by(runtime, endpoints, parts, keys, nullptr, options, report);
}

std::vector<GpuTable> sort_round(Runtime& runtime, std::vector<Endpoint> const& endpoints,
                                 std::vector<GpuTable> const& rows,
                                 std::vector<SortKey> const& keys, Splitters const& splitters,
                                 OperatorOptions const& options, OperatorReport* report) {
    return sort_by(runtime, endpoints, rows, keys, &splitters, options, report);
}

}  // namespace mgi::operators::on_gpu
