// The operators over tables in GPU memory, where this package was built with them.
#include <mgi/gpu_table.hpp>

#include "bindings.hpp"

#if MGI_WITH_GPU_OPERATORS

#include <mgi/gpu_operators.hpp>

#include "operator_bindings.hpp"

namespace mgi::python {
namespace {

struct OnGpus {
    using AnyTable = GpuTable;
    static auto exchange(auto&&... given) { return mgi::exchange(given...); }
    static auto group_by(auto&&... given) { return mgi::group_by(given...); }
    static auto join(auto&&... given) { return mgi::join(given...); }
    static auto sort(auto&&... given) { return mgi::sort(given...); }
};

struct FromHost {
    using AnyTable = Table;
    static auto exchange(auto&&... given) { return exchange_on_gpus(given...); }
    static auto group_by(auto&&... given) { return group_by_on_gpus(given...); }
    static auto join(auto&&... given) { return join_on_gpus(given...); }
    static auto sort(auto&&... given) { return sort_on_gpus(given...); }
};

}  // namespace

void bind_gpu_operators(nb::module_& module) {
    module.attr("gpu_operators") = true;
    OperatorBindings<OnGpus>::define(module, "gpu_", "");
    OperatorBindings<FromHost>::define(module, "", "_on_gpus");
    module.def("trim_gpu_memory", trim_gpu_memory, nb::arg("gpu"), nb::call_guard<Unlocked>());
}

}  // namespace mgi::python

#else

namespace mgi::python {

void bind_gpu_operators(nb::module_& module) {
    module.attr("gpu_operators") = false;
}

}  // namespace mgi::python

#endif
