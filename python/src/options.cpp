#include "options.hpp"

namespace mgi::python {
namespace {

void read_milliseconds(nb::dict const& options, char const* name,
                       std::chrono::milliseconds& value) {
    std::int64_t count = value.count();
    read_option(options, name, count);
    value = std::chrono::milliseconds(count);
}

}  // namespace

Hash hash_named(std::string const& name) {
    if (name == "murmur3") return Hash::Murmur3;
    if (name == "modulo") return Hash::Modulo;
    throw Error(ErrorCode::InvalidArgument,
                "there is no hash '" + name + "'; there are: murmur3, modulo");
}

Routing routing_named(std::string const& name, std::vector<std::string> const& keys,
                      std::string const& hash) {
    if (name == "partition") return Routing::partition(keys, hash_named(hash));
    if (name == "broadcast") return Routing::broadcast();
    if (name == "direct") return Routing::direct();
    if (name == "balance") return Routing::balance();
    throw Error(ErrorCode::InvalidArgument,
                "there is no routing '" + name +
                    "'; there are: partition, range, broadcast, direct, balance");
}

std::vector<SortKey> sort_keys_of(std::vector<SortKeyTuple> const& keys) {
    std::vector<SortKey> made;
    made.reserve(keys.size());
    for (auto const& [column, descending, nulls_first] : keys) {
        made.push_back({column, descending, nulls_first});
    }
    return made;
}

ChannelOptions channel_options(nb::dict const& options) {
    ChannelOptions made;
    read_option(options, "name", made.name);
    read_option(options, "ordered", made.ordered);
    read_option(options, "by_reference", made.by_reference);
    read_option(options, "segment_bytes", made.segment_bytes);
    read_option(options, "segment_rows", made.segment_rows);
    read_option(options, "expected_bytes", made.expected_bytes);
    read_option(options, "slots", made.slots);
    read_option(options, "credits", made.credits);
    read_option(options, "tile_rows", made.tile_rows);
    read_option(options, "chunk_rows", made.chunk_rows);
    read_option(options, "max_groups", made.max_groups);
    read_option(options, "text_bytes_per_row", made.text_bytes_per_row);
    read_option(options, "receive_limit", made.receive_limit);
    read_option(options, "sorters", made.sorters);
    read_option(options, "weight", made.weight);
    read_option(options, "relay_gpus", made.relay_gpus);
    read_option(options, "relay_host", made.relay_host);
    read_milliseconds(options, "stall_limit", made.stall_limit);
    read_milliseconds(options, "gone_limit", made.gone_limit);
    std::string layout = "columns";
    read_option(options, "layout", layout);
    if (layout != "columns" && layout != "rows") {
        throw Error(ErrorCode::InvalidArgument,
                    "there is no layout '" + layout + "'; there are: columns, rows");
    }
    made.layout = layout == "rows" ? Layout::Rows : Layout::Columns;
    return made;
}

}  // namespace mgi::python
