#include "operators/gpu/join.hpp"

#include "operators/gpu/at_once.hpp"
#include "operators/gpu/run.hpp"

namespace mgi::operators::on_gpu {

std::vector<GpuTable> join_at_once(Runtime& runtime, std::vector<Endpoint> const& endpoints,
                                   std::vector<GpuTable> const& left,
                                   std::vector<GpuTable> const& right, JoinSpec const& spec,
                                   OperatorOptions const& options, OperatorReport* report) {
    return run_on_gpus("join", runtime, endpoints, options, report, arguments_of(spec),
                       [&](Operation& operation) { return join_on(operation, left, right, spec); });
}

}  // namespace mgi::operators::on_gpu
