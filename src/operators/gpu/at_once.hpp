// Operators over tables on GPUs that have room for all that is needed at once, and what of a
// group-by (group_by_rounds.hpp) and of a sort is done in rounds: each is compiled by itself, which takes minutes.
#pragma once

#include <mgi/gpu_operators.hpp>

namespace mgi::operators::on_gpu {

std::vector<GpuTable> group_by_at_once(Runtime& runtime, std::vector<Endpoint> const& endpoints,
                                       std::vector<GpuTable> const& parts,
                                       std::vector<std::string> const& keys,
                                       std::vector<Aggregate> const& aggregates,
                                       OperatorOptions const& options, OperatorReport* report);
std::vector<GpuTable> join_at_once(Runtime& runtime, std::vector<Endpoint> const& endpoints,
                                   std::vector<GpuTable> const& left,
                                   std::vector<GpuTable> const& right, JoinSpec const& spec,
                                   OperatorOptions const& options, OperatorReport* report);

std::vector<GpuTable> sort_at_once(Runtime& runtime, std::vector<Endpoint> const& endpoints,
                                   std::vector<GpuTable> const& parts,
                                   std::vector<SortKey> const& keys, OperatorOptions const& options,
                                   OperatorReport* report);

std::vector<GpuTable> group_round(Runtime& runtime, std::vector<Endpoint> const& endpoints,
                                  std::vector<GpuTable> const& parts,
                                  std::vector<std::string> const& keys,
                                  std::vector<Aggregate> const& aggregates,
                                  OperatorOptions const& options, OperatorReport* report);
std::vector<GpuTable> merge_rounds(Runtime& runtime, std::vector<Endpoint> const& endpoints,
                                   std::vector<GpuTable> const& groups, Schema const& rows,
                                   std::vector<std::string> const& keys,
                                   std::vector<Aggregate> const& aggregates,
                                   OperatorOptions const& options, OperatorReport* report);

// Results in OperatorOptions::gpu_out, if there are buffers in it.
std::vector<GpuTable> in_callers_buffers(std::string const& what, Runtime& runtime,
                                         std::vector<Endpoint> const& endpoints,
                                         std::vector<GpuTable> results,
                                         OperatorOptions const& options, OperatorReport* report);

// As a sort, but endpoint e gets the rows between splitters e - 1 and e.
std::vector<GpuTable> sort_round(Runtime& runtime, std::vector<Endpoint> const& endpoints,
                                 std::vector<GpuTable> const& rows,
                                 std::vector<SortKey> const& keys, Splitters const& splitters,
                                 OperatorOptions const& options, OperatorReport* report);

}  // namespace mgi::operators::on_gpu
