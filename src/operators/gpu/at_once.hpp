// Operators over tables on GPUs that have room for all that is needed at once, and the halves of a group-by that is done in rounds
// (group_by_rounds.hpp): each is compiled by itself, which takes minutes.
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

}  // namespace mgi::operators::on_gpu
