#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings.hpp"
#include "interpreter.hpp"
#include "options.hpp"
#include "peers/ours.hpp"
#include "perf/exchange.hpp"
#include "perf/plan.hpp"

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

nb::dict measure_plan(nb::dict const& given) {
    perf::PlanOptions options;
    read_option(given, "gpus", options.gpus);
    read_option(given, "per_server", options.per_server);
    read_option(given, "shapes", options.shapes);
    read_option(given, "repeat", options.repeat);
    auto const result = run_beside<perf::PlanResult>([options](std::atomic<bool> const& cancel) {
        perf::PlanOptions mine = options;
        mine.cancel = &cancel;
        return perf::run_plan(mine);
    });
    nb::dict dict;
    dict["servers"] = result.servers;
    dict["shapes"] = result.shapes;
    dict["create_ms"] = nb::cast(result.create_ms);
    dict["warm_ms"] = nb::cast(result.warm_ms);
    dict["replan_ms"] = nb::cast(result.replan_ms);
    dict["baseline_ms"] = result.baseline_ms;
    dict["baseline_pairs"] = result.baseline_pairs;
    dict["pairs"] = result.pairs;
    dict["table_bytes"] = result.table_bytes;
    dict["sent_bytes"] = result.sent_bytes;
    dict["resident_bytes"] = result.resident_bytes;
    dict["sampled"] = result.sampled;
    dict["verified"] = result.verified;
    return dict;
}

}  // namespace

void bind_perf(nb::module_& module) {
    module.def("perf_exchange", exchange, nb::arg("options"));
    module.def("perf_plan", measure_plan, nb::arg("options"));
    module.def("perf_member", &peers::run_own_member, nb::arg("kind"), nb::arg("words"),
               nb::call_guard<nb::gil_scoped_release>());
}

}  // namespace mgi::python
