#include "support/tiny_channel.hpp"

namespace mgi::test {

namespace {

/// Offsets count from here: an address that is not null and below every other.
char* const kPool = reinterpret_cast<char*>(std::uintptr_t{64});

std::uint32_t carry_text_bytes(TinyOptions const& options, std::uint32_t lanes) {
    return options.text_bytes + lanes * device::Ticket::kUnitBytes;
}

std::uint32_t lanes_of(TinyOptions const& options) {
    bool const apart = options.routing == device::RoutingKind::Partition ||
                       options.routing == device::RoutingKind::Direct;
    return apart ? options.destinations : 1;
}

}  // namespace

TinyChannel::TinyChannel(Schema const& schema, TinyOptions const& options)
    : options_(options),
      layout_(schema, options.layout, options.segment_rows, options.text_bytes),
      carry_layout_(schema, options.layout, options.tile_rows,
                    carry_text_bytes(options, lanes_of(options))),
      sources_(std::make_unique<device::Source<Atomics>[]>(options.sources)),
      destinations_(std::make_unique<device::Destination<Atomics>[]>(options.destinations)),
      source_tables_(options.sources),
      destination_tables_(options.destinations) {
    state_.pool = kPool;
    state_.layout = layout_.get();
    state_.carry_layout = carry_layout_.get();
    state_.keys = options_.keys.data();
    state_.key_count = static_cast<std::uint32_t>(options_.keys.size());
    state_.routing = options.routing;
    state_.hash = options.hash;
    state_.ordered = options.ordered;
    state_.by_reference = true;
    state_.source_count = options.sources;
    state_.destination_count = options.destinations;
    state_.lane_count = lanes_of(options);
    state_.tile_rows = options.tile_rows;
    state_.chunk_rows = options.chunk_rows;
    state_.max_groups = options.max_groups;
    state_.sources = sources_.get();
    state_.destinations = destinations_.get();
    for (std::uint32_t d = 0; d < options.destinations; ++d) ids_.push_back(100 + d);
    state_.destination_ids = ids_.data();
    for (std::uint32_t s = 0; s < options.sources; ++s) build_source(s);
    for (std::uint32_t d = 0; d < options.destinations; ++d) build_destination(d);
}

char* TinyChannel::segment(std::uint32_t bytes) {
    return memory_.emplace_back(bytes / sizeof(Line)).data()->bytes;
}

void TinyChannel::build_source(std::uint32_t s) {
    SourceTables& tables = source_tables_[s];
    tables.lanes = std::make_unique<device::Lane<Atomics>[]>(state_.lane_count);
    tables.groups = std::make_unique<device::GroupState<Atomics>[]>(options_.max_groups);
    std::uint32_t const ring = options_.slots;
    for (std::uint32_t l = 0; l < state_.lane_count; ++l) {
        auto& slots = tables.slots.emplace_back(std::make_unique<device::Slot<Atomics>[]>(ring));
        device::Lane<Atomics>& lane = tables.lanes[l];
        lane.slots = slots.get();
        lane.mask = ring - 1;
        lane.capacity = options_.segment_rows;
        lane.units = state_.layout.units;
        lane.ticket.store(device::Ticket{options_.start, 0, 0}.word(), device::relaxed);
        lane.published.store(options_.start, device::relaxed);
        for (std::uint64_t i = options_.start; i < options_.start + ring; ++i) {
            auto& slot = slots[i & lane.mask];
            slot.sequence.store(i, device::relaxed);
            slot.offset = static_cast<std::uint64_t>(segment(state_.layout.size) - kPool);
        }
    }
    for (std::uint32_t g = 0; g < options_.max_groups; ++g) build_group(tables.groups[g]);
    state_.sources[s].lanes = tables.lanes.get();
    state_.sources[s].groups = tables.groups.get();
}

void TinyChannel::build_group(device::GroupState<Atomics>& group) {
    auto& tables = *group_tables_.emplace_back(std::make_unique<GroupTables>());
    device::SegmentLayout const& layout = state_.carry_layout;
    tables.last.resize(state_.lane_count);
    tables.carry_lane.resize(options_.tile_rows);
    tables.carry_next.resize(state_.lane_count);
    tables.carry_end.resize(state_.lane_count);
    tables.carry = segment(layout.size);
    tables.carry_text = tables.carry + layout.bytes_offset;
    for (std::uint32_t c = 0; c < layout.column_count; ++c) {
        device::ColumnLayout const& column = layout.columns[c];
        device::ColumnView view;
        view.values = tables.carry + column.offset;
        if (column.nullable()) {
            view.validity = reinterpret_cast<std::uint8_t const*>(tables.carry + column.validity);
        }
        view.buffers = &tables.carry_text;
        if (column.storage == device::Storage::Views) view.encoding = device::InputEncoding::Views;
        tables.columns.push_back(view);
    }
    group.last = tables.last.data();
    group.carry_lane = tables.carry_lane.data();
    group.carry_next = tables.carry_next.data();
    group.carry_end = tables.carry_end.data();
    group.carry = tables.carry;
    group.carry_columns = tables.columns.data();
}

void TinyChannel::build_destination(std::uint32_t d) {
    DestinationTables& tables = destination_tables_[d];
    std::uint32_t const ring = options_.slots;
    std::uint32_t entries = 1;
    while (entries < options_.sources * ring) entries *= 2;
    bool const shared = options_.routing == device::RoutingKind::Balance && d != 0;
    if (!shared) {
        tables.queue = std::make_unique<device::ReceiveQueue<Atomics>>();
        tables.entries = std::make_unique<device::ReceiveQueue<Atomics>::Entry[]>(entries);
        tables.queue->entries = tables.entries.get();
        tables.queue->mask = entries - 1;
        // Every source's sequences start high, so their sum is what was taken before.
        tables.queue->tail.store(options_.start * options_.sources, device::relaxed);
        tables.queue->head.store(options_.start * options_.sources, device::relaxed);
        tables.counts = std::make_unique<Atomics::System<std::uint64_t>[]>(options_.sources);
    }
    tables.receivers = std::make_unique<Atomics::System<std::uint32_t>[]>(options_.max_groups);
    for (std::uint32_t s = 0; s < options_.sources; ++s) {
        std::uint32_t const lane = state_.lane_count == 1 ? 0 : d;
        tables.rings.push_back({state_.sources[s].lanes[lane].slots, ring, true});
    }
    device::Destination<Atomics>& to = state_.destinations[d];
    to.queue = shared ? state_.destinations[0].queue : tables.queue.get();
    to.counts = shared ? state_.destinations[0].counts : tables.counts.get();
    to.rings = tables.rings.data();
    to.receivers = tables.receivers.get();
}

}  // namespace mgi::test
