// The operators over tables in the host's memory, at endpoints on GPUs. It has no kernel, and is compiled as the others are:
// nvcc lays out what a lambda captures in another order than g++, so inline functions of both may not meet.
#include <mgi/gpu_operators.hpp>

#include "operators/gpu/at_once.hpp"
#include "operators/gpu/round_places.hpp"

namespace mgi {

namespace {

using namespace operators;

// Calls `work(call, of_round)` with what all of these operators need.
template <class Work>
std::vector<Table> call_from_host(std::string const& what, Runtime& runtime,
                                  std::vector<Endpoint> const& endpoints,
                                  OperatorOptions const& options, OperatorReport* report,
                                  Work const& work) {
    if (!options.gpu_out.empty()) {
        refuse(what, "gpu_out is for tables in GPU memory; these results are on the host");
    }
    auto const processes = processes_of(runtime, endpoints);
    HostCall const call = on_gpu::host_call(what, *processes, runtime, endpoints, options, report);
    return work(call, options_of_round(options));
}

}  // namespace

std::vector<Table> exchange_on_gpus(Runtime& runtime, std::vector<Endpoint> const& endpoints,
                                    std::vector<Table> const& parts,
                                    std::vector<std::string> const& keys,
                                    OperatorOptions const& options, OperatorReport* report) {
    auto const work = [&](HostCall const& call, OperatorOptions const& of_round) {
        return exchange_from_host(
            call, parts, keys, [&](GpuTables const& rows, OperatorReport* of_one) {
                return exchange(runtime, endpoints, rows, keys, of_round, of_one);
            });
    };
    return call_from_host("exchange", runtime, endpoints, options, report, work);
}

std::vector<Table> group_by_on_gpus(Runtime& runtime, std::vector<Endpoint> const& endpoints,
                                    std::vector<Table> const& parts,
                                    std::vector<std::string> const& keys,
                                    std::vector<Aggregate> const& aggregates,
                                    OperatorOptions const& options, OperatorReport* report) {
    auto const work = [&](HostCall const& call, OperatorOptions const& of_round) {
        GroupByOnGpus group;
        group.whole = [&](GpuTables const& rows, OperatorReport* of_one) {
            return on_gpu::group_by_at_once(runtime, endpoints, rows, keys, aggregates, of_round,
                                            of_one);
        };
        group.round = [&](GpuTables const& rows, OperatorReport* of_one) {
            return on_gpu::group_round(runtime, endpoints, rows, keys, aggregates, of_round,
                                       of_one);
        };
        group.merge = [&](GpuTables const& groups, Schema const& rows, OperatorReport* of_one) {
            return on_gpu::merge_rounds(runtime, endpoints, groups, rows, keys, aggregates,
                                        of_round, of_one);
        };
        return group_by_from_host(call, parts, keys, aggregates, group);
    };
    return call_from_host("group_by", runtime, endpoints, options, report, work);
}

std::vector<Table> join_on_gpus(Runtime& runtime, std::vector<Endpoint> const& endpoints,
                                std::vector<Table> const& left, std::vector<Table> const& right,
                                JoinSpec const& spec, OperatorOptions const& options,
                                OperatorReport* report) {
    auto const work = [&](HostCall const& call, OperatorOptions const& of_round) {
        return join_from_host(
            call, left, right, spec,
            [&](GpuTables const& of_left, GpuTables const& of_right, OperatorReport* of_one) {
                return on_gpu::join_at_once(runtime, endpoints, of_left, of_right, spec, of_round,
                                            of_one);
            });
    };
    return call_from_host("join", runtime, endpoints, options, report, work);
}

std::vector<Table> sort_on_gpus(Runtime& runtime, std::vector<Endpoint> const& endpoints,
                                std::vector<Table> const& parts, std::vector<SortKey> const& keys,
                                OperatorOptions const& options, OperatorReport* report) {
    auto const work = [&](HostCall const& call, OperatorOptions const& of_round) {
        SortOnGpus on_gpus;
        on_gpus.whole = [&](GpuTables const& rows, OperatorReport* of_one) {
            return on_gpu::sort_at_once(runtime, endpoints, rows, keys, of_round, of_one);
        };
        on_gpus.round = [&](GpuTables const& rows, Splitters const& splitters,
                            OperatorReport* of_one) {
            return on_gpu::sort_round(runtime, endpoints, rows, keys, splitters, of_round, of_one);
        };
        return sort_from_host(call, parts, keys, on_gpus);
    };
    return call_from_host("sort", runtime, endpoints, options, report, work);
}

}  // namespace mgi
