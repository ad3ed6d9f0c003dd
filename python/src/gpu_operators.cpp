// The operators over tables in GPU memory, where this package was built with them.
#include <mgi/gpu_table.hpp>

#include <nanobind/stl/tuple.h>

#include "bindings.hpp"

#if MGI_WITH_GPU_OPERATORS

#include <mgi/gpu_operators.hpp>

#include "operator_run.hpp"
#include "options.hpp"

namespace mgi::python {
namespace {

// The operators over tables in GPU memory, and over the host's, by the type of the table.
template <class AnyTable>
struct OnGpus;
template <>
struct OnGpus<GpuTable> {
    static auto exchange(auto&&... given) { return mgi::exchange(given...); }
    static auto group_by(auto&&... given) { return mgi::group_by(given...); }
    static auto join(auto&&... given) { return mgi::join(given...); }
    static auto sort(auto&&... given) { return mgi::sort(given...); }
};
template <>
struct OnGpus<Table> {
    static auto exchange(auto&&... given) { return exchange_on_gpus(given...); }
    static auto group_by(auto&&... given) { return group_by_on_gpus(given...); }
    static auto join(auto&&... given) { return join_on_gpus(given...); }
    static auto sort(auto&&... given) { return sort_on_gpus(given...); }
};

template <class AnyTable>
nb::tuple run_exchange(RuntimeHolder& holder, std::vector<EndpointPair> const& endpoints,
                       std::vector<AnyTable> const& parts, std::vector<std::string> const& keys,
                       nb::dict const& options) {
    return run_operator<AnyTable>(
        holder, options,
        [at = endpoints_of(endpoints), parts, keys](Runtime& runtime, OperatorOptions const& chosen,
                                                    OperatorReport* report) {
            return OnGpus<AnyTable>::exchange(runtime, at, parts, keys, chosen, report);
        });
}

template <class AnyTable>
nb::tuple run_group_by(RuntimeHolder& holder, std::vector<EndpointPair> const& endpoints,
                       std::vector<AnyTable> const& parts, std::vector<std::string> const& keys,
                       std::vector<AggregateTuple> const& wanted, nb::dict const& options) {
    return run_operator<AnyTable>(
        holder, options,
        [at = endpoints_of(endpoints), parts, keys, aggregates = aggregates_of(wanted)](
            Runtime& runtime, OperatorOptions const& chosen, OperatorReport* report) {
            return OnGpus<AnyTable>::group_by(runtime, at, parts, keys, aggregates, chosen, report);
        });
}

template <class AnyTable>
nb::tuple run_join(RuntimeHolder& holder, std::vector<EndpointPair> const& endpoints,
                   std::vector<AnyTable> const& left, std::vector<AnyTable> const& right,
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
    return run_operator<AnyTable>(
        holder, options,
        [at = endpoints_of(endpoints), left, right, spec](
            Runtime& runtime, OperatorOptions const& chosen, OperatorReport* report) {
            return OnGpus<AnyTable>::join(runtime, at, left, right, spec, chosen, report);
        });
}

template <class AnyTable>
nb::tuple run_sort(RuntimeHolder& holder, std::vector<EndpointPair> const& endpoints,
                   std::vector<AnyTable> const& parts, std::vector<SortKeyTuple> const& keys,
                   nb::dict const& options) {
    return run_operator<AnyTable>(
        holder, options,
        [at = endpoints_of(endpoints), parts, order = sort_keys_of(keys)](
            Runtime& runtime, OperatorOptions const& chosen, OperatorReport* report) {
            return OnGpus<AnyTable>::sort(runtime, at, parts, order, chosen, report);
        });
}

// Under the names for tables of this type.
template <class AnyTable>
void define(nb::module_& module, char const* exchange, char const* group_by, char const* join,
            char const* sort) {
    module.def(exchange, run_exchange<AnyTable>, nb::arg("runtime"), nb::arg("endpoints"),
               nb::arg("parts"), nb::arg("keys"), nb::arg("options"));
    module.def(group_by, run_group_by<AnyTable>, nb::arg("runtime"), nb::arg("endpoints"),
               nb::arg("parts"), nb::arg("keys"), nb::arg("aggregates"), nb::arg("options"));
    module.def(join, run_join<AnyTable>, nb::arg("runtime"), nb::arg("endpoints"), nb::arg("left"),
               nb::arg("right"), nb::arg("left_keys"), nb::arg("right_keys"),
               nb::arg("left_columns"), nb::arg("right_columns"), nb::arg("kind"),
               nb::arg("broadcast"), nb::arg("options"));
    module.def(sort, run_sort<AnyTable>, nb::arg("runtime"), nb::arg("endpoints"), nb::arg("parts"),
               nb::arg("keys"), nb::arg("options"));
}

}  // namespace

void bind_gpu_operators(nb::module_& module) {
    module.attr("gpu_operators") = true;
    define<GpuTable>(module, "gpu_exchange", "gpu_group_by", "gpu_join", "gpu_sort");
    define<Table>(module, "exchange_on_gpus", "group_by_on_gpus", "join_on_gpus", "sort_on_gpus");
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
