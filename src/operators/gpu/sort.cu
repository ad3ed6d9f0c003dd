#include "operators/gpu/sort.hpp"

#include <mgi/gpu_operators.hpp>

#include "operators/gpu/run.hpp"

namespace mgi {

std::vector<GpuTable> sort(Runtime& runtime, std::vector<Endpoint> const& endpoints,
                           std::vector<GpuTable> const& parts, std::vector<SortKey> const& keys,
                           OperatorOptions const& options, OperatorReport* report) {
    using namespace operators::on_gpu;
    return run_on_gpus("sort", runtime, endpoints, options, report, operators::arguments_of(keys),
                       [&](Operation& operation) { return sort_on(operation, parts, keys); });
}

}  // namespace mgi
