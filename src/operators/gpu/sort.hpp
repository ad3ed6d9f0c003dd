// Sort of tables in GPU memory: rows come to the endpoint whose range of the keys they fall into, which finds the order of what it
// has, and gathers its columns by that.
#pragma once

#include "operators/gpu/move_rows.hpp"
#include "operators/gpu/row_order.hpp"
#include "operators/gpu/sort_ranges.hpp"

namespace mgi::operators::on_gpu {

// The columns in an order of rows.
inline GpuTable gather_rows(Place& place, Schema const& schema, std::vector<bool> const& nulls,
                            Arrived const& here, FoundOrder const& order) {
    OutputTable output(place, schema, nulls, here.rows, "the sorted rows");
    std::vector<SortedColumn> gathered;
    auto const to = output.columns();
    for (u32 c = 0; c < to.size(); ++c) {
        auto const in_words = order.in_words.find(c);
        gathered.push_back({here.columns[c], {}, to[c]});
        if (in_words != order.in_words.end()) gathered.back().in_words = in_words->second;
    }
    std::vector<Memory> keep;
    SortedColumn const* const at = place.upload_one(keep, gathered);
    auto const gather = [&](auto kernel) {
        place.run(0, kernel, static_cast<u32 const*>(order.rows.get()), here.rows, at,
                  u32(gathered.size()));
    };
    if (here.rows != 0 && has_long(schema)) {
        gather(GatherRows<true>{});
    } else if (here.rows != 0) {
        gather(GatherRows<false>{});
    }
    return output.finish();
}

// `splitters`: between the endpoints' ranges; null: they follow from samples.
inline std::vector<GpuTable> sort_on(Operation& operation, Input const& input,
                                     std::vector<SortKey> const& order,
                                     Splitters const* splitters = nullptr) {
    Schema const& schema = input.schema();
    auto const keys = key_orders(operation.what(), order, schema);
    Wanted wanted;
    for (KeyOrder const& key : keys) wanted.keys.push_back(key.column);
    wanted.moving = input.columns_or_all({});
    bool const moves = operation.size() != 1;
    std::optional<Ranges> ranges;
    if (moves) {
        ranges = RangeFinder(operation, input, order).find(splitters);
        wanted.going = Going::ToOwners;
        wanted.ranges = &*ranges;
        operation.end_phase("sample");
    }
    Facts const facts = find_facts(operation, input, wanted);
    // The rows of each endpoint: those that have come there, or those that stay.
    std::vector<Arrived> here(operation.size());
    if (moves) {
        here = Moving(operation, input, wanted.moving, wanted.keys, facts).run("sort");
        ranges.reset();
    } else {
        for (std::size_t const e : operation.own()) {
            here[e].columns = input.views(e, wanted.moving, facts.nulls);
            here[e].rows = input.rows(e);
        }
    }
    std::vector<FoundOrder> orders(operation.size());
    operation.each([&](std::size_t e) {
        RowOrder rows(operation, e, here[e].columns, here[e].rows, keys, facts.nulls);
        orders[e] = rows.find();
        operation.place(e).wait();
    });
    operation.end_phase("sort");
    std::vector<GpuTable> results(operation.size(), no_rows(schema));
    operation.each([&](std::size_t e) {
        operation.check();
        results[e] = gather_rows(operation.place(e), schema, facts.nulls, here[e], orders[e]);
        orders[e] = {};
        here[e] = {};
    });
    operation.end_phase("gather");
    return results;
}

inline std::vector<GpuTable> sort_on(Operation& operation, std::vector<GpuTable> const& parts,
                                     std::vector<SortKey> const& keys,
                                     Splitters const* splitters = nullptr) {
    return sort_on(operation, Input(operation, parts), keys, splitters);
}

}  // namespace mgi::operators::on_gpu
