// A group-by of rows that come in rounds: each round's rows become groups with the states of their aggregates, and the groups of
// all rounds are merged at the end. What is counted in tables of pairs cannot be merged.
#pragma once

#include "operators/gpu/group_by.hpp"

namespace mgi::operators::on_gpu {

// What of the aggregates is computed in each round, and what of that at the end: the same in all rounds.
inline TwoSteps steps_of(InputColumns const& rows, std::vector<u32> const& keys,
                         std::vector<Item> const& items) {
    std::vector<bool> nulls;
    for (Field const& field : rows.schema().fields()) nulls.push_back(field.nullable);
    return TwoSteps(rows, keys, items, nulls, true);
}

// Groups of a round's rows, at the endpoints where these lie.
inline std::vector<GpuTable> group_round_on(Operation& operation,
                                            std::vector<GpuTable> const& parts,
                                            std::vector<std::string> const& key_names,
                                            std::vector<Aggregate> const& aggregates) {
    Input const input(operation, parts);
    std::vector<u32> const keys = input.columns(key_names);
    check_keys(input, keys, operation.options().hash);
    Items const items(input, keys, aggregates);
    std::vector<Field> results;
    for (u32 const key : keys) results.push_back(input.schema()[key]);
    for (Item const& item : items.all) results.push_back(item.field);
    check_result(operation.what(), results);
    TwoSteps const steps = steps_of(input, keys, items.all);
    std::vector<Pairs> const pairs;
    return Grouping(operation, input, keys, keys.size(), steps.partial, pairs, false).run_parts();
}

// The results, of groups of all rounds. `rows`: the columns of what they are made of.
inline std::vector<GpuTable> merge_rounds_on(Operation& operation,
                                             std::vector<GpuTable> const& groups,
                                             Schema const& rows,
                                             std::vector<std::string> const& key_names,
                                             std::vector<Aggregate> const& aggregates) {
    InputColumns const columns(operation.what(), rows);
    std::vector<u32> const keys = columns.columns(key_names);
    Items const items(columns, keys, aggregates);
    TwoSteps const steps = steps_of(columns, keys, items.all);
    Input const input(operation, groups);
    std::vector<u32> first(keys.size());
    std::iota(first.begin(), first.end(), 0u);
    std::vector<Pairs> const pairs;
    return Grouping(operation, input, first, first.size(), steps.merging, pairs).run_moving();
}

}  // namespace mgi::operators::on_gpu
