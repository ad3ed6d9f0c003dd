#include "operators/gpu/sort.hpp"

#include <mgi/gpu_operators.hpp>

#include "operators/gpu/run.hpp"
#include "operators/gpu/sort_parts.hpp"

namespace mgi {

namespace {

std::vector<GpuTable> sort_by(Runtime& runtime, std::vector<Endpoint> const& endpoints,
                              std::vector<GpuTable> const& parts, std::vector<SortKey> const& keys,
                              Splitters const* splitters, OperatorOptions const& options,
                              OperatorReport* report) {
    using namespace operators::on_gpu;
    return run_on_gpus(
        "sort", runtime, endpoints, options, report, operators::arguments_of(keys),
        [&](Operation& operation) { return sort_on(operation, parts, keys, splitters); });
}

}  // namespace

std::vector<GpuTable> sort(Runtime& runtime, std::vector<Endpoint> const& endpoints,
                           std::vector<GpuTable> const& parts, std::vector<SortKey> const& keys,
                           OperatorOptions const& options, OperatorReport* report) {
    return sort_by(runtime, endpoints, parts, keys, nullptr, options, report);
}

std::vector<GpuTable> operators::on_gpu::sort_round(
    Runtime& runtime, std::vector<Endpoint> const& endpoints, std::vector<GpuTable> const& rows,
    std::vector<SortKey> const& keys, Splitters const& splitters, OperatorOptions const& options,
    OperatorReport* report) {
    return sort_by(runtime, endpoints, rows, keys, &splitters, options, report);
}

}  // namespace mgi
