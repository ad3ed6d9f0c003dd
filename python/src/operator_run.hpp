/// \file
/// Runs an operator for Python: its options by name, on a thread of its own, and what it says of itself.
#pragma once

#include <nanobind/nanobind.h>

#include <chrono>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include <mgi/operators.hpp>

#include "interpreter.hpp"
#include "report.hpp"
#include "runtime.hpp"
#include "runtime/runtime_impl.hpp"

namespace mgi::python {

namespace nb = nanobind;

/// The names are those of the Python functions' arguments.
OperatorOptions operator_options(nb::dict const& options);
/// Who keeps the streams alive in which the call works, for as long as it runs; null: nobody.
std::shared_ptr<void const> stream_owners(nb::dict const& options);

/// Aggregates as (function, column, name).
using AggregateTuple = std::tuple<std::string, std::string, std::string>;
JoinKind join_kind_named(std::string const& name);
Broadcast broadcast_named(std::string const& name);
std::vector<Aggregate> aggregates_of(std::vector<AggregateTuple> const& wanted);

/// What an operator over such tables returns, and what it says of itself.
template <class AnyTable>
struct Outcome {
    std::vector<AnyTable> tables;
    OperatorReport report;
    double call_seconds = 0;  ///< as a C++ program would measure the call
};

/// Runs `run(runtime, options, report)` on a thread of its own; returns its tables and its report as a
/// dictionary.
template <class AnyTable, class Operator>
nb::tuple run_operator(RuntimeHolder& holder, nb::dict const& options, Operator const& run) {
    release_queued();
    OperatorOptions const chosen = operator_options(options);
    std::weak_ptr<Runtime::Impl> const impl = holder.get().impl();
    auto outcome = run_beside<Outcome<AnyTable>>(
        [runtime = holder.get(), chosen, run,
         owners = stream_owners(options)](std::atomic<bool> const& cancel) mutable {
            OperatorOptions mine = chosen;
            mine.cancel = &cancel;
            Outcome<AnyTable> made;
            auto const start = std::chrono::steady_clock::now();
            made.tables = run(runtime, mine, &made.report);
            made.call_seconds =
                std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
            return made;
        },
        // What waits for other processes waits no more.
        [impl] {
            if (auto const runtime = impl.lock()) runtime->coordinator().interrupt();
        });
    nb::dict report;
    report["seconds"] = outcome.report.seconds;
    report["call_seconds"] = outcome.call_seconds;
    report["rows"] = outcome.report.rows;
    report["bytes"] = outcome.report.bytes;
    report["two_level"] = outcome.report.two_level;
    report["rounds"] = outcome.report.rounds;
    report["at_one"] = outcome.report.at_one;
    if (!outcome.report.built.empty()) {
        report["built"] = outcome.report.built;
        report["broadcast"] = outcome.report.broadcast;
    }
    nb::list links;
    for (OperatorLink const& link : outcome.report.links) {
        links.append(nb::make_tuple(link.from, link.to, link.bytes));
    }
    report["links"] = links;
    report["peak_bytes"] = outcome.report.peak_bytes;
    nb::dict phases;
    for (OperatorPhase const& phase : outcome.report.phases) {
        phases[phase.name.c_str()] = phase.seconds;
    }
    report["phases"] = phases;
    report["channels"] = as_list(outcome.report.channels);
    report["plans"] = as_list(outcome.report.plans);
    return nb::make_tuple(nb::cast(std::move(outcome.tables)), report);
}

}  // namespace mgi::python
