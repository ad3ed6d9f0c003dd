#include <utility>

#include <mgi/channel.hpp>

#include "core/ordering.hpp"

namespace mgi {

Routing Routing::partition(std::string key, Hash hash) {
    Routing routing;
    routing.kind = device::RoutingKind::Partition;
    routing.keys.push_back(std::move(key));
    routing.hash = hash;
    return routing;
}

Routing Routing::partition(std::vector<std::string> keys, Hash hash) {
    Routing routing;
    routing.kind = device::RoutingKind::Partition;
    routing.keys = std::move(keys);
    routing.hash = hash;
    return routing;
}

Routing Routing::broadcast() {
    Routing routing;
    routing.kind = device::RoutingKind::Broadcast;
    return routing;
}

Routing Routing::direct() {
    Routing routing;
    routing.kind = device::RoutingKind::Direct;
    return routing;
}

Routing Routing::balance() {
    Routing routing;
    routing.kind = device::RoutingKind::Balance;
    return routing;
}

Routing Routing::range(std::vector<SortKey> order, Table const& splitters) {
    std::string const what = "Routing::range: splitters";
    Routing routing;
    routing.kind = device::RoutingKind::Range;
    for (auto const& key : key_orders(what, order, splitters.schema)) {
        routing.splitters.types.push_back(splitters.schema[key.column].type);
    }
    for (RecordBatch const& batch : splitters.batches) {
        if (batch.columns.size() != batch.schema.size() || !splitters.schema.holds(batch.schema)) {
            throw Error(ErrorCode::InvalidArgument,
                        what + ": a batch of " + std::to_string(batch.columns.size()) +
                            " columns has (" + batch.schema.to_string() +
                            ") in place of the table's (" + splitters.schema.to_string() + ")");
        }
        OrderedRows const rows(what, order, batch);
        for (std::int64_t row = 0; row < batch.rows; ++row) {
            rows.append(static_cast<std::uint64_t>(row), UINT32_MAX - 1, routing.splitters);
        }
    }
    routing.order = std::move(order);
    return routing;
}

Routing Routing::range(std::vector<SortKey> order, RecordBatch const& splitters) {
    return range(std::move(order), Table{splitters.schema, {splitters}});
}

}  // namespace mgi
