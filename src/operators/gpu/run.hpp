// What a call of an operator on GPUs begins and ends with.
#pragma once

#include <chrono>
#include <new>
#include <optional>

#include "operators/gpu/callers_buffers.hpp"
#include "operators/gpu/few_rows.hpp"

namespace mgi::operators::on_gpu {

// Places on the GPUs of the endpoints' devices.
inline Operation::MakePlace places_on_gpus(std::string const& what) {
    return [what](Device const& device, PlaceOptions const& options) {
        if (device.kind != VertexKind::Gpu) {
            refuse(what, "an endpoint is on " + device.name +
                             "; tables in GPU memory need endpoints on their GPUs: "
                             "create_endpoint(\"cuda:0\")");
        }
        return gpu_place(device.ordinal, options);
    };
}

// Runs `work(operation)`, and tells the report how long it took. `call`: arguments that must be the same in all processes.
template <class Work>
std::vector<GpuTable> run_on_gpus(std::string const& what, Runtime& runtime,
                                  std::vector<Endpoint> const& endpoints,
                                  OperatorOptions const& options, OperatorReport* report,
                                  Conversation::Call const& call, Work const& work) {
    if (report != nullptr) *report = {};
    auto const start = std::chrono::steady_clock::now();
    std::vector<GpuTable> results;
    {
        auto const processes = processes_of(runtime, endpoints);
        Operation operation(*processes, what, runtime, endpoints, options, places_on_gpus(what),
                            report, call_of(endpoints, options, TableMemory::Gpu, call));
        results = operation.perform([&] {
            check_callers_buffers(operation);
            return work(operation);
        });
    }
    if (report != nullptr) {
        report->seconds =
            std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    }
    return results;
}

// The same of `work(operation, sides)`, which is done at one endpoint where the sides have few rows. `columns_of(sides)`: what of
// each side the operator looks at.
template <class ColumnsOf, class Work>
std::vector<GpuTable> run_where_rows_fit(std::string const& what, Runtime& runtime,
                                         std::vector<Endpoint> const& endpoints,
                                         std::vector<NamedSide> const& parts,
                                         OperatorOptions const& options, OperatorReport* report,
                                         Conversation::Call const& call,
                                         ColumnsOf const& columns_of, Work const& work) {
    bool few = false;
    auto const run = [&](bool may_be_few) {
        return run_on_gpus(
            what, runtime, endpoints, options, report, call, [&](Operation& operation) {
                Sides sides;
                for (NamedSide const& side : parts) {
                    sides.emplace_back(operation, side.parts, side.name);
                }
                if (may_be_few) {
                    FewRows rows(operation, sides, columns_of(sides));
                    few = rows.are_few();
                    auto results = few ? rows.run(runtime, report, work) : std::nullopt;
                    if (results) return std::move(*results);
                }
                return work(operation, sides);
            });
    };
    // One endpoint may have no room for a result that all together have. Every process hears of that.
    try {
        return run(true);
    } catch (Error const& error) {
        if (!few || error.code() != ErrorCode::OutOfMemory) throw;
    } catch (std::bad_alloc const&) {
        if (!few) throw;
    }
    return run(false);
}

}  // namespace mgi::operators::on_gpu
