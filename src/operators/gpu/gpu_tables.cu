// The operators over tables on GPUs: at once where there is room for that, else through the host's memory.
#include <mgi/gpu_operators.hpp>

#include <new>

#include "operators/gpu/at_once.hpp"
#include "operators/gpu/round_places.hpp"
#include "operators/through_host.hpp"

namespace mgi {

namespace {

using namespace operators;

// What `at_once()` returns, or, where it has no room, what `from_host` makes of the tables in the host's memory.
template <class AtOnce>
std::vector<GpuTable> with_some_room(std::string const& what, Runtime& runtime,
                                     std::vector<Endpoint> const& endpoints,
                                     OperatorOptions const& options, OperatorReport* report,
                                     std::vector<SpilledSide> const& sides, AtOnce const& at_once,
                                     LookedAt const& looked_at, FromHost const& from_host) {
    std::string full;
    try {
        return at_once();
    } catch (Error const& error) {
        if (error.code() != ErrorCode::OutOfMemory) throw;
        full = error.what();
    } catch (std::bad_alloc const&) {  // which the other processes take for the same
        full = what + ": the host has no memory";
    }
    auto const processes = processes_of(runtime, endpoints);
    return through_host(on_gpu::host_call(what, *processes, runtime, endpoints, options, report),
                        what, sides, looked_at, full, from_host);
}

// The same, where the caller wants it.
template <class... Given>
std::vector<GpuTable> with_room(std::string const& what, Runtime& runtime,
                                std::vector<Endpoint> const& endpoints,
                                OperatorOptions const& options, OperatorReport* report,
                                Given const&... given) {
    auto results = with_some_room(what, runtime, endpoints, options, report, given...);
    return on_gpu::in_callers_buffers(what, runtime, endpoints, std::move(results), options,
                                      report);
}

}  // namespace

std::vector<GpuTable> group_by(Runtime& runtime, std::vector<Endpoint> const& endpoints,
                               std::vector<GpuTable> const& parts,
                               std::vector<std::string> const& keys,
                               std::vector<Aggregate> const& aggregates,
                               OperatorOptions const& options, OperatorReport* report) {
    return with_room(
        "group_by", runtime, endpoints, options, report, std::vector<SpilledSide>{&parts},
        [&] {
            return on_gpu::group_by_at_once(runtime, endpoints, parts, keys, aggregates, options,
                                            report);
        },
        [&](auto const&) { return std::vector{columns_of(keys, aggregates)}; },
        [&](auto const& sides, OperatorOptions const& of_rounds, OperatorReport* of_one) {
            return group_by_on_gpus(runtime, endpoints, sides[0], keys, aggregates, of_rounds,
                                    of_one);
        });
}

std::vector<GpuTable> join(Runtime& runtime, std::vector<Endpoint> const& endpoints,
                           std::vector<GpuTable> const& left, std::vector<GpuTable> const& right,
                           JoinSpec const& spec, OperatorOptions const& options,
                           OperatorReport* report) {
    return with_room(
        "join", runtime, endpoints, options, report, std::vector<SpilledSide>{&left, &right},
        [&] {
            return on_gpu::join_at_once(runtime, endpoints, left, right, spec, options, report);
        },
        [&](std::vector<Schema> const& sides) {
            JoinColumns const columns =
                columns_of(InputColumns("join", sides[0]), InputColumns("join", sides[1]), spec);
            return std::vector{columns.left, columns.right};
        },
        [&](auto const& sides, OperatorOptions const& of_rounds, OperatorReport* of_one) {
            return join_on_gpus(runtime, endpoints, sides[0], sides[1], spec, of_rounds, of_one);
        });
}

std::vector<GpuTable> sort(Runtime& runtime, std::vector<Endpoint> const& endpoints,
                           std::vector<GpuTable> const& parts, std::vector<SortKey> const& keys,
                           OperatorOptions const& options, OperatorReport* report) {
    return with_room(
        "sort", runtime, endpoints, options, report, std::vector<SpilledSide>{&parts},
        [&] { return on_gpu::sort_at_once(runtime, endpoints, parts, keys, options, report); },
        [](auto const&) { return std::vector<std::set<std::string>>(1); },
        [&](auto const& sides, OperatorOptions const& of_rounds, OperatorReport* of_one) {
            return sort_on_gpus(runtime, endpoints, sides[0], keys, of_rounds, of_one);
        });
}

}  // namespace mgi
