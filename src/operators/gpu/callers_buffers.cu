#include "operators/gpu/callers_buffers.hpp"

#include <chrono>

#include "operators/gpu/at_once.hpp"
#include "operators/gpu/run.hpp"

namespace mgi::operators::on_gpu {

std::vector<GpuTable> in_callers_buffers(std::string const& what, Runtime& runtime,
                                         std::vector<Endpoint> const& endpoints,
                                         std::vector<GpuTable> results,
                                         OperatorOptions const& options, OperatorReport* report) {
    if (options.gpu_out.empty()) return results;
    auto const start = std::chrono::steady_clock::now();
    auto const processes = processes_of(runtime, endpoints);
    Operation operation(
        *processes, what, runtime, endpoints, options, places_on_gpus(what), report,
        call_of(endpoints, options, TableMemory::Gpu, {{"step", "copy into gpu_out"}}));
    auto filled =
        operation.perform([&] { return in_callers_buffers_of(operation, std::move(results)); });
    if (report != nullptr) {
        report->seconds +=
            std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    }
    return filled;
}

}  // namespace mgi::operators::on_gpu
