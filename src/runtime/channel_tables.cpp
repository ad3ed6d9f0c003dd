#include "runtime/channel_tables.hpp"

#include <algorithm>
#include <bit>

#include <mgi/device/assert.hpp>

namespace mgi {

using device::relaxed;
using device::RoutingKind;
using memory::Carver;

namespace {

template <class T>
std::uint64_t table_bytes(std::uint64_t count) {
    return Carver::piece(count * sizeof(T));
}

bool contains(std::vector<std::uint32_t> const& sorted, std::uint32_t index) {
    return std::binary_search(sorted.begin(), sorted.end(), index);
}

}  // namespace

std::uint64_t ChannelTables::pool_bytes() const {
    std::uint64_t const segment = state_.layout.size;
    std::uint64_t const lanes = here_.sources.size() * (plan_.lanes - far_lanes());
    std::uint64_t bytes = lanes * plan_.slots * segment;
    bytes += here_.destinations.size() * (copied_sources() - far_.sources.size()) * plan_.credits *
             segment;
    return bytes + here_.sources.size() * state_.max_groups * group_bytes();
}

std::uint64_t ChannelTables::home_bytes(Here const& at) const {
    return here_.sources.size() * at.destinations.size() * plan_.slots * state_.layout.size +
           at.sources.size() * state_.max_groups * group_bytes();
}

// What a group keeps.
std::uint64_t ChannelTables::group_bytes() const {
    return Carver::piece(state_.carry_layout.size) +
           2 * Carver::piece(std::uint64_t{plan_.lanes} * sizeof(device::u64)) +
           2 * Carver::piece(std::uint64_t{plan_.lanes} * sizeof(device::u32)) +
           Carver::piece(std::uint64_t{plan_.tile_rows} * sizeof(device::u16));
}

std::uint64_t ChannelTables::far_bytes() const {
    return (here_.sources.size() * far_lanes() * plan_.slots +
            here_.destinations.size() * far_.sources.size() * plan_.credits) *
           state_.layout.size;
}

bool ChannelTables::is_far_lane(std::uint32_t number) const {
    return state_.own_lanes() ? contains(far_.destinations, number) : !far_.destinations.empty();
}

std::uint64_t ChannelTables::far_lanes() const {
    std::uint64_t const far = far_.destinations.size();
    return state_.own_lanes() ? far : std::min<std::uint64_t>(far, 1);
}

std::uint64_t ChannelTables::bytes(Here const& at) const {
    std::uint64_t const sources = state_.source_count;
    std::uint64_t const destinations = at.destinations.size();
    std::uint64_t const groups = state_.max_groups;
    std::uint64_t const words =
        table_bytes<device::SourceWords<Words>>(sources) +
        table_bytes<device::DestinationWords<Words>>(state_.destination_count);
    std::uint64_t const group = table_bytes<device::ColumnView>(state_.carry_layout.column_count) +
                                table_bytes<char const*>(1);
    std::uint64_t const source = table_bytes<device::Lane<Words>>(plan_.lanes) +
                                 plan_.lanes * table_bytes<device::Slot<Words>>(plan_.slots) +
                                 table_bytes<device::GroupState<Words>>(groups) + groups * group;
    std::uint64_t const receive =
        copied_sources() * table_bytes<device::Slot<Words>>(plan_.credits);
    std::uint64_t const destination = table_bytes<Words::System<device::u64>>(groups) +
                                      table_bytes<device::ReadRing<Words>>(sources) + receive;
    std::uint64_t const queue = table_bytes<Words::System<device::u64>>(sources) + inbox_bytes() +
                                table_bytes<device::ReceiveQueue<Words>>(1) +
                                table_bytes<device::ReceiveQueue<Words>::Entry>(queue_entries());
    return table_bytes<device::Source<Words>>(sources) +
           table_bytes<device::Destination<Words>>(state_.destination_count) + words +
           table_bytes<std::uint32_t>(here_.destinations.size()) + at.sources.size() * source +
           destinations * destination + (share_queue() ? 1 : destinations) * queue;
}

// Of all inboxes of a destination.
std::uint64_t ChannelTables::inbox_bytes() const {
    auto const bytes = [&](std::uint32_t sources, std::uint32_t slots) {
        return sources *
               (table_bytes<device::Inbox<Words>>(1) +
                table_bytes<Words::System<device::u64>>(slots) +
                table_bytes<Words::Device<device::u32>>(slots) + table_bytes<device::u64>(slots));
    };
    if (inboxes() == 0) return 0;
    return bytes(with_inbox(true), plan_.slots) + bytes(with_inbox(false), plan_.credits) +
           table_bytes<device::Receiver<Words>>(state_.max_groups) +
           state_.max_groups * table_bytes<Words::System<device::u64>>(state_.source_count);
}

bool ChannelTables::has_inbox(bool in_place) const {
    // A queue is for several destinations that share it, for several sources' segments in one order, and for a stage: there
    // one sorter receives at each destination, of which there are many.
    if (state_.one_order()) return false;
    if (in_place) return state_.routing != RoutingKind::Balance && state_.takes_ahead;
    return by_mail_ && std::has_single_bit(plan_.credits);
}

std::uint32_t ChannelTables::with_inbox(bool in_place) const {
    if (!has_inbox(in_place)) return 0;
    return in_place ? state_.source_count - copied_sources() : copied_sources();
}

void ChannelTables::build_inboxes(std::pmr::memory_resource& memory, std::uint32_t d) {
    if (inboxes() == 0) return;
    auto& destination = state_.destinations[d];
    for (std::uint32_t s = 0; s < state_.source_count; ++s) {
        auto& ring = destination.rings[s];
        if (!has_inbox(ring.in_place)) continue;
        auto* const inbox = make_table<device::Inbox<Words>>(memory, 1);
        inbox->came = make_table<Words::System<device::u64>>(memory, ring.size);
        inbox->owed = make_table<Words::Device<device::u32>>(memory, ring.size);
        inbox->mask = ring.size - 1;
        inbox->chunks = state_.chunks_of(state_.layout.rows);
        inbox->offsets = make_table<device::u64>(memory, ring.size);
        for (std::uint32_t i = 0; i < ring.size; ++i) {
            inbox->owed[i].store(inbox->chunks, relaxed);
            inbox->offsets[i] = ring.slots[i].offset;
        }
        ring.inbox = inbox;
        if (ring.in_place && state_.own_lanes()) state_.sources[s].lanes[d].came = inbox->came;
    }
    destination.has_queue = inboxes() != state_.source_count;
    destination.inbox_receivers = make_table<device::Receiver<Words>>(memory, state_.max_groups);
    for (std::uint32_t g = 0; g < state_.max_groups; ++g) {
        auto& receiver = destination.inbox_receivers[g];
        receiver.holds = make_table<Words::System<device::u64>>(memory, state_.source_count);
        receiver.first.store(g % state_.source_count, relaxed);
    }
}

void ChannelTables::build(std::pmr::memory_resource& memory, Carver& carver,
                          std::pmr::memory_resource* mail, Carver* host) {
    MGI_ASSERT(far_.destinations.empty() || host != nullptr, far_.destinations.size());
    MGI_ASSERT(mail == nullptr || by_mail_, here_.sources.size(), here_.destinations.size());
    mail_ = mail;
    host_ = host;
    build(Homes{{{&memory, &carver}}, {}, {}});
}

void ChannelTables::build(Homes const& homes) {
    // Rings go by masks, and positions in a queue by how many segments it can hold.
    MGI_ASSERT(std::has_single_bit(plan_.slots), plan_.slots);
    MGI_ASSERT(copied_sources() == 0 || plan_.credits != 0, copied_sources(), plan_.credits);
    homes_ = homes;
    std::pmr::memory_resource& first = *homes_.all.front().memory;
    // Ahead of all others: from these two everything else is found.
    state_.sources = make_table<device::Source<Words>>(first, state_.source_count);
    state_.destinations = make_table<device::Destination<Words>>(first, state_.destination_count);
    build_endpoints();
}

void ChannelTables::repeat(std::pmr::memory_resource& memory, State const& built) {
    state_.sources = make_table<device::Source<Words>>(memory, state_.source_count);
    state_.destinations = make_table<device::Destination<Words>>(memory, state_.destination_count);
    std::copy_n(built.sources, state_.source_count, state_.sources);
    std::copy_n(built.destinations, state_.destination_count, state_.destinations);
}

void ChannelTables::build_endpoints() {
    std::vector<std::uint32_t const*> readers;  // by home: here_.destinations, as lanes name them
    for (std::uint32_t h = 0; h < homes_.all.size(); ++h) {
        std::pmr::memory_resource& memory = *homes_.all[h].memory;
        auto* const sources = make_table<device::SourceWords<Words>>(memory, state_.source_count);
        for (std::uint32_t s = 0; s < state_.source_count; ++s) {
            if (homes_.of_source(s) == h) state_.sources[s].words = &sources[s];
        }
        auto* const destinations =
            make_table<device::DestinationWords<Words>>(memory, state_.destination_count);
        for (std::uint32_t d = 0; d < state_.destination_count; ++d) {
            if (homes_.of_destination(d) == h) state_.destinations[d].words = &destinations[d];
        }
        readers.push_back(nullptr);
        // A table of nothing would take a place as well.
        if (here_.destinations.empty()) continue;
        auto* const numbers = make_table<std::uint32_t>(memory, here_.destinations.size());
        std::copy(here_.destinations.begin(), here_.destinations.end(), numbers);
        readers.back() = numbers;
    }
    for (std::uint32_t const s : here_.sources) build_source(s, readers[homes_.of_source(s)]);
    for (std::uint32_t const d : here_.destinations) build_destination(d);
}

void ChannelTables::find(std::pmr::memory_resource& memory) {
    state_.sources = static_cast<device::Source<Words>*>(
        memory.allocate(table_bytes<device::Source<Words>>(state_.source_count), 64));
    state_.destinations = static_cast<device::Destination<Words>*>(
        memory.allocate(table_bytes<device::Destination<Words>>(state_.destination_count), 64));
}

device::Slot<Words>* ChannelTables::build_slots(std::pmr::memory_resource& memory, Carver& carver,
                                                std::uint32_t count) {
    auto* const slots = make_table<device::Slot<Words>>(memory, count);
    for (std::uint32_t i = 0; i < count; ++i) {
        slots[i].sequence.store(i, relaxed);
        slots[i].offset = carver.take_bytes(state_.layout.size, state_.layout.bit_bytes);
    }
    return slots;
}

void ChannelTables::build_source(std::uint32_t s, std::uint32_t const* readers) {
    Home const& home = homes_.all[homes_.of_source(s)];
    auto& source = state_.sources[s];
    source.pool = state_.pool;
    source.lanes = make_table<device::Lane<Words>>(*home.memory, plan_.lanes);
    for (std::uint32_t l = 0; l < plan_.lanes; ++l) {
        auto& lane = source.lanes[l];
        Home const& to = state_.own_lanes() ? homes_.all[homes_.of_destination(l)] : home;
        lane.slots = build_slots(*home.memory, is_far_lane(l) ? *host_ : *to.carver, plan_.slots);
        lane.mask = plan_.slots - 1;
        lane.capacity = state_.layout.rows;
        lane.units = state_.layout.units;
        set_readers(lane, l, readers);
        add_mail(lane);
    }
    build_groups(home, source);
}

void ChannelTables::build_groups(Home const& home, device::Source<Words>& source) {
    std::pmr::memory_resource& memory = *home.memory;
    Carver& carver = *home.carver;
    auto const& layout = state_.carry_layout;
    source.groups = make_table<device::GroupState<Words>>(memory, state_.max_groups);
    for (std::uint32_t g = 0; g < state_.max_groups; ++g) {
        auto& group = source.groups[g];
        group.last = carver.take<device::u64>(plan_.lanes);
        group.carry_at = carver.take<device::u64>(plan_.lanes);
        group.carry_next = carver.take<device::u32>(plan_.lanes);
        group.carry_end = carver.take<device::u32>(plan_.lanes);
        group.carry_lane = carver.take<device::u16>(plan_.tile_rows);
        group.carry = state_.pool + carver.take_bytes(layout.size);
        auto* const columns = make_table<device::ColumnView>(memory, layout.column_count);
        auto* const bytes = make_table<char const*>(memory, 1);
        *bytes = group.carry + layout.bytes_offset;
        for (std::uint32_t c = 0; c < layout.column_count; ++c) {
            auto const& column = layout.columns[c];
            columns[c].values = group.carry + column.offset;
            if (column.nullable()) {
                columns[c].validity =
                    reinterpret_cast<device::u8 const*>(group.carry) + column.validity;
            }
            if (column.storage == device::Storage::Views) {
                columns[c].encoding = device::InputEncoding::Views;
                columns[c].buffers = bytes;
            }
        }
        group.carry_columns = columns;
    }
}

bool ChannelTables::is_read_in_place(std::uint32_t source) const {
    return plan_.transfer == Transfer::ByReference ||
           (plan_.transfer == Transfer::Mixed && contains(here_.sources, source));
}

std::uint32_t ChannelTables::copied_sources() const {
    switch (plan_.transfer) {
        case Transfer::ByReference: return 0;
        case Transfer::ByCopy: return state_.source_count;
        case Transfer::Mixed: break;
    }
    return state_.source_count - std::uint32_t(here_.sources.size());
}

void ChannelTables::set_readers(device::Lane<Words>& lane, std::uint32_t number,
                                std::uint32_t const* readers) const {
    bool const to_all = state_.routing == RoutingKind::Broadcast;
    auto const count = std::uint32_t(here_.destinations.size());
    lane.moves = to_all ? state_.destination_count : 1;
    if (plan_.transfer == Transfer::ByCopy) return;
    // Of a Balance channel the first one, whose queue is all destinations'.
    std::uint32_t const* const last = readers + count;
    lane.readers = state_.own_lanes() ? std::lower_bound(readers, last, number) : readers;
    bool const is_here = lane.readers != last && (!state_.own_lanes() || *lane.readers == number);
    lane.reader_count = to_all ? count : is_here ? 1 : 0;
    MGI_ASSERT(lane.reader_count <= lane.moves, lane.reader_count, lane.moves, number, count);
    lane.moves -= lane.reader_count;
}

void ChannelTables::add_mail(device::Lane<Words>& lane) const {
    if (mail_ == nullptr || lane.moves == 0) return;
    lane.mail = make_table<device::LaneMail<Words>>(*mail_, 1);
    lane.mail->contents = make_table<Words::System<device::u64>>(*mail_, plan_.slots);
}

void ChannelTables::add_mail(device::Destination<Words>& destination) const {
    if (mail_ == nullptr || copied_sources() == 0) return;
    for (std::uint32_t s = 0; s < state_.source_count; ++s) {
        auto& ring = destination.rings[s];
        if (ring.in_place) continue;
        ring.freed = make_table<Words::System<device::u64>>(*mail_, ring.size);
        for (std::uint32_t i = 0; i < ring.size; ++i) ring.freed[i].store(i, relaxed);
    }
    destination.arrivals = make_table<device::Arrivals<Words>>(*mail_, 1);
    destination.arrivals->entries =
        make_table<Words::System<device::u64>>(*mail_, arrival_entries());
    destination.arrivals->counts =
        make_table<Words::System<device::u64>>(*mail_, state_.source_count);
    destination.arrivals->mask = arrival_entries() - 1;
}

std::uint32_t ChannelTables::arrival_entries() const {
    return std::bit_ceil(copied_sources() * (plan_.credits + 1));
}

std::uint64_t ChannelTables::mail_bytes() const {
    std::uint64_t const lane = table_bytes<device::LaneMail<Words>>(1) +
                               table_bytes<Words::System<device::u64>>(plan_.slots);
    std::uint64_t const destination =
        copied_sources() * table_bytes<Words::System<device::u64>>(plan_.credits) +
        table_bytes<device::Arrivals<Words>>(1) +
        table_bytes<Words::System<device::u64>>(arrival_entries()) +
        table_bytes<Words::System<device::u64>>(state_.source_count);
    return here_.sources.size() * plan_.lanes * lane + here_.destinations.size() * destination;
}

bool ChannelTables::share_queue() const {
    return state_.routing == RoutingKind::Balance && plan_.transfer == Transfer::ByReference;
}

std::uint32_t ChannelTables::queue_entries() const {
    std::uint32_t const copied = has_inbox(false) ? 0 : copied_sources();
    std::uint32_t const in_place = has_inbox(true) ? 0 : state_.source_count - copied_sources();
    return std::bit_ceil(in_place * plan_.slots + copied * plan_.credits);
}

void ChannelTables::build_destination(std::uint32_t d) {
    Home const& home = homes_.all[homes_.of_destination(d)];
    std::pmr::memory_resource& memory = *home.memory;
    auto& destination = state_.destinations[d];
    destination.receivers = make_table<Words::System<device::u64>>(memory, state_.max_groups);
    destination.rings = make_table<device::ReadRing<Words>>(memory, state_.source_count);
    for (std::uint32_t s = 0; s < state_.source_count; ++s) {
        auto& ring = destination.rings[s];
        bool const in_place = is_read_in_place(s);
        ring.size = in_place ? plan_.slots : plan_.credits;
        ring.in_place = in_place;
        ring.slots = in_place
                         ? state_.sources[s].lanes[state_.own_lanes() ? d : 0].slots
                         : build_slots(memory, contains(far_.sources, s) ? *host_ : *home.carver,
                                       plan_.credits);
    }
    destination.pool = state_.pool;
    build_inboxes(memory, d);
    add_mail(destination);
    if (share_queue() && d != 0) {
        destination.queue = state_.destinations[0].queue;
        destination.counts = state_.destinations[0].counts;
        return;
    }
    destination.counts = make_table<Words::System<device::u64>>(memory, state_.source_count);
    destination.queue = make_table<device::ReceiveQueue<Words>>(memory, 1);
    destination.queue->entries =
        make_table<device::ReceiveQueue<Words>::Entry>(memory, queue_entries());
    destination.queue->mask = queue_entries() - 1;
}

}  // namespace mgi
