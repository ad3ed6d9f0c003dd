#include "control/agent/holdings.hpp"

#include <algorithm>
#include <utility>

#include <mgi/device/assert.hpp>

namespace mgi::control {

namespace {

std::size_t add_held(google::protobuf::RepeatedPtrField<HeldChannel>& channels, HeldPlans const& of,
                     ClusterPlan const& plan, bool committed) {
    HeldChannel& held = *channels.Add();
    *held.mutable_spec() = proto_of(plan.spec);
    held.set_id(plan.channel);
    held.set_generation(plan.generation);
    held.set_committed(committed);
    held.set_request(plan.request);
    held.set_owner(of.owner);
    held.set_creator(of.created);
    held.set_creator_left(of.creator_left);
    held.mutable_left()->Assign(of.left.begin(), of.left.end());
    return held.ByteSizeLong();
}

std::string wrong_generation(ClusterPlan const& plan) {
    if (plan.generation != 0 && plan.generation <= Holdings::kLastGeneration) return "";
    return "its generation, " + std::to_string(plan.generation) + ", is none that a channel has";
}

}  // namespace

std::size_t Holdings::endpoints_at(std::uint32_t vertex) const {
    return std::size_t(std::count_if(endpoints_.begin(), endpoints_.end(), [&](auto const& entry) {
        return entry.second.vertex == vertex;
    }));
}

std::vector<std::uint32_t> Holdings::endpoints_of(ApplicationId application) const {
    std::vector<std::uint32_t> ids;
    for (auto const& [id, place] : endpoints_) {
        if (place.application == application) ids.push_back(id);
    }
    return ids;
}

std::vector<std::uint32_t> Holdings::created_by(ApplicationId application) const {
    std::vector<std::uint32_t> ids;
    for (auto const& [id, held] : channels_) {
        if (held.creator == application) ids.push_back(id);
    }
    return ids;
}

std::set<ApplicationId> Holdings::parties(HeldPlans const& held) const {
    std::set<ApplicationId> applications;
    if (held.creator != 0) applications.insert(held.creator);
    ClusterPlan const* const plan = held.plan();
    if (plan == nullptr) return applications;
    for (auto const* ids : {&plan->spec.sources, &plan->spec.destinations}) {
        for (std::uint32_t const id : *ids) {
            auto const found = endpoints_.find(id);
            bool const there = found != endpoints_.end() && !held.left.contains(id);
            if (there) applications.insert(found->second.application);
        }
    }
    return applications;
}

std::set<std::uint32_t> Holdings::endpoints_in(HeldPlans const& held,
                                               ApplicationId application) const {
    std::set<std::uint32_t> ids;
    ClusterPlan const* const plan = held.plan();
    if (plan == nullptr) return ids;
    for (auto const* of : {&plan->spec.sources, &plan->spec.destinations}) {
        for (std::uint32_t const id : *of) {
            auto const found = endpoints_.find(id);
            bool const there = found != endpoints_.end() && !held.left.contains(id);
            if (there && found->second.application == application) ids.insert(id);
        }
    }
    return ids;
}

bool Holdings::has_endpoint_of(ClusterChannelSpec const& spec) const {
    auto const here = [&](std::uint32_t id) { return endpoints_.contains(id); };
    return std::any_of(spec.sources.begin(), spec.sources.end(), here) ||
           std::any_of(spec.destinations.begin(), spec.destinations.end(), here);
}

std::string Holdings::wrong_owner(ClusterPlan const& plan, std::string const& owner) const {
    auto const held = channels_.find(plan.channel);
    if (held != channels_.end() && held->second.owner != owner) return "it is somebody else's";
    for (auto const* ids : {&plan.spec.sources, &plan.spec.destinations}) {
        for (std::uint32_t const id : *ids) {
            auto const found = endpoints_.find(id);
            if (found == endpoints_.end() || found->second.owner == owner) continue;
            return "endpoint " + std::to_string(id) + " is somebody else's";
        }
    }
    return "";
}

std::string Holdings::prepare(ClusterPlan plan, std::string const& owner) {
    if (!has_endpoint_of(plan.spec)) return "none of its endpoints is here (any more)";
    std::string wrong = wrong_owner(plan, owner);
    if (!wrong.empty()) return wrong;
    auto const found = channels_.find(plan.channel);
    if (found != channels_.end() && found->second.running &&
        found->second.running->generation > plan.generation) {
        return "its plan of generation " + std::to_string(found->second.running->generation) +
               " runs here already";
    }
    HeldPlans& held = channels_[plan.channel];
    held.owner = owner;
    held.prepared = std::move(plan);
    held.told = true;
    return "";
}

ClusterPlan const* Holdings::commit(std::uint32_t channel, std::uint64_t generation) {
    auto const found = channels_.find(channel);
    if (found == channels_.end()) return nullptr;
    HeldPlans& held = found->second;
    if (!held.prepared || held.prepared->generation != generation) return nullptr;
    MGI_ASSERT(held.prepared->channel == channel && generation != 0, channel, generation,
               held.prepared->channel);
    held.running = std::move(held.prepared);
    held.prepared.reset();
    held.awaited.reset();
    return &*held.running;
}

void Holdings::abort(std::uint32_t channel, std::uint64_t generation) {
    auto const found = channels_.find(channel);
    if (found == channels_.end()) return;
    HeldPlans& held = found->second;
    if (held.prepared && held.prepared->generation == generation) held.prepared.reset();
    if (!held.running && !held.prepared && !held.created) channels_.erase(found);
}

std::string Holdings::announce(ClusterPlan plan, ApplicationId creator, std::string const& owner) {
    std::string why = wrong_generation(plan);
    if (why.empty()) why = wrong_owner(plan, owner);
    if (!why.empty()) return why;
    HeldPlans& held = channels_[plan.channel];
    held.owner = owner;
    if (creator != 0 && held.creator != creator) {
        held.creator = creator;
        held.created = true;
        held.told = false;
    }
    if (held.running && held.running->generation >= plan.generation) return "";
    held.running = std::move(plan);
    held.awaited.reset();
    held.told = false;
    return "";
}

std::string Holdings::created(ClusterPlan plan, ApplicationId creator, std::string const& owner) {
    std::string why = wrong_generation(plan);
    if (why.empty()) why = wrong_owner(plan, owner);
    if (!why.empty()) return why;
    bool const gets_plans = has_endpoint_of(plan.spec);
    HeldPlans& held = channels_[plan.channel];
    held.owner = owner;
    held.creator = creator;
    held.created = true;
    if (!gets_plans) return announce(std::move(plan), creator, owner);
    if (held.running || held.prepared) return "";
    plan.generation = 0;
    held.awaited = std::move(plan);
    return "";
}

bool Holdings::leave(std::uint32_t channel, ApplicationId application) {
    HeldPlans& held = channels_.at(channel);
    std::set<std::uint32_t> const own = endpoints_in(held, application);
    bool const creator = held.creator == application;
    held.left.insert(own.begin(), own.end());
    held.leavers.insert(application);
    if (creator) note_creator_left(channel);
    return creator || !own.empty();
}

void Holdings::note_left(std::uint32_t channel, std::vector<std::uint32_t> const& endpoints) {
    HeldPlans* const held = find(channel);
    if (held == nullptr) return;
    held->left.insert(endpoints.begin(), endpoints.end());
}

void Holdings::note_creator_left(std::uint32_t channel) {
    HeldPlans* const held = find(channel);
    if (held == nullptr) return;
    held->creator = 0;
    held->created = false;
    held->creator_left = true;
}

HeldPlans* Holdings::find(std::uint32_t id) {
    auto const found = channels_.find(id);
    return found == channels_.end() ? nullptr : &found->second;
}

HeldPlans const* Holdings::channel(std::uint32_t id) const {
    auto const found = channels_.find(id);
    return found == channels_.end() ? nullptr : &found->second;
}

void Holdings::forget_told() {
    for (auto& [id, place] : endpoints_) place.told = false;
    for (auto& [id, channel] : channels_) channel.told = false;
}

bool Holdings::tell(std::size_t most_bytes,
                    std::function<std::string(ApplicationId)> const& name_of,
                    google::protobuf::RepeatedPtrField<HeldEndpoint>& endpoints,
                    google::protobuf::RepeatedPtrField<HeldChannel>& channels) {
    std::size_t bytes = 0;
    for (auto& [id, place] : endpoints_) {
        if (place.told) continue;
        if (bytes >= most_bytes) return false;
        place.told = true;
        HeldEndpoint& held = *endpoints.Add();
        held.set_id(id);
        held.set_vertex(place.vertex);
        held.set_application(name_of(place.application));
        held.set_owner(place.owner);
        bytes += held.ByteSizeLong();
    }
    for (auto& [id, channel] : channels_) {
        if (channel.told) continue;
        if (bytes >= most_bytes) return false;
        channel.told = true;
        if (channel.running) bytes += add_held(channels, channel, *channel.running, true);
        if (channel.prepared) bytes += add_held(channels, channel, *channel.prepared, false);
        if (channel.awaited) bytes += add_held(channels, channel, *channel.awaited, true);
    }
    return true;
}

ChannelSpec proto_of(ClusterChannelSpec const& spec) {
    ChannelSpec proto;
    proto.set_name(spec.name);
    proto.mutable_sources()->Assign(spec.sources.begin(), spec.sources.end());
    proto.mutable_destinations()->Assign(spec.destinations.begin(), spec.destinations.end());
    proto.set_routing(spec.routing);
    proto.set_schema(spec.schema);
    proto.set_options(spec.options);
    proto.set_relay_gpus(spec.relay_gpus);
    proto.set_relay_host(spec.relay_host);
    proto.set_max_nics(spec.max_nics);
    return proto;
}

ClusterChannelSpec spec_of(ChannelSpec const& proto) {
    ClusterChannelSpec spec;
    spec.name = proto.name();
    spec.sources.assign(proto.sources().begin(), proto.sources().end());
    spec.destinations.assign(proto.destinations().begin(), proto.destinations().end());
    spec.routing = proto.routing();
    spec.schema = proto.schema();
    spec.options = proto.options();
    spec.relay_gpus = proto.relay_gpus();
    spec.relay_host = proto.relay_host();
    spec.max_nics = proto.max_nics();
    return spec;
}

}  // namespace mgi::control
