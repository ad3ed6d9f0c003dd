// The halves of a group-by that is done in rounds, for sources that nvcc does not compile; see group_by_rounds.hpp.
#pragma once

#include <mgi/gpu_operators.hpp>

namespace mgi::operators::on_gpu {

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
