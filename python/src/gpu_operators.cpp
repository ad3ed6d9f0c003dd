// The operators over tables in GPU memory, where this package was built with them.
#include <mgi/gpu_table.hpp>

#include <nanobind/stl/tuple.h>

#include "bindings.hpp"

#if MGI_WITH_GPU_OPERATORS

#include <mgi/gpu_operators.hpp>

#include "operator_run.hpp"

namespace mgi::python {
namespace {

nb::tuple exchange_on_gpus(RuntimeHolder& holder, std::vector<EndpointPair> const& endpoints,
                           std::vector<GpuTable> const& parts, std::vector<std::string> const& keys,
                           nb::dict const& options) {
    return run_operator<GpuTable>(
        holder, options,
        [at = endpoints_of(endpoints), parts, keys](Runtime& runtime, OperatorOptions const& chosen,
                                                    OperatorReport* report) {
            return exchange(runtime, at, parts, keys, chosen, report);
        });
}

nb::tuple group_on_gpus(RuntimeHolder& holder, std::vector<EndpointPair> const& endpoints,
                        std::vector<GpuTable> const& parts, std::vector<std::string> const& keys,
                        std::vector<AggregateTuple> const& wanted, nb::dict const& options) {
    return run_operator<GpuTable>(
        holder, options,
        [at = endpoints_of(endpoints), parts, keys, aggregates = aggregates_of(wanted)](
            Runtime& runtime, OperatorOptions const& chosen, OperatorReport* report) {
            return group_by(runtime, at, parts, keys, aggregates, chosen, report);
        });
}

nb::tuple join_on_gpus(RuntimeHolder& holder, std::vector<EndpointPair> const& endpoints,
                       std::vector<GpuTable> const& left, std::vector<GpuTable> const& right,
                       std::vector<std::string> const& left_keys,
                       std::vector<std::string> const& right_keys,
                       std::vector<std::string> const& left_columns,
                       std::vector<std::string> const& right_columns, std::string const& kind,
                       std::string const& broadcast, nb::dict const& options) {
    JoinSpec const spec{left_keys,
                        right_keys,
                        left_columns,
                        right_columns,
                        join_kind_named(kind),
                        broadcast_named(broadcast)};
    return run_operator<GpuTable>(
        holder, options,
        [at = endpoints_of(endpoints), left, right, spec](
            Runtime& runtime, OperatorOptions const& chosen, OperatorReport* report) {
            return join(runtime, at, left, right, spec, chosen, report);
        });
}

}  // namespace

void bind_gpu_operators(nb::module_& module) {
    module.attr("gpu_operators") = true;
    module.def("gpu_exchange", exchange_on_gpus, nb::arg("runtime"), nb::arg("endpoints"),
               nb::arg("parts"), nb::arg("keys"), nb::arg("options"));
    module.def("gpu_group_by", group_on_gpus, nb::arg("runtime"), nb::arg("endpoints"),
               nb::arg("parts"), nb::arg("keys"), nb::arg("aggregates"), nb::arg("options"));
    module.def("gpu_join", join_on_gpus, nb::arg("runtime"), nb::arg("endpoints"), nb::arg("left"),
               nb::arg("right"), nb::arg("left_keys"), nb::arg("right_keys"),
               nb::arg("left_columns"), nb::arg("right_columns"), nb::arg("kind"),
               nb::arg("broadcast"), nb::arg("options"));
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
