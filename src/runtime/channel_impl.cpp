#include "runtime/channel_impl.hpp"

#include <algorithm>
#include <bit>
#include <new>

#include "core/log.hpp"
#include "runtime/host_groups.hpp"
#include "simd/tile_ops.hpp"

namespace mgi {

namespace {

// What a thread gathers before it appends to a stage buffer: enough rows to make the three atomic
// operations cheap, few enough to stay in the first-level cache.
constexpr std::uint32_t kStagedRows = 256;
constexpr std::uint32_t kStagedBytes = 8192;

}  // namespace

using device::relaxed;
using device::RoutingKind;

std::shared_ptr<ChannelImpl> ChannelImpl::create(std::uint32_t id, ChannelSpec spec, Schema schema,
                                                 Plan plan,
                                                 std::shared_ptr<memory::Account> account) {
    return std::shared_ptr<ChannelImpl>(new ChannelImpl(id, std::move(spec), std::move(schema),
                                                        std::move(plan), std::move(account)));
}

ChannelImpl::ChannelImpl(std::uint32_t id, ChannelSpec spec, Schema schema, Plan plan,
                         std::shared_ptr<memory::Account> account)
    : held(spec.destinations.size()),
      id_(id),
      spec_(std::move(spec)),
      schema_(std::move(schema)),
      plan_(std::move(plan)),
      layout_(schema_, spec_.options.layout, plan_.segment_rows, plan_.text_bytes),
      // Each lane's rows start at a multiple of 16 bytes in the carry's bytes region.
      carry_layout_(
          schema_, spec_.options.layout, plan_.tile_rows,
          plan_.text_bytes == 0 ? 0 : plan_.text_bytes + plan_.lanes * device::Ticket::kUnitBytes) {
    fill_in_state();
    plan_.segment_bytes = layout_.get().size;
    plan_.pool_bytes = pool_bytes();
    pool_ = std::make_unique<memory::Pool>(plan_.pool_bytes, layout_.get().size,
                                           spec_.options.receive_limit, std::move(account));
    state_.pool = pool_->base();
    memory::Carver carver(*pool_);
    build_sources(carver);
    build_destinations(carver);
}

std::string ChannelImpl::describe() const {
    std::string const number = "(" + std::to_string(id_) + ")";
    return spec_.options.name.empty() ? "channel " + number
                                      : "channel '" + spec_.options.name + "' " + number;
}

void ChannelImpl::fill_in_state() {
    state_.layout = layout_.get();
    state_.carry_layout = carry_layout_.get();
    for (std::string const& key : spec_.routing.keys) {
        keys_.push_back(static_cast<std::uint32_t>(schema_.index_of(key)));
    }
    for (Endpoint const& endpoint : spec_.destinations) destination_ids_.push_back(endpoint.id);
    state_.keys = keys_.data();
    state_.key_count = static_cast<std::uint32_t>(keys_.size());
    state_.routing = spec_.routing.kind;
    state_.hash =
        spec_.routing.hash == Hash::Modulo ? device::HashKind::Modulo : device::HashKind::Murmur3;
    state_.ordered = spec_.options.ordered;
    state_.by_reference = plan_.transfer == Transfer::ByReference;
    state_.source_count = static_cast<std::uint32_t>(spec_.sources.size());
    state_.destination_count = static_cast<std::uint32_t>(spec_.destinations.size());
    state_.lane_count = plan_.lanes;
    state_.tile_ops = &simd::tile_ops();
    state_.tile_rows = plan_.tile_rows;
    state_.chunk_rows = plan_.chunk_rows;
    state_.max_groups = plan_.max_groups;
    state_.destination_ids = destination_ids_.data();
}

std::uint64_t ChannelImpl::pool_bytes() const {
    using memory::Carver;
    std::uint64_t const segment = layout_.get().size;
    std::uint64_t const lanes = std::uint64_t{state_.source_count} * plan_.lanes;
    std::uint64_t bytes = lanes * plan_.slots * segment;
    if (!state_.by_reference) {
        bytes +=
            std::uint64_t{state_.source_count} * state_.destination_count * plan_.credits * segment;
    }
    std::uint64_t const group =
        Carver::piece(carry_layout_.get().size) +
        Carver::piece(std::uint64_t{plan_.lanes} * sizeof(device::u64)) +
        2 * Carver::piece(std::uint64_t{plan_.lanes} * sizeof(device::u32)) +
        Carver::piece(std::uint64_t{plan_.tile_rows} * sizeof(device::u16));
    return bytes + std::uint64_t{state_.source_count} * state_.max_groups * group;
}

template <class T>
T* ChannelImpl::table(std::size_t count) {
    T* const at = static_cast<T*>(tables_.allocate(count * sizeof(T), alignof(T)));
    std::uninitialized_value_construct_n(at, count);
    return at;
}

device::Slot<Words>* ChannelImpl::build_slots(memory::Carver& carver, std::uint32_t count) {
    auto* const slots = table<device::Slot<Words>>(count);
    for (std::uint32_t i = 0; i < count; ++i) {
        slots[i].sequence.store(i, relaxed);
        slots[i].offset = carver.take_bytes(layout_.get().size, layout_.get().bit_bytes);
    }
    return slots;
}

void ChannelImpl::build_sources(memory::Carver& carver) {
    state_.sources = table<device::Source<Words>>(state_.source_count);
    for (std::uint32_t s = 0; s < state_.source_count; ++s) {
        auto& source = state_.sources[s];
        source.lanes = table<device::Lane<Words>>(plan_.lanes);
        for (std::uint32_t l = 0; l < plan_.lanes; ++l) {
            source.lanes[l].slots = build_slots(carver, plan_.slots);
            source.lanes[l].mask = plan_.slots - 1;
            source.lanes[l].capacity = layout_.get().rows;
            source.lanes[l].units = layout_.get().units;
        }
        build_groups(carver, source);
    }
}

void ChannelImpl::build_groups(memory::Carver& carver, device::Source<Words>& source) {
    auto const& layout = carry_layout_.get();
    source.groups = table<device::GroupState<Words>>(state_.max_groups);
    for (std::uint32_t g = 0; g < state_.max_groups; ++g) {
        auto& group = source.groups[g];
        group.last = carver.take<device::u64>(plan_.lanes);
        group.carry_next = carver.take<device::u32>(plan_.lanes);
        group.carry_end = carver.take<device::u32>(plan_.lanes);
        group.carry_lane = carver.take<device::u16>(plan_.tile_rows);
        group.carry = state_.pool + carver.take_bytes(layout.size);
        auto* const columns = table<device::ColumnView>(layout.column_count);
        auto* const bytes = table<char const*>(1);
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

void ChannelImpl::build_destinations(memory::Carver& carver) {
    std::uint32_t const ring_size = state_.by_reference ? plan_.slots : plan_.credits;
    bool const shared = state_.routing == RoutingKind::Balance && state_.by_reference;
    bool const own_lane = plan_.lanes == state_.destination_count &&
                          state_.routing != RoutingKind::Broadcast &&
                          state_.routing != RoutingKind::Balance;
    state_.destinations = table<device::Destination<Words>>(state_.destination_count);
    for (std::uint32_t d = 0; d < state_.destination_count; ++d) {
        auto& destination = state_.destinations[d];
        destination.receivers = table<Words::System<device::u64>>(state_.max_groups);
        destination.rings = table<device::ReadRing<Words>>(state_.source_count);
        for (std::uint32_t s = 0; s < state_.source_count; ++s) {
            auto& ring = destination.rings[s];
            ring.size = ring_size;
            ring.clean = state_.by_reference;
            ring.slots = state_.by_reference ? state_.sources[s].lanes[own_lane ? d : 0].slots
                                             : build_slots(carver, ring_size);
        }
        if (shared && d != 0) {
            destination.queue = state_.destinations[0].queue;
            destination.counts = state_.destinations[0].counts;
            continue;
        }
        destination.counts = table<Words::System<device::u64>>(state_.source_count);
        destination.queue = table<device::ReceiveQueue<Words>>(1);
        std::uint32_t const entries = std::bit_ceil(state_.source_count * ring_size);
        destination.queue->entries = table<device::ReceiveQueue<Words>::Entry>(entries);
        destination.queue->mask = entries - 1;
    }
}

std::uint32_t ChannelImpl::source_index(Endpoint endpoint) const {
    auto const at = std::find(spec_.sources.begin(), spec_.sources.end(), endpoint);
    return at == spec_.sources.end() ? kNone : std::uint32_t(at - spec_.sources.begin());
}

std::uint32_t ChannelImpl::destination_index(Endpoint endpoint) const {
    auto const at = std::find(spec_.destinations.begin(), spec_.destinations.end(), endpoint);
    return at == spec_.destinations.end() ? kNone : std::uint32_t(at - spec_.destinations.begin());
}

void ChannelImpl::fail(ErrorCode code, std::string_view message, std::string_view cause) noexcept {
    {
        std::lock_guard const lock(mutex_);
        if (failed()) return;
        try {
            failure_ = describe() + ": ";
            failure_ += message;
            failure_ += cause;
        } catch (...) {
            failure_.clear();  // see throw_failure
        }
        // relaxed: calls look at the code alone; the reason is told under the mutex.
        state_.failed.store(static_cast<std::uint32_t>(code), relaxed);
        if (code != ErrorCode::Deleted) log::error("{}", failure_);
    }
    for (auto const& stage : stages_) stage->fail(code, message, cause);
    if (auto const staged = staged_for_.lock()) staged->fail(code, message, cause);
}

void ChannelImpl::add_staged_rows(std::shared_ptr<memory::Account> account) {
    std::uint32_t const row = layout_.get().row_bytes;
    if (layout_.get().has_views || row == 0 || row > kStagedBytes) return;
    std::uint32_t const rows = std::min(kStagedBytes / row, kStagedRows);
    std::uint64_t const threads =
        std::uint64_t{state_.max_groups} * device::ChannelState<Words>::kStagingThreads;
    staged_pool_ = std::make_unique<memory::Pool>(threads * rows * row, 0, 0, std::move(account));
    plan_.pool_bytes += staged_pool_->fixed_bytes();
    state_.staged = table<device::StagedRows>(threads);
    for (std::uint64_t t = 0; t < threads; ++t) {
        state_.staged[t].data = staged_pool_->base() + t * rows * row;
        state_.staged[t].capacity = rows;
    }
}

void ChannelImpl::add_seats(std::uint32_t sorters) {
    state_.seats = table<device::SorterSeat<Words>>(sorters);
    state_.seat_count = sorters;
}

void ChannelImpl::add_stages(std::vector<std::shared_ptr<ChannelImpl>> stages) {
    stages_ = std::move(stages);
    for (auto const& stage : stages_) {
        stage->staged_for_ = weak_from_this();
        stage_states_.push_back(&stage->state_);
    }
    state_.stages = stage_states_.data();
}

State const& ChannelImpl::given_as() const {
    auto const staged = staged_for_.lock();
    return staged == nullptr ? state_ : staged->state_;
}

bool ChannelImpl::has_sender(std::uint32_t source) const {
    std::lock_guard const lock(mutex_);
    return std::any_of(senders_.begin(), senders_.end(), [&](auto const& entry) {
        return entry.first.first == source && !entry.second.state.expired();
    });
}

bool ChannelImpl::has_receiver(std::uint32_t destination) const {
    if (held[destination].load(std::memory_order_relaxed) != 0) return true;
    std::lock_guard const lock(mutex_);
    return std::any_of(receivers_.begin(), receivers_.end(), [&](auto const& entry) {
        return entry.first.first == destination && !entry.second.state.expired();
    });
}

void ChannelImpl::throw_failure() const {
    std::lock_guard const lock(mutex_);
    throw Error(state_.error(), failure_.empty()
                                    ? "a channel failed, and there was no memory to say why"
                                    : failure_);
}

bool ChannelImpl::ended(std::uint32_t destination) const {
    auto const& at = state_.destinations[destination];
    std::uint64_t expected = 0;
    for (std::uint32_t s = 0; s < state_.source_count; ++s) {
        std::uint64_t const count = at.counts[s].load(relaxed);
        if (count == 0) return false;
        expected += count - 1;
    }
    return at.queue->taken() == expected;
}

bool ChannelImpl::complete() const {
    for (std::uint32_t d = 0; d < state_.destination_count; ++d) {
        if (!ended(d)) return false;
    }
    return true;
}

std::uint64_t ChannelImpl::progress() const {
    std::uint64_t sum = 0;
    for (std::uint32_t s = 0; s < state_.source_count; ++s) {
        auto const& source = state_.sources[s];
        sum += source.groups_flushed.load(relaxed);
        for (std::uint32_t l = 0; l < plan_.lanes; ++l) {
            sum +=
                source.lanes[l].published.load(relaxed) + source.lanes[l].delivered.load(relaxed);
        }
        for (std::uint32_t g = 0; g < state_.max_groups; ++g) {
            sum += source.groups[g].rows_accepted.load(relaxed);
        }
    }
    for (std::uint32_t d = 0; d < state_.destination_count; ++d) {
        sum += state_.destinations[d].rows_received.load(relaxed);
    }
    return sum;
}

ChannelStats ChannelImpl::stats() const {
    ChannelStats stats;
    stats.name = spec_.options.name;
    stats.memory_bytes = plan_.pool_bytes;
    stats.detached_bytes = pool_->taken_bytes();
    std::uint64_t row_bits = 0;
    for (Field const& field : schema_.fields()) {
        row_bits += field.type.id == TypeId::Bool ? 1 : 8 * field.type.row_width();
        row_bits += field.nullable ? 1 : 0;
    }
    bool const one_to_one = plan_.lanes == state_.destination_count;
    for (std::uint32_t s = 0; s < state_.source_count; ++s) {
        for (std::uint32_t l = 0; l < plan_.lanes; ++l) {
            auto const& lane = state_.sources[s].lanes[l];
            LaneStats one;
            one.source = spec_.sources[s].id;
            one.destination = spec_.destinations[one_to_one ? l : 0].id;
            one.rows = lane.rows_published.load(relaxed);
            one.bytes = (one.rows * row_bits + 7) / 8 +
                        lane.units_published.load(relaxed) * device::Ticket::kUnitBytes;
            one.segments = lane.published.load(relaxed);
            one.waits = lane.waits.load(relaxed);
            stats.rows += one.rows;
            stats.bytes += one.bytes;
            stats.segments += one.segments;
            stats.lanes.push_back(one);
        }
    }
    for (std::uint32_t d = 0; d < state_.destination_count; ++d) {
        auto const& destination = state_.destinations[d];
        stats.queues.push_back({spec_.destinations[d].id, destination.queue->pushed(),
                                destination.queue->taken(),
                                destination.rows_received.load(relaxed)});
    }
    return stats;
}

}  // namespace mgi
