#include "support/shared_channel.hpp"

#include <algorithm>

#include "runtime/channel_impl.hpp"
#include "runtime/gpu_sharing.hpp"
#include "runtime/runtime_impl.hpp"

namespace mgi::test {

Members::Members(std::uint32_t count, RuntimeOptions options, std::uint32_t servers)
    : servers_(std::min(servers, count)) {
    options.addresses = {"127.0.0.1"};
    for (std::uint32_t m = 0; m < count; ++m) runtimes_.emplace_back(Runtime::local(options));
}

Owned Members::create_endpoint(std::uint32_t member, std::string const& device) {
    // A runtime alone counts its endpoints from 0: those that others have are left out.
    Endpoint endpoint;
    do {
        endpoint = runtime(member).create_endpoint(device);
    } while (endpoint.id < next_endpoint_);
    next_endpoint_ = endpoint.id + 1;
    return {endpoint, member};
}

ChannelSpec Members::seen_from(std::uint32_t member, ChannelSpec spec,
                               std::vector<Owned> const& sources,
                               std::vector<Owned> const& destinations) {
    auto const seen = [&](Owned const& one) {
        return one.member == member ? one.endpoint
                                    : Endpoint{one.endpoint.id, Endpoint::kElsewhere};
    };
    for (Owned const& one : sources) spec.sources.push_back(seen(one));
    for (Owned const& one : destinations) spec.destinations.push_back(seen(one));
    return spec;
}

bool Members::is_on_gpu(Owned const& one) {
    return runtime(one.member).devices()[one.endpoint.device].kind == VertexKind::Gpu;
}

PartMembers Members::members_of(std::uint32_t member, std::vector<Owned> const& sources,
                                std::vector<Owned> const& destinations) {
    PartMembers members;
    for (Owned const& one : sources) {
        members.source_member.push_back(one.member);
        members.source_on_gpu.push_back(is_on_gpu(one));
    }
    for (Owned const& one : destinations) {
        members.destination_member.push_back(one.member);
        members.destination_on_gpu.push_back(is_on_gpu(one));
    }
    members.me = member;
    members.count = count();
    for (std::uint32_t m = 0; servers_ > 1 && m < count(); ++m) {
        members.server.push_back(m % servers_);
    }
    return members;
}

std::vector<Channel> Members::open(ChannelSpec const& spec, std::vector<Owned> const& sources,
                                   std::vector<Owned> const& destinations) {
    auto channels = open_only(spec, sources, destinations);
    for (Channel const& channel : channels) {
        if (auto const& crossing = channel.impl()->crossing()) crossing->begin();
    }
    return channels;
}

std::vector<Channel> Members::open_only(ChannelSpec const& spec, std::vector<Owned> const& sources,
                                        std::vector<Owned> const& destinations) {
    std::uint32_t const id = next_channel_++;
    auto const seen = [&](std::uint32_t m) { return seen_from(m, spec, sources, destinations); };
    std::vector<GpuDoor> doors(count());
    std::vector<std::string> names;
    for (GpuDoor const& door : doors) names.push_back(door.name());
    std::vector<GpuCard> cards(count());
    for (std::uint32_t m = 0; shares_gpus_ && m < count(); ++m) {
        cards[m] = gpu_card(seen(m), runtime(m).devices(), "here",
                            may_be_peers(seen(m), members_of(m, sources, destinations)));
        cards[m].door = doors[m].name();
    }
    auto const members = [&](std::uint32_t m) {
        PartMembers of = members_of(m, sources, destinations);
        note_cards(of, cards, seen(m));
        return of;
    };
    Runtime::Impl::Elsewhere elsewhere;
    if (servers_ > 1) {
        auto const& first = *runtime(0).impl();
        elsewhere.terms = Terms::of(members(0).in_place ? first.plan_for_peers(seen(0), members(0))
                                                        : first.plan_together(seen(0), members(0)));
        for (std::uint32_t m = 0; m < count(); ++m) {
            elsewhere.addresses.push_back(runtime(m).impl()->network().addresses());
        }
    }
    std::vector<Channel> channels;
    std::vector<int> parts;
    for (std::uint32_t m = 0; m < count(); ++m) {
        auto& impl = *runtime(m).impl();
        if (m < servers_) {
            auto const made = impl.make_part(id, seen(m), members(m), elsewhere);
            channels.push_back(made.channel);
            parts.push_back(made.descriptor);
        } else {
            int const part = parts[m % servers_];
            channels.push_back(impl.open_part(id, seen(m), members(m), part, elsewhere).value());
        }
    }
    if (members(0).on_gpus()) {
        std::vector<SharedGpus> shared;
        for (Channel const& channel : channels) shared.push_back(channel.impl()->share_gpus(names));
        for (std::uint32_t m = 0; m < count(); ++m) {
            auto const refused = channels[m].impl()->use_shared(shared, doors[m]);
            if (!refused.empty()) {
                throw Error(ErrorCode::Internal, refused.begin()->second);
            }
            if (members(m).in_place) runtime(m).impl()->complete_channel(channels[m].impl());
        }
    }
    return channels;
}

}  // namespace mgi::test
