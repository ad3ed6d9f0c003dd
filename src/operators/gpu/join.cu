#include "operators/gpu/join.hpp"

#include <mgi/gpu_operators.hpp>

#include "operators/gpu/run.hpp"

namespace mgi {

std::vector<GpuTable> join(Runtime& runtime, std::vector<Endpoint> const& endpoints,
                           std::vector<GpuTable> const& left, std::vector<GpuTable> const& right,
                           JoinSpec const& spec, OperatorOptions const& options,
                           OperatorReport* report) {
    using namespace operators::on_gpu;
    return run_on_gpus("join", runtime, endpoints, options, report, operators::arguments_of(spec),
                       [&](Operation& operation) { return join_on(operation, left, right, spec); });
}

}  // namespace mgi
