// Exchange of tables in GPU memory.
#pragma once

#include "operators/gpu/facts.hpp"

namespace mgi::operators::on_gpu {

// Some columns of all parts to the endpoints that own their keys, which are among them.
inline std::vector<GpuTable> move_rows(Operation& operation, Input const& input,
                                       std::vector<u32> const& columns,
                                       std::vector<u32> const& keys, Facts const& facts,
                                       std::string const& name) {
    std::vector<Field> fields;
    std::vector<Field> travelling;
    std::vector<bool> nulls;
    for (u32 const c : columns) {
        fields.push_back(input.schema()[c]);
        travelling.push_back(fields.back());
        // A column without a null travels without validity, whatever its schema allows.
        travelling.back().nullable = facts.nulls[c];
        nulls.push_back(facts.nulls[c]);
    }
    std::vector<std::string> key_names;
    for (u32 const key : keys) key_names.push_back(input.schema()[key].name);
    Channel const channel = operation.open(name, Schema(travelling), key_names, input.rows());

    std::vector<UploadedPart> parts;
    std::vector<OutputTable> outputs;
    std::vector<Memory> cursors;
    for (std::size_t e = 0; e < operation.size(); ++e) {
        Place& place = operation.place(e);
        if (facts.rows_for[e] > kMostRows) {
            refuse(operation.what(), "endpoint " + std::to_string(e) + " would get " +
                                         std::to_string(facts.rows_for[e]) + " rows, more than " +
                                         std::to_string(kMostRows) + "; use more endpoints");
        }
        parts.emplace_back(place, input.views(e, columns, facts.nulls), input.rows(e));
        outputs.emplace_back(place, Schema(fields), nulls, facts.rows_for[e], "rows that arrive");
        cursors.push_back(place.allocate(8, "a counter"));
        place.fill(cursors.back().get(), 0, 8);
    }
    operation.run<KeepArriving>(
        channel, KeepArriving::scratch_bytes(u32(columns.size())), [&](std::size_t e) {
            Arriving arriving{outputs[e].uploaded(), static_cast<u64*>(cursors[e].get()),
                              facts.rows_for[e]};
            return std::make_tuple(parts[e].to_send, arriving);
        });
    operation.close();
    std::vector<GpuTable> results;
    for (std::size_t e = 0; e < operation.size(); ++e) {
        u64 const came =
            operation.place(e).download(static_cast<u64 const*>(cursors[e].get()), 1)[0];
        if (came != facts.rows_for[e]) {
            throw Error(ErrorCode::Internal, operation.what() + ": " + std::to_string(came) +
                                                 " rows came to endpoint " + std::to_string(e) +
                                                 " in place of " +
                                                 std::to_string(facts.rows_for[e]));
        }
        results.push_back(outputs[e].finish());
    }
    return results;
}

inline std::vector<GpuTable> exchange_on(Operation& operation, std::vector<GpuTable> const& parts,
                                         std::vector<std::string> const& keys) {
    Input const input(operation, parts);
    Wanted wanted;
    wanted.keys = input.columns(keys);
    check_keys(input, wanted.keys, operation.options().hash);
    if (operation.size() == 1) {
        // Nothing moves: the part is the result, in no memory of its own.
        GpuTable result = parts[0];
        if (result.schema.empty()) result.columns.resize(input.schema().size());
        result.schema = input.schema();
        return {result};
    }
    wanted.rows_for = true;
    Facts const facts = find_facts(operation, input, wanted);
    return move_rows(operation, input, input.columns_or_all({}), wanted.keys, facts, "exchange");
}

}  // namespace mgi::operators::on_gpu
