#include "tables.hpp"

namespace mgi::relacy {

namespace {

bool one_lane_each(RoutingKind routing) {
    return routing == RoutingKind::Partition || routing == RoutingKind::Direct;
}

}  // namespace

Tables::Tables(TableOptions const& options)
    : options_(options),
      sources_(new Source<A>[options.sources]),
      destinations_(new Destination<A>[options.destinations]),
      source_words_(new SourceWords<A>[options.sources]),
      destination_words_(new DestinationWords<A>[options.destinations]) {
    column_.width = sizeof(u32);
    column_.stride = sizeof(u32);
    state.layout.columns = &column_;
    state.layout.column_count = 1;
    state.layout.rows = options.capacity;
    state.layout.row_bytes = sizeof(u32);
    state.layout.units = options.units;
    state.layout.size = options.capacity * u32(sizeof(u32));
    state.carry_layout = state.layout;
    state.carry_layout.rows = options.tile_rows;
    state.tile_rows = options.tile_rows;
    state.routing = options.routing;
    state.ordered = options.ordered;
    state.source_count = options.sources;
    state.destination_count = options.destinations;
    state.lane_count = one_lane_each(options.routing) ? options.destinations : 1;
    state.chunk_rows = options.chunk_rows;
    state.max_groups = options.groups;
    state.sources = sources_.get();
    state.destinations = destinations_.get();
    for (u32 d = 0; d < options.destinations; ++d) numbers_.push_back(d);
    for (u32 s = 0; s < options.sources; ++s) {
        state.sources[s].words = &source_words_[s];
        build_source(state.sources[s]);
    }
    for (u32 d = 0; d < options.destinations; ++d) {
        state.destinations[d].words = &destination_words_[d];
        build_destination(d);
    }
    pool_.resize(segments_ * options.capacity);
    state.pool = reinterpret_cast<char*>(pool_.data());
    for (u32 s = 0; s < options.sources; ++s) state.sources[s].pool = state.pool;
    for (u32 d = 0; d < options.destinations; ++d) state.destinations[d].pool = state.pool;
    rows_.reset(new Plain<u32>[pool_.size()]);
}

Slot<A>* Tables::ring(u32 size) {
    Slot<A>* const slots = array(slots_, size);
    for (u32 i = 0; i < size; ++i) {
        slots[i].sequence.store(i, relaxed);
        slots[i].offset = segments_++ * state.layout.size;
    }
    return slots;
}

void Tables::build_source(Source<A>& source) {
    source.lanes = array(lanes_, state.lane_count);
    for (u32 l = 0; l < state.lane_count; ++l) {
        source.lanes[l].slots = ring(options_.slots);
        source.lanes[l].mask = options_.slots - 1;
        source.lanes[l].capacity = options_.capacity;
        source.lanes[l].units = options_.units;
        set_readers(source.lanes[l], l);
        if (options_.mail && source.lanes[l].moves != 0) add_mail(source.lanes[l]);
    }
    source.groups = array(groups_, options_.groups);
    for (u32 g = 0; g < options_.groups; ++g) build_group(source.groups[g]);
}

void Tables::set_readers(Lane<A>& lane, u32 number) {
    u32 const near = options_.by_reference ? options_.destinations : options_.near;
    bool const to_all = options_.routing == RoutingKind::Broadcast;
    lane.readers = to_all ? numbers_.data() : &numbers_[number];
    lane.reader_count = to_all ? near : number < near ? 1 : 0;
    lane.moves = (to_all ? options_.destinations : 1) - lane.reader_count;
}

void Tables::build_group(GroupState<A>& group) {
    Carry& carry = *carries_.emplace_back(new Carry);
    carry.last.resize(state.lane_count);
    carry.at.resize(state.lane_count);
    carry.lane.resize(options_.tile_rows);
    carry.next.resize(state.lane_count);
    carry.end.resize(state.lane_count);
    carry.rows.resize(options_.tile_rows);
    carry.column.values = carry.rows.data();
    group.last = carry.last.data();
    group.carry_at = carry.at.data();
    group.carry_lane = carry.lane.data();
    group.carry_next = carry.next.data();
    group.carry_end = carry.end.data();
    group.carry = reinterpret_cast<char*>(carry.rows.data());
    group.carry_columns = &carry.column;
}

void Tables::build_destination(u32 d) {
    Destination<A>& to = state.destinations[d];
    bool const shared = options_.routing == RoutingKind::Balance && options_.by_reference && d != 0;
    if (shared) {
        to.queue = state.destinations[0].queue;
        to.counts = state.destinations[0].counts;
    } else {
        u32 const segments = reads_in_place(d) ? options_.slots : options_.credits;
        u32 entries = 1;
        while (entries < options_.sources * segments) entries *= 2;
        to.queue = array(queues_, 1);
        to.queue->entries = array(entries_, entries);
        to.queue->mask = entries - 1;
        to.counts = array(counts_, options_.sources);
    }
    to.receivers = array(receivers_, options_.groups);
    to.rings = array(rings_, options_.sources);
    for (u32 s = 0; s < options_.sources; ++s) {
        u32 const lane = state.lane_count == 1 ? 0 : d;
        to.rings[s] = reads_in_place(d)
                          ? ReadRing<A>{state.sources[s].lanes[lane].slots, options_.slots, true}
                          : ReadRing<A>{ring(options_.credits), options_.credits, false};
    }
    if (options_.mail && !reads_in_place(d)) add_mail(to);
    bool const inboxes =
        reads_in_place(d) ? options_.routing != RoutingKind::Balance : options_.mail;
    if (options_.inbox && inboxes) add_inboxes(d);
}

void Tables::add_inboxes(u32 d) {
    Destination<A>& to = state.destinations[d];
    to.has_queue = to.arrivals != nullptr && options_.queued != 0;
    for (u32 s = to.has_queue ? options_.queued : 0; s < options_.sources; ++s) {
        ReadRing<A>& ring = to.rings[s];
        Inbox<A>* const inbox = array(inboxes_, 1);
        inbox->came = array(counts_, ring.size);
        inbox->owed = array(owed_, ring.size);
        inbox->mask = ring.size - 1;
        inbox->chunks = state.chunks_of(options_.capacity);
        inbox->offsets = array(offsets_, ring.size);
        for (u32 i = 0; i < ring.size; ++i) {
            inbox->owed[i].store(inbox->chunks, relaxed);
            inbox->offsets[i] = ring.slots[i].offset;
        }
        ring.inbox = inbox;
        if (ring.in_place && state.own_lanes()) state.sources[s].lanes[d].came = inbox->came;
    }
    to.inbox_receivers = array(inbox_receivers_, options_.groups);
    for (u32 g = 0; g < options_.groups; ++g) {
        to.inbox_receivers[g].holds = array(counts_, options_.sources);
    }
}

void Tables::add_mail(Lane<A>& lane) {
    lane.mail = array(mails_, 1);
    lane.mail->contents = array(mail_words_, options_.slots);
}

void Tables::add_mail(Destination<A>& to) {
    for (u32 s = 0; s < options_.sources; ++s) {
        to.rings[s].freed = array(mail_words_, options_.credits);
        for (u32 i = 0; i < options_.credits; ++i) to.rings[s].freed[i].store(i, relaxed);
    }
    u32 entries = 1;
    while (entries < options_.sources * (options_.credits + 1)) entries *= 2;
    to.arrivals = array(arrivals_, 1);
    to.arrivals->entries = array(mail_words_, entries);
    for (u32 i = 0; i < entries; ++i) to.arrivals->entries[i].count_loads();
    to.arrivals->counts = array(mail_words_, options_.sources);
    to.arrivals->mask = entries - 1;
}

}  // namespace mgi::relacy
