// What of a channel is on GPUs: its places there, what other processes copy into, sorters.
#include <algorithm>

#include "runtime/channel_impl.hpp"
#include "runtime/crossing.hpp"

namespace mgi {

void ChannelImpl::add_place(GpuMembers const& members,
                            std::shared_ptr<memory::Account> const& account) {
    State shape;
    fill_in(shape, true);
    auto& place = *places_.emplace_back(std::make_unique<GpuPlace>(
        members.gpu, members.here, far_of(members.here), shape, plan_, account));
    gpu_memories_->add(place.memory());
    fill_in(place.state(), true);
    place.build(plan_);
    plan_.pool_bytes += place.pool_bytes();
    for (std::uint32_t const s : members.here.sources) {
        state_.sources[s] = place.state().sources[s];
    }
    for (std::uint32_t const d : members.here.destinations) {
        state_.destinations[d] = place.state().destinations[d];
    }
}

// The endpoints to which links lead from a GPU that has these.
Here ChannelImpl::far_of(Here const& here) const {
    Here far;
    if (!shared()) return far;
    PartMembers const& members = part_->members();
    for (std::uint32_t s = 0; s < members.source_member.size(); ++s) {
        // All destinations of a GPU are written by the same processes.
        bool const writes = !here.destinations.empty() &&
                            members.writes_into(mover_of(s), here.destinations.front());
        if (!is_own_source(s) && !writes) far.sources.push_back(s);
    }
    for (std::uint32_t d = 0; d < members.destination_member.size(); ++d) {
        if (is_own_destination(d) || members.writes_into(members.me, d)) continue;
        far.destinations.push_back(d);
    }
    return far;
}

SharedGpus ChannelImpl::share_gpus() const {
    SharedGpus shared;
    PartMembers const& members = part_->members();
    for (auto const& place : places_) {
        auto const pool = std::uint32_t(shared.pools.size());
        for (std::uint32_t const d : place->here().destinations) {
            for (std::uint32_t s = 0; s < members.source_member.size(); ++s) {
                if (!members.writes_into(mover_of(s), d)) continue;
                auto const& ring = place->state().destinations[d].rings[s];
                shared.rings.push_back({pool, s, d, ring.slots[0].offset});
            }
        }
        if (shared.rings.empty() || shared.rings.back().pool != pool) continue;
        shared.pools.push_back({place->share(), place->memory().bytes});
    }
    return shared;
}

void ChannelImpl::use_shared(std::vector<SharedGpus> const& by_member) {
    PartMembers const& members = part_->members();
    for (std::uint32_t m = 0; m < by_member.size(); ++m) {
        if (m != members.me) use_shared(m, by_member[m]);
    }
    for (std::uint32_t s = 0; s < members.source_member.size(); ++s) {
        for (std::uint32_t d = 0; moves_source(s) && d < members.destination_member.size(); ++d) {
            if (!members.writes_into(members.me, d)) continue;
            if (crossing_->links().ring(s, d).is_set()) continue;
            throw Error(ErrorCode::Internal, describe() + ": " +
                                                 members.name(members.destination_member[d]) +
                                                 " shares no memory for its destination " +
                                                 std::to_string(spec_.destinations[d].id));
        }
    }
}

void ChannelImpl::use_shared(std::uint32_t member, SharedGpus const& theirs) {
    PartMembers const& members = part_->members();
    std::uint64_t const stride = memory::Carver::piece(layout_.get().size);
    std::vector<char*> opened(theirs.pools.size());
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
            int const by = places_.front()->gpu();
            imported_.push_back(std::make_unique<gpu::ImportedMemory>(by, pool.handle));
            at = imported_.back()->data();
            gpu_memories_->add({by, at, pool.bytes, imported_.back()->on(), true});
        }
        crossing_->links().ring(source, destination).set(at + offset, stride);
    }
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

bool ChannelImpl::has_state(State const* state) const {
    return state == &state_ || std::any_of(places_.begin(), places_.end(), [&](auto const& place) {
               return state == &place->state();
           });
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
