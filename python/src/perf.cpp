#include <nanobind/stl/vector.h>

#include "bindings.hpp"
#include "interpreter.hpp"
#include "options.hpp"
#include "perf/exchange.hpp"

namespace mgi::python {
namespace {

nb::dict exchange(nb::dict const& given) {
    perf::ExchangeOptions options;
    read_option(given, "endpoints", options.endpoints);
    read_option(given, "fanout", options.fanout);
    read_option(given, "rows", options.rows);
    read_option(given, "row_bytes", options.row_bytes);
    read_option(given, "zipf_theta", options.zipf_theta);
    read_option(given, "groups", options.groups);
    read_option(given, "threads", options.threads);
    read_option(given, "by_reference", options.by_reference);
    read_option(given, "staged", options.staged);
    read_option(given, "limit_threads", options.limit_threads);
    read_option(given, "repeat", options.repeat);
    options.layout = channel_options(given).layout;
    auto const result =
        run_beside<perf::ExchangeResult>([options](std::atomic<bool> const& cancel) {
            perf::ExchangeOptions mine = options;
            mine.cancel = &cancel;
            return perf::run_exchange(mine);
        });
    nb::dict dict;
    dict["groups"] = result.groups;
    dict["fanout"] = result.fanout;
    dict["bytes"] = result.bytes;
    dict["gbps"] = nb::cast(result.gbps);
    dict["collective_gbps"] = nb::cast(result.collective_gbps);
    dict["partition_gbps"] = nb::cast(result.partition_gbps);
    dict["memcpy_gbps"] = nb::cast(result.memcpy_gbps);
    dict["create_ms"] = nb::cast(result.create_ms);
    dict["pool_bytes"] = result.pool_bytes;
    dict["resident_bytes"] = result.resident_bytes;
    dict["verified"] = result.verified;
    return dict;
}

}  // namespace

void bind_perf(nb::module_& module) {
    module.def("perf_exchange", exchange, nb::arg("options"));
}

}  // namespace mgi::python
