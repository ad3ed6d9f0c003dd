/// \file
/// The operators as functions of the module: over tables on the host, on GPUs, and on the host at GPU endpoints.
#pragma once

#include <nanobind/stl/tuple.h>

#include <string>
#include <vector>

#include "bindings.hpp"
#include "operator_run.hpp"
#include "options.hpp"

namespace mgi::python {

/// `Operators` has the type `AnyTable` of what they take and give, and exchange, group_by, join and sort as C++ has them.
template <class Operators>
class OperatorBindings {
public:
    /// As `prefix` + "exchange" + `suffix`, and so on.
    static void define(nb::module_& module, std::string const& prefix, std::string const& suffix) {
        auto const name = [&](char const* what) { return prefix + what + suffix; };
        module.def(name("exchange").c_str(), exchange, nb::arg("runtime"), nb::arg("endpoints"),
                   nb::arg("parts"), nb::arg("keys"), nb::arg("options"));
        module.def(name("group_by").c_str(), group_by, nb::arg("runtime"), nb::arg("endpoints"),
                   nb::arg("parts"), nb::arg("keys"), nb::arg("aggregates"), nb::arg("options"));
        module.def(name("join").c_str(), join, nb::arg("runtime"), nb::arg("endpoints"),
                   nb::arg("left"), nb::arg("right"), nb::arg("left_keys"), nb::arg("right_keys"),
                   nb::arg("left_columns"), nb::arg("right_columns"), nb::arg("kind"),
                   nb::arg("broadcast"), nb::arg("options"));
        module.def(name("sort").c_str(), sort, nb::arg("runtime"), nb::arg("endpoints"),
                   nb::arg("parts"), nb::arg("keys"), nb::arg("options"));
    }

private:
    using AnyTable = typename Operators::AnyTable;
    using Tables = std::vector<AnyTable>;
    using Endpoints = std::vector<EndpointPair>;
    using Names = std::vector<std::string>;

    static nb::tuple exchange(RuntimeHolder& holder, Endpoints const& endpoints,
                              Tables const& parts, Names const& keys, nb::dict const& options) {
        return run_operator<AnyTable>(
            holder, options,
            [at = endpoints_of(endpoints), parts, keys](
                Runtime& runtime, OperatorOptions const& chosen, OperatorReport* report) {
                return Operators::exchange(runtime, at, parts, keys, chosen, report);
            });
    }

    static nb::tuple group_by(RuntimeHolder& holder, Endpoints const& endpoints,
                              Tables const& parts, Names const& keys,
                              std::vector<AggregateTuple> const& wanted, nb::dict const& options) {
        return run_operator<AnyTable>(
            holder, options,
            [at = endpoints_of(endpoints), parts, keys, aggregates = aggregates_of(wanted)](
                Runtime& runtime, OperatorOptions const& chosen, OperatorReport* report) {
                return Operators::group_by(runtime, at, parts, keys, aggregates, chosen, report);
            });
    }

    static nb::tuple join(RuntimeHolder& holder, Endpoints const& endpoints, Tables const& left,
                          Tables const& right, Names const& left_keys, Names const& right_keys,
                          Names const& left_columns, Names const& right_columns,
                          std::string const& kind, std::string const& broadcast,
                          nb::dict const& options) {
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
                return Operators::join(runtime, at, left, right, spec, chosen, report);
            });
    }

    static nb::tuple sort(RuntimeHolder& holder, Endpoints const& endpoints, Tables const& parts,
                          std::vector<SortKeyTuple> const& keys, nb::dict const& options) {
        return run_operator<AnyTable>(
            holder, options,
            [at = endpoints_of(endpoints), parts, order = sort_keys_of(keys)](
                Runtime& runtime, OperatorOptions const& chosen, OperatorReport* report) {
                return Operators::sort(runtime, at, parts, order, chosen, report);
            });
    }
};

}  // namespace mgi::python
