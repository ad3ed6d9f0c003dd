#include <nanobind/nanobind.h>
#include <nanobind/stl/tuple.h>

#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include <mgi/error.hpp>

#include "bindings.hpp"
#include "interpreter.hpp"
#include "simulation/prediction.hpp"
#include "topology.hpp"

namespace mgi::python {
namespace {

using simulation::Demand;
using simulation::Policy;
using simulation::Prediction;

Policy policy_of(std::string const& name) {
    for (Policy const policy : {Policy::Mgi, Policy::Ucx, Policy::Nccl}) {
        if (name == simulation::to_string(policy)) return policy;
    }
    throw Error(ErrorCode::InvalidArgument,
                "there is no policy '" + name + "'; there are: mgi, ucx, nccl");
}

using DemandTuple = std::tuple<std::uint32_t, std::uint32_t, double>;

nb::dict predict(Topology const& topology, std::string const& policy,
                 std::vector<DemandTuple> const& given, double partition_gbps, bool relay,
                 bool host_relay, std::uint32_t nics, std::uint32_t other_nics) {
    Policy const chosen = policy_of(policy);
    Prediction made;
    {
        Unlocked const unlocked;
        std::vector<Demand> demands;
        demands.reserve(given.size());
        for (auto const& [source, destination, gigabytes] : given) {
            demands.push_back({source, destination, gigabytes});
        }
        made = simulation::predict(topology.infrastructure, chosen, demands,
                                   {.rules = {relay, host_relay, nics},
                                    .partition_gbps = partition_gbps,
                                    .other_nics = other_nics});
    }
    nb::dict dict;
    dict["seconds"] = made.seconds;
    dict["least_seconds"] = made.least_seconds;
    dict["finish"] = made.finish;
    dict["gigabytes"] = made.gigabytes;
    dict["partition"] = made.partition;
    return dict;
}

}  // namespace

void bind_simulation(nb::module_& module) {
    module.def("predict", predict, nb::arg("topology"), nb::arg("policy"), nb::arg("demands"),
               nb::arg("partition_gbps"), nb::arg("relay"), nb::arg("host_relay"), nb::arg("nics"),
               nb::arg("other_nics"));
}

}  // namespace mgi::python
