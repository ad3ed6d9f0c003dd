#include "operators/gpu/callers_buffers.hpp"

#include "operators/gpu/at_once.hpp"
#include "operators/gpu/run.hpp"

namespace mgi::operators::on_gpu {

std::vector<GpuTable> in_callers_buffers(std::string const& what, Runtime& runtime,
                                         std::vector<Endpoint> const& endpoints,
                                         std::vector<GpuTable> results,
                                         OperatorOptions const& options, OperatorReport* report) {
    if (options.gpu_out.empty()) return results;
    auto const processes = processes_of(runtime, endpoints);
    Operation operation(
        *processes, what, runtime, endpoints, options, places_on_gpus(what), report,
        call_of(endpoints, options, TableMemory::Gpu, {{"step", "copy into gpu_out"}}));
    return operation.perform([&] { return in_callers_buffers_of(operation, std::move(results)); });
}

}  // namespace mgi::operators::on_gpu
