#include "runtime/checks.hpp"

#include <algorithm>

#include "core/ordering.hpp"

namespace mgi {

using device::RoutingKind;

namespace {

constexpr double kLeastWeight = 0.001;
constexpr double kMostWeight = 1000;

[[noreturn]] void refuse(ChannelSpec const& spec, std::string const& text) {
    throw Error(ErrorCode::InvalidArgument, name_of(spec) + ": " + text);
}

void check_owners(ChannelSpec const& spec) {
    auto const& owners = spec.routing.owners;
    // A tile numbers parts with 16 bits, as it does lanes.
    if (owners.size() > UINT16_MAX) {
        refuse(spec, std::to_string(owners.size()) + " parts are more than " +
                         std::to_string(UINT16_MAX));
    }
    for (std::size_t p = 0; p < owners.size(); ++p) {
        if (owners[p] < spec.destinations.size()) continue;
        refuse(spec, "part " + std::to_string(p) + "'s owner is destination " +
                         std::to_string(owners[p]) + "; there are " +
                         std::to_string(spec.destinations.size()) + ", counted from 0");
    }
}

// Values that name bytes which are there; of the keys' types.
bool well_formed(Splitters const& splitters, std::size_t keys) {
    if (splitters.types.size() != keys || splitters.values.size() % keys != 0) return false;
    if (splitters.bytes.size() > UINT32_MAX) return false;
    for (auto const& value : splitters.values) {
        if (value.size == device::SplitterValue::kNull) continue;
        if (std::uint64_t{value.begin} + value.size > splitters.bytes.size()) return false;
    }
    return true;
}

void check_range(ChannelSpec const& spec, Schema const& schema) {
    auto const& order = spec.routing.order;
    auto const& splitters = spec.routing.splitters;
    if (!spec.schema.has_value()) {
        refuse(spec,
               "Range needs a schema to find the keys in; raw messages can be broadcast, balanced "
               "or sent to a destination");
    }
    auto const keys = key_orders(name_of(spec) + ": range", order, schema);
    if (!well_formed(splitters, keys.size())) {
        refuse(spec, "its splitters are not as Routing::range makes them of its keys");
    }
    for (std::size_t k = 0; k < keys.size(); ++k) {
        Type const& type = schema[keys[k].column].type;
        if (splitters.types[k] == type) continue;
        refuse(spec, "the splitters' column '" + order[k].column + "' is " +
                         splitters.types[k].to_string() + ", the channel's is " + type.to_string());
    }
    std::size_t const wanted = std::max<std::size_t>(spec.destinations.size(), 1) - 1;
    if (splitters.count() != wanted) {
        refuse(spec, std::to_string(splitters.count()) + " splitters for " +
                         std::to_string(spec.destinations.size()) + " destinations; give " +
                         std::to_string(wanted) + ", one between each and the next");
    }
    auto const table = range_table(keys, splitters);
    for (std::uint32_t s = 1; s < table.count; ++s) {
        if (table.compare(s - 1, s) <= 0) continue;
        refuse(spec, "splitter " + std::to_string(s) + " comes before splitter " +
                         std::to_string(s - 1) + " in the order of the keys; sort them");
    }
}

void check_keys(ChannelSpec const& spec, Schema const& schema) {
    auto const& routing = spec.routing;
    if (routing.kind != RoutingKind::Range &&
        (!routing.order.empty() || routing.splitters != Splitters{})) {
        refuse(spec, "only Range routing takes an order and splitters");
    }
    if (routing.kind != RoutingKind::Partition) {
        if (!routing.keys.empty()) refuse(spec, "only Partition routing takes keys");
        if (!routing.owners.empty()) refuse(spec, "only Partition routing takes owners of parts");
        if (routing.kind == RoutingKind::Range) check_range(spec, schema);
        return;
    }
    if (!spec.schema.has_value()) {
        refuse(spec,
               "Partition needs a schema to find the key in; raw messages can be broadcast, "
               "balanced or sent to a destination");
    }
    if (routing.keys.empty()) refuse(spec, "Partition needs at least one key column");
    check_owners(spec);
    for (std::string const& key : routing.keys) {
        std::size_t column = 0;
        try {
            column = schema.index_of(key);
        } catch (Error const& error) {
            refuse(spec, std::string("partition key: ") + error.what());
        }
        Type const& type = schema[column].type;
        if (!type.is_key()) {
            refuse(
                spec,
                "column '" + key + "' is " + type.to_string() +
                    "; maps, unions, and lists and structs of floats are no keys (docs/limits.md)");
        }
        bool const whole =
            type.is_integer() || type.id == TypeId::Bool || type.id == TypeId::Date32;
        if (routing.hash == Hash::Modulo && !whole) {
            refuse(spec, "modulo wants an integer, date or bool key; column '" + key + "' is " +
                             type.to_string() + "; use murmur3");
        }
    }
    if (routing.hash == Hash::Modulo && routing.keys.size() != 1) {
        refuse(spec, "modulo takes one key column, not " + std::to_string(routing.keys.size()) +
                         "; use murmur3");
    }
}

}  // namespace

std::string name_of(ChannelSpec const& spec) {
    return spec.options.name.empty() ? "channel" : "channel '" + spec.options.name + "'";
}

Schema schema_of(ChannelSpec const& spec) {
    // A row without columns takes a bit, as nothing takes no place in a segment.
    if (spec.schema.has_value() && spec.schema->empty()) return Schema{Field{"", boolean(), false}};
    if (spec.schema.has_value()) return *spec.schema;
    return Schema{Field{"message", binary(), false}};
}

void check_spec(ChannelSpec const& spec, Schema const& schema) {
    check_keys(spec, schema);
    auto const& options = spec.options;
    if (options.ordered && spec.routing.kind == RoutingKind::Balance) {
        refuse(spec, "Balance gives rows to whoever has room, so it cannot be ordered");
    }
    if (options.ordered && options.sorters != 0) {
        refuse(spec,
               "stage buffers mix the rows of a group's threads, so a channel with sorters "
               "cannot be ordered");
    }
    if (options.sorters != 0 && spec.routing.kind == RoutingKind::Direct) {
        refuse(spec, "sorters choose a row's destination, so Direct routing has no use for them");
    }
    if (options.sorters > 64) {
        refuse(spec, std::to_string(options.sorters) + " sorters are more than 64 of each source");
    }
    if (options.layout == Layout::Rows && !spec.schema.has_value()) {
        refuse(spec, "raw messages have no row struct; use Layout::Columns");
    }
    if (!(options.weight >= kLeastWeight && options.weight <= kMostWeight)) {
        refuse(spec, "a weight is from 0.001 to 1000, not " + std::to_string(options.weight));
    }
    if (options.stall_limit.count() < 0 || options.gone_limit.count() < 0) {
        refuse(spec, "stall_limit and gone_limit are not negative");
    }
}

}  // namespace mgi
