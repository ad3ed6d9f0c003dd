#include "runtime/channel_impl.hpp"

#include <algorithm>
#include <iterator>
#include <new>

#include "core/log.hpp"
#include "core/ordering.hpp"
#include "planner/sizes.hpp"
#include "runtime/checks.hpp"
#include "runtime/crossing.hpp"
#include "runtime/gpu_channels.hpp"
#include "runtime/host_groups.hpp"
#include "runtime/progress.hpp"
#include "simd/tile_ops.hpp"

namespace mgi {

namespace {

// What a thread gathers before it appends to a stage buffer: enough rows to make the three atomic
// operations cheap, few enough to stay in the first-level cache.
constexpr std::uint32_t kStagedRows = 256;
constexpr std::uint32_t kStagedBytes = 8192;

Here here_of(ChannelSpec const& spec, std::optional<ChannelImpl::Sharing> const& sharing) {
    auto const list = [&](std::size_t count, auto const& member_of) {
        std::vector<std::uint32_t> here;
        for (std::uint32_t i = 0; i < count; ++i) {
            if (!sharing || sharing->members.is_here(member_of(sharing->members)[i])) {
                here.push_back(i);
            }
        }
        return here;
    };
    using Members = std::vector<std::uint32_t>;
    return {list(spec.sources.size(),
                 [](PartMembers const& all) -> Members const& { return all.source_member; }),
            list(spec.destinations.size(),
                 [](PartMembers const& all) -> Members const& { return all.destination_member; })};
}

// What is not on GPUs.
Here rest_of(Here const& all, std::vector<GpuMembers> const& gpus) {
    Here rest = all;
    for (GpuMembers const& members : gpus) {
        auto const take = [](std::vector<std::uint32_t>& from,
                             std::vector<std::uint32_t> const& out) {
            std::vector<std::uint32_t> left;
            std::set_difference(from.begin(), from.end(), out.begin(), out.end(),
                                std::back_inserter(left));
            from.swap(left);
        };
        take(rest.sources, members.here.sources);
        take(rest.destinations, members.here.destinations);
    }
    return rest;
}

std::vector<std::uint32_t> key_columns(ChannelSpec const& spec, Schema const& schema) {
    std::vector<std::uint32_t> columns;
    for (std::string const& key : spec.routing.keys) {
        columns.push_back(static_cast<std::uint32_t>(schema.index_of(key)));
    }
    return columns;
}

std::vector<device::KeyOrder> range_keys(ChannelSpec const& spec, Schema const& schema) {
    if (spec.routing.kind != device::RoutingKind::Range) return {};
    return key_orders(name_of(spec), spec.routing.order, schema);
}

std::vector<std::uint32_t> ids_of(std::vector<Endpoint> const& endpoints) {
    std::vector<std::uint32_t> ids;
    for (Endpoint const& endpoint : endpoints) ids.push_back(endpoint.id);
    return ids;
}

}  // namespace

using device::relaxed;

std::shared_ptr<ChannelImpl> ChannelImpl::create(std::uint32_t id, ChannelSpec spec, Schema schema,
                                                 Plan plan, Resources const& resources,
                                                 std::optional<Sharing> sharing,
                                                 std::vector<GpuMembers> const& gpus) {
    return std::shared_ptr<ChannelImpl>(new ChannelImpl(id, std::move(spec), std::move(schema),
                                                        std::move(plan), resources,
                                                        std::move(sharing), gpus));
}

ChannelImpl::ChannelImpl(std::uint32_t id, ChannelSpec spec, Schema schema, Plan plan,
                         Resources const& resources, std::optional<Sharing> sharing,
                         std::vector<GpuMembers> const& gpus)
    : held(spec.destinations.size()),
      id_(id),
      spec_(std::move(spec)),
      schema_(std::move(schema)),
      plan_(std::move(plan)),
      layout_(schema_, spec_.options.layout, plan_.segment_rows, plan_.text_bytes),
      carry_layout_(schema_, spec_.options.layout, plan_.tile_rows,
                    plan_.text_bytes == 0
                        ? 0
                        : std::uint32_t(planner::carry_text_bytes(plan_.text_bytes, plan_.lanes))),
      keys_(key_columns(spec_, schema_)),
      owners_(spec_.routing.owners.begin(), spec_.routing.owners.end()),
      range_keys_(range_keys(spec_, schema_)),
      destination_ids_(ids_of(spec_.destinations)),
      here_(here_of(spec_, sharing)) {
    fill_in(state_, false);
    plan_.segment_bytes = layout_.get().size;
    Here const here = rest_of(here_, gpus);
    ChannelTables tables(state_, plan_, here);
    plan_.pool_bytes = tables.pool_bytes();
    if (sharing) {
        share(tables, std::move(*sharing), resources.account);
    } else {
        build(tables, resources.account);
    }
    if (!gpus.empty() && pool_ != nullptr && pool_->fixed_bytes() != 0) {
        pinned_ = std::make_unique<gpu::PinnedRange>(gpus.front().gpu, pool_->base(),
                                                     pool_->fixed_bytes());
    }
    if (!gpus.empty()) add_places(gpus, resources);
}

// In this process alone.
void ChannelImpl::build(ChannelTables& tables, std::shared_ptr<memory::Account> account) {
    tables_ = std::make_unique<std::pmr::monotonic_buffer_resource>(tables.bytes());
    if (plan_.pool_bytes != 0) {
        pool_ = std::make_unique<memory::Pool>(plan_.pool_bytes, layout_.get().size,
                                               spec_.options.receive_limit, std::move(account));
        state_.pool = pool_->base();
    }
    memory::Carver carver(state_.pool, plan_.pool_bytes, pool_ == nullptr || pool_->is_zero());
    tables.build(*tables_, carver);
}

void ChannelImpl::set_failed(ErrorCode code) {
    // relaxed: calls look at the code alone; the reason is told under the mutex.
    state_.failed.store(static_cast<std::uint32_t>(code), relaxed);
    for (auto const& place : places_) {
        try {
            place->set_failed(code);
        } catch (std::exception const& error) {
            // The GPU's context is lost, and its kernels with it.
            log::warn("{}: no word of its failure for its kernels: {}", describe(), error.what());
        }
    }
}

void ChannelImpl::share(ChannelTables& tables, Sharing sharing,
                        std::shared_ptr<memory::Account> account) {
    std::uint64_t const segment = layout_.get().size;
    std::uint64_t const limit = spec_.options.receive_limit;
    PartSizes const sizes{tables.bytes(), plan_.pool_bytes, limit / segment * segment};
    bool const found = sharing.found != nullptr;
    part_ = found ? std::move(sharing.found)
                  : Part::create(id_, std::move(sharing.members), plan_, limit, sizes);
    part_->check(sizes);
    pool_ = std::make_unique<memory::Pool>(part_->pool(), plan_.pool_bytes, segment, limit,
                                           std::move(account));
    tables_ = std::make_unique<std::pmr::monotonic_buffer_resource>(
        part_->tables(), sizes.tables, std::pmr::null_memory_resource());
    state_.pool = pool_->base();
    if (found) return tables.find(*tables_);
    memory::Carver carver(pool_->base(), pool_->fixed_bytes(), pool_->is_zero());
    tables.build(*tables_, carver);
}

std::string ChannelImpl::describe() const {
    std::string const number = "(" + std::to_string(id_) + ")";
    return spec_.options.name.empty() ? "channel " + number
                                      : "channel '" + spec_.options.name + "' " + number;
}

void ChannelImpl::fill_in(State& state, bool on_gpu) const {
    state.layout = layout_.get();
    state.carry_layout = carry_layout_.get();
    state.keys = keys_.data();
    state.key_count = static_cast<std::uint32_t>(keys_.size());
    state.part_count = static_cast<std::uint32_t>(owners_.size());
    state.owners = owners_.empty() ? nullptr : owners_.data();
    state.range = range_table(range_keys_, spec_.routing.splitters);
    state.routing = spec_.routing.kind;
    state.hash =
        spec_.routing.hash == Hash::Modulo ? device::HashKind::Modulo : device::HashKind::Murmur3;
    state.ordered = spec_.options.ordered;
    state.source_count = static_cast<std::uint32_t>(spec_.sources.size());
    state.destination_count = static_cast<std::uint32_t>(spec_.destinations.size());
    state.lane_count = plan_.lanes;
    state.tile_ops = on_gpu ? nullptr : &simd::tile_ops();
    state.tile_rows = plan_.tile_rows;
    if (on_gpu) stage_tiles(state);
    state.chunk_rows = plan_.chunk_rows;
    state.max_groups = plan_.max_groups;
    state.takes_ahead = !is_stage(spec_);
    state.destination_ids = destination_ids_.data();
}

void ChannelImpl::set_progress(std::shared_ptr<Progress> progress) {
    progress_ = std::move(progress);
    state_.progress = progress_->hook();
}

std::uint32_t ChannelImpl::source_index(Endpoint endpoint) const {
    auto const at = std::find(spec_.sources.begin(), spec_.sources.end(), endpoint);
    return at == spec_.sources.end() ? kNone : std::uint32_t(at - spec_.sources.begin());
}

std::uint32_t ChannelImpl::destination_index(Endpoint endpoint) const {
    auto const at = std::find(spec_.destinations.begin(), spec_.destinations.end(), endpoint);
    return at == spec_.destinations.end() ? kNone : std::uint32_t(at - spec_.destinations.begin());
}

void ChannelImpl::say_failure(std::string_view message, std::string_view cause) noexcept {
    try {
        failure_ = describe();
        if (shared()) failure_ += ", " + part_->members().name(part_->members().me);
        failure_ += ": ";
        failure_ += message;
        failure_ += cause;
    } catch (...) {
        failure_.clear();  // see throw_failure
    }
}

void ChannelImpl::fail(ErrorCode code, std::string_view message, std::string_view cause) noexcept {
    {
        std::unique_lock lock(mutex_);
        if (failed()) return;
        say_failure(message, cause);
        if (shared() && !part_->fail(code, failure_)) {
            lock.unlock();
            adopt_failure();  // another process was first
            return;
        }
        set_failed(code);
        if (code != ErrorCode::Deleted) log::error("{}", failure_);
    }
    tell_servers();
    fail_others(message, cause);
}

void ChannelImpl::tell_servers() noexcept {
    if (crossing_ == nullptr) return;
    try {
        crossing_->links().say_failure(state_.error(), failure_text());
    } catch (...) {
        // Without memory for a word; they hear of it when the link ends.
        log::warn("{} failed, and other servers could not be told yet", describe());
    }
}

bool ChannelImpl::adopt_failure() noexcept {
    if (!shared() || part_->error() == ErrorCode::Ok) return false;
    {
        std::lock_guard const lock(mutex_);
        if (failed()) return true;
        try {
            failure_ = part_->failure_text();
        } catch (...) {
            failure_.clear();
        }
        set_failed(part_->error());
        if (state_.error() != ErrorCode::Deleted) log::error("{}", failure_);
    }
    tell_servers();
    fail_others("the channel behind it has failed", {});
    return true;
}

void ChannelImpl::close_here(std::string_view message) noexcept {
    {
        std::lock_guard const lock(mutex_);
        if (failed()) return;
        say_failure(message, {});
        set_failed(ErrorCode::Deleted);
    }
    fail_others(message, {});
}

// Stages fail with the channel that they are for, and it with them.
void ChannelImpl::fail_others(std::string_view message, std::string_view cause) noexcept {
    for (auto const& stage : stages_) {
        if (stage != nullptr) stage->fail(state_.error(), message, cause);
    }
    if (auto const staged = staged_for_.lock()) staged->fail(state_.error(), message, cause);
}

void ChannelImpl::add_staged_rows(std::shared_ptr<memory::Account> account) {
    std::uint32_t const row = layout_.get().row_bytes;
    if (layout_.get().has_views || row == 0 || row > kStagedBytes) return;
    std::uint32_t const rows = std::min(kStagedBytes / row, kStagedRows);
    std::uint64_t const threads =
        std::uint64_t{state_.max_groups} * device::ChannelState<Words>::kStagingThreads;
    staged_pool_ = std::make_unique<memory::Pool>(threads * rows * row, 0, 0, std::move(account));
    plan_.pool_bytes += staged_pool_->fixed_bytes();
    state_.staged = make_table<device::StagedRows>(*tables_, threads);
    for (std::uint64_t t = 0; t < threads; ++t) {
        state_.staged[t].data = staged_pool_->base() + t * rows * row;
        state_.staged[t].capacity = rows;
    }
}

void ChannelImpl::add_seats(std::uint32_t sorters) {
    state_.seats = make_table<device::SorterSeat<Words>>(*tables_, sorters);
    state_.seat_count = sorters;
}

void ChannelImpl::add_stages(std::vector<std::shared_ptr<ChannelImpl>> stages) {
    stages_ = std::move(stages);
    for (auto const& stage : stages_) {
        if (stage != nullptr) stage->staged_for_ = weak_from_this();
    }
    std::vector<std::uint32_t> here;
    for (std::uint32_t s = 0; s < stages_.size(); ++s) {
        if (stages_[s] == nullptr) continue;
        if (!is_on_gpu(spec_.sources[s])) {
            here.push_back(s);
            continue;
        }
        int const gpu = place_of(spec_.sources[s])->gpu();
        gpu_sorting_.try_emplace(s, gpu, spec_.options.sorters);
    }
    stage_states_ = stage_table(here);
    if (!here.empty()) state_.stages = stage_states_.data();
    for (auto const& place : places_) {
        auto const& sources = place->here().sources;
        if (sources.empty()) continue;
        place->set_stages(stage_table(sources), stage_table(sources, true));
    }
}

// Stages of sources by their indices. Nobody sends there at sources elsewhere, which get the first of those
// here, since it is where scratch is measured.
// As they are given, or their images.
std::vector<State*> ChannelImpl::stage_table(std::vector<std::uint32_t> const& here, bool given) {
    std::vector<State*> states;
    if (here.empty()) return states;
    auto const state_of = [&](std::uint32_t s) {
        Endpoint const source = spec_.sources[s];
        return given ? stages_[s]->given_at(source) : &stages_[s]->state_at(source);
    };
    states.assign(stages_.size(), state_of(here.front()));
    for (std::uint32_t const s : here) states[s] = state_of(s);
    return states;
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

std::string ChannelImpl::failure_text() const {
    std::lock_guard const lock(mutex_);
    return failure_;
}

void ChannelImpl::throw_failure() const {
    std::string const text = failure_text();
    throw Error(state_.error(),
                text.empty() ? "a channel failed, and there was no memory to say why" : text);
}

bool ChannelImpl::is_own_source(std::uint32_t source) const {
    return !shared() || part_->members().source_member[source] == part_->members().me;
}

bool ChannelImpl::is_own_destination(std::uint32_t destination) const {
    return !shared() || part_->members().destination_member[destination] == part_->members().me;
}

std::uint32_t ChannelImpl::mover_of(std::uint32_t source) const {
    // One mover makes the one order.
    return part_->members().source_member[state_.one_order() ? 0 : source];
}

bool ChannelImpl::moves_source(std::uint32_t source) const {
    return !shared() || mover_of(source) == part_->members().me;
}

}  // namespace mgi
