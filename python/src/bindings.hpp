/// \file
/// The parts of the compiled module `_mgi`. It holds what needs C++; the package's Python files give
/// it argument checks, type hints and documentation.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <utility>
#include <vector>

#include <mgi/endpoint.hpp>

namespace mgi::python {

namespace nb = nanobind;

/// An endpoint as Python passes it: id and index of the device.
using EndpointPair = std::pair<std::uint32_t, std::uint32_t>;

inline Endpoint endpoint_of(EndpointPair const& pair) {
    return {pair.first, pair.second};
}

inline std::vector<Endpoint> endpoints_of(std::vector<EndpointPair> const& pairs) {
    std::vector<Endpoint> endpoints;
    endpoints.reserve(pairs.size());
    for (EndpointPair const& pair : pairs) endpoints.push_back(endpoint_of(pair));
    return endpoints;
}

void bind_errors(nb::module_& module);
void bind_schema(nb::module_& module);
void bind_buffers(nb::module_& module);
void bind_batches(nb::module_& module);
void bind_cluster(nb::module_& module);
void bind_job(nb::module_& module);
void bind_runtime(nb::module_& module);
void bind_channel(nb::module_& module);
void bind_operators(nb::module_& module);
void bind_attach(nb::module_& module);
void bind_dlpack(nb::module_& module);
void bind_gpu_tables(nb::module_& module);
void bind_gpu_operators(nb::module_& module);
void bind_perf(nb::module_& module);
void bind_topology(nb::module_& module);
void bind_planner(nb::module_& module);
void bind_simulation(nb::module_& module);

}  // namespace mgi::python
