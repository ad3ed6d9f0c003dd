#include <mgi/gpu_operators.hpp>

#include "operators/gpu/at_once.hpp"
#include "operators/gpu/move_rows.hpp"
#include "operators/gpu/run.hpp"

namespace mgi {

std::vector<GpuTable> exchange(Runtime& runtime, std::vector<Endpoint> const& endpoints,
                               std::vector<GpuTable> const& parts,
                               std::vector<std::string> const& keys, OperatorOptions const& options,
                               OperatorReport* report) {
    using namespace operators::on_gpu;
    auto results = run_on_gpus(
        "exchange", runtime, endpoints, options, report, {{"keys", operators::names_text(keys)}},
        [&](Operation& operation) { return exchange_on(operation, parts, keys); });
    return in_callers_buffers("exchange", runtime, endpoints, std::move(results), options, report);
}

}  // namespace mgi
