#include "runtime/checks.hpp"

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

void check_keys(ChannelSpec const& spec, Schema const& schema) {
    auto const& routing = spec.routing;
    if (routing.kind != RoutingKind::Partition) {
        if (!routing.keys.empty()) refuse(spec, "only Partition routing takes keys");
        if (!routing.owners.empty()) refuse(spec, "only Partition routing takes owners of parts");
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
    if (spec.schema.has_value()) return *spec.schema;
    return Schema{Field{"message", binary(), false}};
}

void check_spec(ChannelSpec const& spec, Schema const& schema) {
    if (schema.empty()) refuse(spec, "its schema has no columns");
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
