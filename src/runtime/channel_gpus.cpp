// What of a channel is on GPUs: its places there, what other processes copy into, sorters.
#include <algorithm>
#include <set>

#include "core/log.hpp"
#include "gpu/peers.hpp"
#include "runtime/channel_impl.hpp"
#include "runtime/crossing.hpp"

namespace mgi {

void ChannelImpl::add_places(std::vector<GpuMembers> const& gpus, Resources const& resources) {
    for (std::size_t i = 0; i < gpus.size(); ++i) {
        for (std::size_t j = 0; j < i; ++j) (void)gpu::connect_peers(gpus[i].gpu, gpus[j].gpu);
    }
    bool const between = is_between_processes();
    // See are_peers.
    bool const peers = between || (gpus.size() > 1 && plan_.transfer == Transfer::ByReference);
    Here const all = all_endpoints();
    auto const fill = [this](State& state) { fill_in(state, true); };
    State shape;
    fill(shape);
    gpu::free_let_go();  // may make room
    imports_ = resources.imported;
    if (imports_ != nullptr) imports_->prune();
    for (GpuMembers const& members : gpus) {
        auto const shared = between                              ? gpu::Shared::Mapped
                            : is_written_by_others(members.here) ? shared_as(members.gpu)
                                                                 : not_shared();
        places_.push_back(std::make_unique<GpuPlace>(
            members.gpu, members.here, far_of(members.here), shape, plan_, resources, shared,
            peers ? &all : nullptr, between ? proof_bytes() : 0));
        gpu_memories_->add(places_.back()->memory());
        if (!peers) places_.back()->build(table_source(spec_, plan_), fill);
        plan_.pool_bytes += places_.back()->pool_bytes();
    }
    if (between) return;
    if (peers) {
        std::vector<GpuPeer> own;
        for (auto const& place : places_) own.push_back({place->here(), place.get()});
        GpuPlace::build_peers(own, all, table_source(spec_, plan_), fill);
    }
    adopt_places();
}

// The host's state names what was built.
void ChannelImpl::adopt_places() {
    for (auto const& place : places_) {
        for (auto const s : place->here().sources) {
            state_.sources[s] = place->state().sources[s];
        }
        for (auto const d : place->here().destinations) {
            state_.destinations[d] = place->state().destinations[d];
        }
    }
}

// NICs reach plain memory of the driver's, but not all that a caller's allocator may have.
gpu::Shared ChannelImpl::not_shared() const {
    bool const with_nics = part_ != nullptr && part_->members().is_direct();
    return with_nics ? gpu::Shared::WithNics : gpu::Shared::Not;
}

gpu::Shared ChannelImpl::shared_as(int gpu) const {
    return part_->members().is_direct() ? gpu::Shared::Plainly : shared_kind(gpu);
}

// The endpoints to which links lead from a GPU that has these, by the host's memory. NICs reach all of a GPU's endpoints
// of one kind, or none.
Here ChannelImpl::far_of(Here const& here) const {
    Here far;
    if (!shared() || is_between_processes()) return far;
    PartMembers const& members = part_->members();
    for (std::uint32_t s = 0; s < members.source_member.size(); ++s) {
        // All destinations of a GPU are written by the same processes.
        bool const writes = !here.destinations.empty() &&
                            members.writes_into(mover_of(s), here.destinations.front());
        bool const direct =
            !here.destinations.empty() && members.is_direct(s, here.destinations.front());
        if (!is_own_source(s) && !writes && !direct) far.sources.push_back(s);
    }
    for (std::uint32_t d = 0; d < members.destination_member.size(); ++d) {
        if (is_own_destination(d) || members.writes_into(members.me, d)) continue;
        if (!here.sources.empty() && members.is_direct(here.sources.front(), d)) continue;
        far.destinations.push_back(d);
    }
    return far;
}

bool ChannelImpl::is_written_by_others(Here const& here) const {
    for (std::uint32_t s = 0; shared() && s < state_.source_count; ++s) {
        // All destinations of a GPU are written by the same processes.
        if (here.destinations.empty()) return false;
        if (part_->members().writes_into(mover_of(s), here.destinations.front())) return true;
    }
    return false;
}

SharedGpus ChannelImpl::share_gpus(std::vector<std::string> const& doors) {
    if (is_between_processes()) return share_places(doors);
    SharedGpus shared;
    PartMembers const& members = part_->members();
    importers_ = std::make_shared<GpuImporters>();
    std::set<std::uint32_t> to;
    std::vector<int> memories;
    for (auto const& place : places_) {
        if (!is_written_by_others(place->here())) continue;
        auto const number = std::uint32_t(shared.pools.size());
        for (std::uint32_t const d : place->here().destinations) {
            for (std::uint32_t s = 0; s < members.source_member.size(); ++s) {
                if (!members.writes_into(mover_of(s), d)) continue;
                auto const& ring = place->state().destinations[d].rings[s];
                shared.rings.push_back({number, s, d, ring.slots[0].offset});
                to.insert(mover_of(s));
            }
        }
        auto const& memory = place->share(importers_);
        SharedGpuPool& pool = shared.pools.emplace_back();
        pool.bytes = memory.shared_bytes();
        pool.mapped = memory.shared() == gpu::Shared::Mapped;
        if (pool.mapped) {
            pool.number = place->kept_number();
            memories.push_back(memory.descriptor());
        } else {
            pool.handle = memory.handle();
        }
    }
    for (std::uint32_t const m : to) {
        importers_->add(hand_over(doors.at(m), members.me, memories));
    }
    return shared;
}

std::map<std::uint32_t, std::string> ChannelImpl::use_shared(
    std::vector<SharedGpus> const& by_member, GpuDoor const& door) {
    PartMembers const& members = part_->members();
    std::map<std::uint32_t, std::string> refused;
    handed_ = door.all_that_came();
    if (is_between_processes()) return build_between(by_member);
    for (std::uint32_t m = 0; m < by_member.size(); ++m) {
        if (m == members.me) continue;
        try {
            use_shared(m, by_member[m], handed_[m]);
        } catch (NotSharedHere const& error) {
            refused[m] = error.what();
        }
    }
    for (auto& [m, handed] : handed_) handed.memories.clear();
    for (std::uint32_t s = 0; s < members.source_member.size(); ++s) {
        for (std::uint32_t d = 0; moves_source(s) && d < members.destination_member.size(); ++d) {
            std::uint32_t const m = members.destination_member[d];
            if (!members.writes_into(members.me, d) || refused.contains(m)) continue;
            if (crossing_->links().ring(s, d).is_set()) continue;
            throw Error(ErrorCode::Internal, describe() + ": " + members.name(m) +
                                                 " shares no memory for its destination " +
                                                 std::to_string(spec_.destinations[d].id));
        }
    }
    return refused;
}

void ChannelImpl::use_shared(std::uint32_t member, SharedGpus const& theirs,
                             GpuHandover const& handed) {
    PartMembers const& members = part_->members();
    std::uint64_t const stride = memory::Carver::piece(layout_.get().size);
    std::vector<char*> opened(theirs.pools.size());
    // Mapped pools' memories have come in their order.
    std::vector<Descriptor const*> memories;
    std::size_t mapped = 0;
    for (SharedGpuPool const& pool : theirs.pools) {
        bool const has_come = pool.mapped && mapped < handed.memories.size();
        memories.push_back(has_come ? &handed.memories[mapped] : nullptr);
        if (pool.mapped) ++mapped;
    }
    for (auto const& [number, source, destination, offset] : theirs.rings) {
        bool const possible = source < state_.source_count &&
                              destination < state_.destination_count && number < opened.size() &&
                              members.destination_member[destination] == member &&
                              members.writes_into(mover_of(source), destination) &&
                              offset <= theirs.pools[number].bytes &&
                              plan_.credits * stride <= theirs.pools[number].bytes - offset;
        if (!possible) {
            throw Error(ErrorCode::Internal, describe() + ": " + members.name(member) +
                                                 " shares GPU memory that is no ring of it");
        }
        if (!moves_source(source)) continue;
        SharedGpuPool const& pool = theirs.pools[number];
        char*& at = opened[number];
        if (at == nullptr) {
            auto const& memory = *imported_.emplace_back(import(pool, handed, memories[number]));
            at = memory.data();
            gpu_memories_->add({places_.front()->gpu(), at, pool.bytes, memory.on(), true});
        }
        crossing_->links().ring(source, destination).set(at + offset, stride);
    }
}

std::shared_ptr<gpu::ImportedMemory> ChannelImpl::import(SharedGpuPool const& pool,
                                                         GpuHandover const& handed,
                                                         Descriptor const* memory) const {
    try {
        if (!pool.mapped) {
            return std::make_shared<gpu::ImportedMemory>(places_.front()->gpu(), pool.handle);
        }
        if (memory == nullptr) throw NotSharedHere("its descriptor has not come");
        std::vector<int> gpus;
        for (auto const& place : places_) gpus.push_back(place->gpu());
        return imports_->take(pool.number, gpus, handed.connection, [&] {
            return std::make_unique<gpu::ImportedMemory>(gpus, memory->get(), pool.bytes);
        });
    } catch (Error const& error) {
        if (!is_refusal(error)) throw;
        throw NotSharedHere(error.what());
    }
}

// What may still be in use its owner does not give to another channel, and this process does not use again.
void ChannelImpl::let_go() noexcept {
    bool const over = std::none_of(places_.begin(), places_.end(),
                                   [](auto const& place) { return place->abandoned(); });
    for (auto const& memory : imported_) {
        if (!over && imports_ != nullptr) imports_->forget(*memory);
    }
    imported_.clear();
    for (auto const& [m, handed] : handed_) {
        if (over && handed.connection != nullptr) say_over(*handed.connection);
    }
    handed_.clear();
}

void ChannelImpl::add_relays(Graph const& graph, std::vector<Device> const& devices,
                             Resources const& resources) {
    if (places_.size() < 2 || plan_.transfer == Transfer::ByReference) return;
    GpuRelays::Between between;
    for (auto const& place : places_) {
        if (!place->here().sources.empty()) between.from.push_back(place->gpu());
        if (!place->here().destinations.empty()) between.to.push_back(place->gpu());
    }
    relays_ = std::make_unique<GpuRelays>(
        graph, devices, between,
        planner::PathRules{spec_.options.relay_gpus, spec_.options.relay_host, 0},
        layout_.get().size, resources, *gpu_memories_, describe());
    plan_.pool_bytes += relays_->bytes();
}

GpuPlace* ChannelImpl::place_of(Endpoint endpoint) const {
    std::uint32_t const source = source_index(endpoint);
    std::uint32_t const destination = destination_index(endpoint);
    for (auto const& place : places_) {
        Here const& here = place->here();
        if (std::binary_search(here.sources.begin(), here.sources.end(), source) ||
            std::binary_search(here.destinations.begin(), here.destinations.end(), destination)) {
            return place.get();
        }
    }
    return nullptr;
}

State& ChannelImpl::state_at(Endpoint endpoint) {
    GpuPlace const* const place = place_of(endpoint);
    return place == nullptr ? state_ : place->state();
}

State* ChannelImpl::given_at(Endpoint endpoint) {
    GpuPlace const* const place = place_of(endpoint);
    return place == nullptr ? &state_ : place->on_gpu();
}

State const* ChannelImpl::state_of(State const* given) const {
    if (given == &state_) return given;
    for (auto const& place : places_) {
        if (given == place->on_gpu()) return &place->state();
    }
    return nullptr;
}

template <class Refresh>
bool ChannelImpl::try_to(Refresh const& refresh) const noexcept {
    try {
        refresh();
        return true;
    } catch (std::exception const& error) {
        log::debug("{}: no look at its GPU: {}", describe(), error.what());
        return false;
    }
}

bool ChannelImpl::refresh() const noexcept {
    bool all = true;
    for (auto const& place : places_) all = try_to([&] { place->refresh(); }) && all;
    for (auto const& stage : stages_) all = (stage == nullptr || stage->refresh()) && all;
    return all;
}

void ChannelImpl::refresh_at(Endpoint endpoint) const noexcept {
    GpuPlace const* const place = place_of(endpoint);
    if (place == nullptr) return;
    (void)try_to([&] { place->refresh(); });
    std::uint32_t const source = source_index(endpoint);
    if (source < stages_.size() && stages_[source] != nullptr) (void)stages_[source]->refresh();
}

void ChannelImpl::refresh_words(std::uint32_t source) const noexcept {
    GpuPlace const* const place = place_of(spec_.sources[source]);
    if (place != nullptr) (void)try_to([&] { place->refresh_words(source); });
}

bool ChannelImpl::said_flushed(std::uint32_t source) const {
    GpuPlace const* const place = place_of(spec_.sources[source]);
    return place != nullptr && place->said_flushed(source);
}

bool ChannelImpl::wants_gpu_sorters(std::uint32_t source) const {
    auto const at = gpu_sorting_.find(source);
    return at != gpu_sorting_.end() && !at->second.started;
}

bool ChannelImpl::begin_gpu_sorters(std::uint32_t source) {
    auto const at = gpu_sorting_.find(source);
    return at != gpu_sorting_.end() && !at->second.started.exchange(true);
}

void ChannelImpl::forget_gpu_sorters(std::uint32_t source) {
    gpu_sorting_.at(source).started = false;
}

std::uint32_t* ChannelImpl::gpu_sorter_failures(std::uint32_t source) const {
    return reinterpret_cast<std::uint32_t*>(gpu_sorting_.at(source).failures.data());
}

}  // namespace mgi
