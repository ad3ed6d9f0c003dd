// The operators over tables in the host's memory at GPU endpoints: which rounds they go in, and what is done in each. What runs on GPUs
// they are given, so that tests have the host in the GPUs' place.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "operators/rounds.hpp"

namespace mgi::operators {

using GpuTables = std::vector<GpuTable>;

// A call, as its caller made it.
struct HostCall {
    Processes& processes;
    std::vector<Endpoint> const& endpoints;
    OperatorOptions const& options;
    u64 host_memory = 0;  // where the options say no limit
    OperatorReport* report = nullptr;
    // Places with so much memory for rows (0: what there is). Throws where an endpoint is no GPU.
    std::function<std::unique_ptr<RoundPlaces>(u64 limit)> places;
};

// The columns that a join looks at, by name.
struct JoinColumns {
    std::set<std::string> left;
    std::set<std::string> right;
};
JoinColumns columns_of(InputColumns const& left, InputColumns const& right, JoinSpec const& spec);
// And those that a group-by does.
std::set<std::string> columns_of(std::vector<std::string> const& keys,
                                 std::vector<Aggregate> const& aggregates);

// What a round's operator is told: half of `receive_limit` is for the rows that come from the host.
OperatorOptions options_of_round(OperatorOptions const& options);
inline u64 limit_of_rows(OperatorOptions const& options) {
    return (options.receive_limit + 1) / 2;
}

std::vector<Table> exchange_from_host(
    HostCall const& call, std::vector<Table> const& parts, std::vector<std::string> const& keys,
    std::function<GpuTables(GpuTables const& parts, OperatorReport* report)> const& exchange);

std::vector<Table> join_from_host(
    HostCall const& call, std::vector<Table> const& left, std::vector<Table> const& right,
    JoinSpec const& spec,
    std::function<GpuTables(GpuTables const& left, GpuTables const& right,
                            OperatorReport* report)> const& join);

// The sort of all rows, and of a round's, whose ranges the splitters part.
struct SortOnGpus {
    std::function<GpuTables(GpuTables const& parts, OperatorReport* report)> whole;
    std::function<GpuTables(GpuTables const& parts, Splitters const& splitters,
                            OperatorReport* report)>
        round;
};
std::vector<Table> sort_from_host(HostCall const& call, std::vector<Table> const& parts,
                                  std::vector<SortKey> const& keys, SortOnGpus const& sort);

// The group-by of all rows; of a round's rows into groups with states; and of those into results, which are made of rows of
// such columns.
struct GroupByOnGpus {
    std::function<GpuTables(GpuTables const& parts, OperatorReport* report)> whole;
    std::function<GpuTables(GpuTables const& parts, OperatorReport* report)> round;
    std::function<GpuTables(GpuTables const& groups, Schema const& rows, OperatorReport* report)>
        merge;
};
std::vector<Table> group_by_from_host(HostCall const& call, std::vector<Table> const& parts,
                                      std::vector<std::string> const& keys,
                                      std::vector<Aggregate> const& aggregates,
                                      GroupByOnGpus const& group_by);

}  // namespace mgi::operators
