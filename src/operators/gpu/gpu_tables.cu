// The operators over tables on GPUs: at once where there is room for that, else through the host's memory.
#include <mgi/gpu_operators.hpp>

#include "operators/gpu/at_once.hpp"
#include "operators/gpu/round_places.hpp"
#include "operators/through_host.hpp"

namespace mgi {

namespace {

using namespace operators;

// What `at_once()` returns, or, where it has no room, what `from_host` makes of the tables in the host's memory. `sides_of()`: the
// tables.
template <class AtOnce, class SidesOf>
std::vector<GpuTable> with_room(std::string const& what, Runtime& runtime,
                                std::vector<Endpoint> const& endpoints,
                                OperatorOptions const& options, OperatorReport* report,
                                AtOnce const& at_once, SidesOf const& sides_of,
                                FromHost const& from_host) {
    std::string full;
    try {
        return at_once();
    } catch (Error const& error) {
        if (error.code() != ErrorCode::OutOfMemory) throw;
        full = error.what();
    }
    auto const processes = processes_of(runtime, endpoints);
    return through_host(on_gpu::host_call(what, *processes, runtime, endpoints, options, report),
                        what, sides_of(), full, from_host);
}

// The columns of a side's parts.
Schema schema_of(std::vector<GpuTable> const& parts) {
    for (GpuTable const& part : parts) {
        if (!part.schema.empty()) return part.schema;
    }
    return {};
}

}  // namespace

std::vector<GpuTable> group_by(Runtime& runtime, std::vector<Endpoint> const& endpoints,
                               std::vector<GpuTable> const& parts,
                               std::vector<std::string> const& keys,
                               std::vector<Aggregate> const& aggregates,
                               OperatorOptions const& options, OperatorReport* report) {
    return with_room(
        "group_by", runtime, endpoints, options, report,
        [&] {
            return on_gpu::group_by_at_once(runtime, endpoints, parts, keys, aggregates, options,
                                            report);
        },
        [&] { return std::vector<SpilledSide>{{&parts, columns_of(keys, aggregates)}}; },
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
        "join", runtime, endpoints, options, report,
        [&] {
            return on_gpu::join_at_once(runtime, endpoints, left, right, spec, options, report);
        },
        [&] {
            JoinColumns const columns = columns_of(InputColumns("join", schema_of(left)),
                                                   InputColumns("join", schema_of(right)), spec);
            return std::vector<SpilledSide>{{&left, columns.left}, {&right, columns.right}};
        },
        [&](auto const& sides, OperatorOptions const& of_rounds, OperatorReport* of_one) {
            return join_on_gpus(runtime, endpoints, sides[0], sides[1], spec, of_rounds, of_one);
        });
}

std::vector<GpuTable> sort(Runtime& runtime, std::vector<Endpoint> const& endpoints,
                           std::vector<GpuTable> const& parts, std::vector<SortKey> const& keys,
                           OperatorOptions const& options, OperatorReport* report) {
    return with_room(
        "sort", runtime, endpoints, options, report,
        [&] { return on_gpu::sort_at_once(runtime, endpoints, parts, keys, options, report); },
        [&] { return std::vector<SpilledSide>{{&parts}}; },
        [&](auto const& sides, OperatorOptions const& of_rounds, OperatorReport* of_one) {
            return sort_on_gpus(runtime, endpoints, sides[0], keys, of_rounds, of_one);
        });
}

}  // namespace mgi
