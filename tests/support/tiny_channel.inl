/// \file
/// How a tiny channel's tables are built.
#pragma once

namespace mgi::test {

template <class A>
BasicTinyChannel<A>::BasicTinyChannel(Schema const& schema, TinyOptions const& options)
    : options_(options),
      layout_(schema, options.layout, options.segment_rows, options.text_bytes),
      carry_layout_(schema, options.layout, options.tile_rows, carry_text_bytes()),
      sources_(std::make_unique<device::Source<A>[]>(options.sources)),
      destinations_(std::make_unique<device::Destination<A>[]>(options.destinations)),
      source_tables_(options.sources),
      destination_tables_(options.destinations) {
    fill_in_state();
    for (std::uint32_t s = 0; s < options.sources; ++s) build_source(s);
    for (std::uint32_t d = 0; d < options.destinations; ++d) build_destination(d);
    if (options.staged_rows != 0) build_staged_rows();
    if (options.seats == 0) return;
    seats_ = std::make_unique<device::SorterSeat<A>[]>(options.seats);
    state_.seats = seats_.get();
    state_.seat_count = options.seats;
}

template <class A>
void BasicTinyChannel<A>::fill_in_state() {
    state_.pool = pool();
    state_.layout = layout_.get();
    state_.carry_layout = carry_layout_.get();
    state_.keys = options_.keys.data();
    state_.key_count = static_cast<std::uint32_t>(options_.keys.size());
    state_.routing = options_.routing;
    state_.hash = options_.hash;
    state_.ordered = options_.ordered;
    state_.source_count = options_.sources;
    state_.destination_count = options_.destinations;
    state_.lane_count = lanes();
    state_.tile_rows = options_.tile_rows;
    if (options_.staged) state_.staged_bytes = device::staged_tile_bytes(state_);
    state_.chunk_rows = options_.chunk_rows;
    state_.takes_ahead = options_.takes_ahead;
    state_.max_groups = options_.max_groups;
    state_.sources = sources_.get();
    state_.destinations = destinations_.get();
    for (std::uint32_t d = 0; d < options_.destinations; ++d) {
        ids_.push_back(100 + d);
        numbers_.push_back(d);
    }
    state_.destination_ids = ids_.data();
}

template <class A>
void BasicTinyChannel<A>::build_staged_rows() {
    std::size_t const threads = std::size_t{options_.max_groups} * State::kStagingThreads;
    staged_ = std::make_unique<device::StagedRows[]>(threads);
    for (std::size_t t = 0; t < threads; ++t) {
        staged_[t].data =
            staged_data_.emplace_back(options_.staged_rows * state_.layout.row_bytes).data();
        staged_[t].capacity = options_.staged_rows;
    }
    state_.staged = staged_.get();
}

template <class A>
char* BasicTinyChannel<A>::segment(std::uint32_t bytes) {
    return memory_.emplace_back(bytes / sizeof(Line)).data()->bytes;
}

/// Slots that hold the sequences from `start` on.
template <class A>
device::Slot<A>* BasicTinyChannel<A>::build_slots(std::uint32_t count) {
    Slot* const slots = slots_.emplace_back(std::make_unique<Slot[]>(count)).get();
    for (std::uint64_t i = options_.start; i < options_.start + count; ++i) {
        slots[i % count].sequence.store(i, device::relaxed);
        slots[i % count].offset = static_cast<std::uint64_t>(segment(state_.layout.size) - pool());
    }
    return slots;
}

template <class A>
void BasicTinyChannel<A>::build_source(std::uint32_t s) {
    SourceTables& tables = source_tables_[s];
    tables.lanes = std::make_unique<device::Lane<A>[]>(state_.lane_count);
    tables.groups = std::make_unique<device::GroupState<A>[]>(options_.max_groups);
    for (std::uint32_t l = 0; l < state_.lane_count; ++l) {
        device::Lane<A>& lane = tables.lanes[l];
        lane.slots = build_slots(options_.slots);
        lane.mask = options_.slots - 1;
        lane.capacity = options_.segment_rows;
        lane.units = state_.layout.units;
        set_readers(lane, l);
        if (options_.mail && lane.moves != 0) add_mail(lane);
        lane.cursor.store(lane.units != 0 ? device::Ticket{options_.start, 0}.word()
                                          : options_.start * lane.capacity,
                          device::relaxed);
        lane.published.store(options_.start, device::relaxed);
        lane.delivered.store(options_.start, device::relaxed);
        lane.rows_published.store(options_.rows_start, device::relaxed);
        lane.units_published.store(options_.rows_start, device::relaxed);
    }
    for (std::uint32_t g = 0; g < options_.max_groups; ++g) {
        build_group(tables.groups[g]);
        tables.groups[g].rows_accepted.store(options_.rows_start, device::relaxed);
    }
    state_.sources[s].lanes = tables.lanes.get();
    state_.sources[s].groups = tables.groups.get();
    state_.sources[s].words = &tables.words;
    state_.sources[s].pool = pool();
}

template <class A>
void BasicTinyChannel<A>::add_mail(device::Lane<A>& lane) {
    auto& tables = *mail_tables_.emplace_back(std::make_unique<MailTables>());
    tables.contents =
        std::make_unique<typename A::template System<std::uint64_t>[]>(options_.slots);
    tables.mail.contents = tables.contents.get();
    tables.mail.published.store(options_.start, device::relaxed);
    tables.mail.moved.store(options_.start, device::relaxed);
    lane.mail = &tables.mail;
}

template <class A>
void BasicTinyChannel<A>::add_mail(std::uint32_t destination) {
    DestinationTables& tables = destination_tables_[destination];
    for (device::ReadRing<A>& ring : tables.rings) {
        ring.freed =
            freed_
                .emplace_back(
                    std::make_unique<typename A::template System<std::uint64_t>[]>(ring.size))
                .get();
        for (std::uint32_t i = 0; i < ring.size; ++i) {
            ring.freed[i].store(ring.slots[i].sequence.load(device::relaxed), device::relaxed);
        }
    }
    std::uint32_t const entries = std::bit_ceil(options_.sources * (options_.credits + 1));
    tables.arrival_entries =
        std::make_unique<typename A::template System<std::uint64_t>[]>(entries);
    tables.arrivals.entries = tables.arrival_entries.get();
    tables.arrival_counts =
        std::make_unique<typename A::template System<std::uint64_t>[]>(options_.sources);
    tables.arrivals.counts = tables.arrival_counts.get();
    tables.arrivals.mask = entries - 1;
    state_.destinations[destination].arrivals = &tables.arrivals;
}

template <class A>
void BasicTinyChannel<A>::set_readers(device::Lane<A>& lane, std::uint32_t number) {
    std::uint32_t const near = options_.by_reference ? options_.destinations : options_.near;
    if (options_.routing == device::RoutingKind::Broadcast) {
        lane.readers = numbers_.data();
        lane.reader_count = near;
        lane.moves = options_.destinations - near;
    } else {
        lane.readers = &numbers_[number];
        lane.reader_count = number < near ? 1 : 0;
        lane.moves = 1 - lane.reader_count;
    }
}

template <class A>
void BasicTinyChannel<A>::build_group(device::GroupState<A>& group) {
    auto& tables = *group_tables_.emplace_back(std::make_unique<GroupTables>());
    device::SegmentLayout const& layout = state_.carry_layout;
    tables.last.resize(state_.lane_count);
    tables.carry_at.resize(state_.lane_count);
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
    group.carry_at = tables.carry_at.data();
    group.carry_lane = tables.carry_lane.data();
    group.carry_next = tables.carry_next.data();
    group.carry_end = tables.carry_end.data();
    group.carry = tables.carry;
    group.carry_columns = tables.columns.data();
}

template <class A>
void BasicTinyChannel<A>::build_destination(std::uint32_t d) {
    DestinationTables& tables = destination_tables_[d];
    bool const shared = options_.by_reference && options_.routing == device::RoutingKind::Balance;
    if (!shared || d == 0) {
        tables.queue = std::make_unique<Queue>();
        tables.entries = std::make_unique<typename Queue::Entry[]>(queue_entries());
        tables.queue->entries = tables.entries.get();
        tables.queue->mask = queue_entries() - 1;
        // Every source's sequences start high, so their sum is what was taken before.
        std::uint64_t first = 0;
        for (std::uint32_t s = 0; s < options_.sources; ++s) {
            if (!has_inbox(s, d)) first += options_.start;
        }
        tables.queue->tail.store(first, device::relaxed);
        tables.queue->head.store(first, device::relaxed);
        for (std::uint64_t p = first - std::min<std::uint64_t>(first, queue_entries()); p < first;
             ++p) {
            // As the lap before left it: one chunk, claimed.
            std::uint64_t const state = std::uint64_t{std::uint32_t(p + 1)} << 32 | 1 << 16 | 1;
            tables.entries[p & tables.queue->mask].state.store(state, device::relaxed);
        }
        tables.counts =
            std::make_unique<typename A::template System<std::uint64_t>[]>(options_.sources);
    }
    tables.receivers =
        std::make_unique<typename A::template System<std::uint64_t>[]>(options_.max_groups);
    for (std::uint32_t s = 0; s < options_.sources; ++s) {
        std::uint32_t const lane = state_.lane_count == 1 ? 0 : d;
        bool const in_place = reads_in_place(d);
        Slot* const slots =
            in_place ? state_.sources[s].lanes[lane].slots : build_slots(ring_size(d));
        tables.rings.push_back({slots, ring_size(d), in_place});
    }
    device::Destination<A>& to = state_.destinations[d];
    to.queue = tables.queue == nullptr ? state_.destinations[0].queue : tables.queue.get();
    to.counts = tables.counts == nullptr ? state_.destinations[0].counts : tables.counts.get();
    to.rings = tables.rings.data();
    to.receivers = tables.receivers.get();
    to.words = &tables.words;
    to.pool = pool();
    to.words->rows_received.store(options_.rows_start, device::relaxed);
    if (options_.mail && !reads_in_place(d)) add_mail(d);
    add_inboxes(d);
}

template <class A>
void BasicTinyChannel<A>::add_inbox(device::Destination<A>& to, std::uint32_t source) {
    device::ReadRing<A>& ring = to.rings[source];
    std::uint32_t const slots = ring.size;
    auto& tables = *inbox_tables_.emplace_back(std::make_unique<InboxTables>());
    tables.came = std::make_unique<typename A::template System<std::uint64_t>[]>(slots);
    tables.owed = std::make_unique<typename A::template Device<std::uint32_t>[]>(slots);
    tables.offsets = std::make_unique<std::uint64_t[]>(slots);
    device::Inbox<A>& inbox = tables.inbox;
    inbox.came = tables.came.get();
    inbox.owed = tables.owed.get();
    inbox.offsets = tables.offsets.get();
    inbox.mask = slots - 1;
    inbox.chunks = state_.chunks_of(options_.segment_rows);
    inbox.draws.store(options_.start * inbox.chunks << device::Inbox<A>::kOpenBits,
                      device::relaxed);
    for (std::uint32_t i = 0; i < slots; ++i) {
        inbox.owed[i].store(inbox.chunks, device::relaxed);
        inbox.offsets[i] = ring.slots[i].offset;
        // As the lap before left it.
        std::uint64_t const next = ring.slots[i].sequence.load(device::relaxed);
        if (next < slots) continue;
        inbox.came[i].store(device::Arrival::word(next - slots, 0), device::relaxed);
        if (ring.in_place && state_.own_lanes()) {
            ring.slots[i].filled.store(next - slots + 1, device::relaxed);
        }
    }
    ring.inbox = &inbox;
}

template <class A>
void BasicTinyChannel<A>::add_inboxes(std::uint32_t d) {
    device::Destination<A>& to = state_.destinations[d];
    to.has_queue = false;
    for (std::uint32_t s = 0; s < options_.sources; ++s) {
        if (!has_inbox(s, d)) {
            to.has_queue = true;
            continue;
        }
        add_inbox(to, s);
        if (!reads_in_place(d) || !state_.own_lanes()) continue;
        device::Lane<A>& lane = state_.sources[s].lanes[d];
        lane.published.store(0, device::relaxed);
        lane.came = to.rings[s].inbox->came;
    }
    if (std::none_of(to.rings, to.rings + options_.sources,
                     [](device::ReadRing<A> const& ring) { return ring.inbox != nullptr; })) {
        return;
    }
    ReceiverTables& tables = receiver_tables_.emplace_back();
    tables.receivers = std::make_unique<device::Receiver<A>[]>(options_.max_groups);
    for (std::uint32_t g = 0; g < options_.max_groups; ++g) {
        tables.holds.push_back(
            std::make_unique<typename A::template System<std::uint64_t>[]>(options_.sources));
        tables.receivers[g].holds = tables.holds.back().get();
    }
    to.inbox_receivers = tables.receivers.get();
}

}  // namespace mgi::test
