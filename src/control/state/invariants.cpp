// What of the cluster's state agrees with what else between events: assertions of builds that have them.
#include <mgi/device/assert.hpp>

#include "control/state/cluster.hpp"

#if MGI_ASSERTIONS_ACTIVE
namespace mgi::control {

// All of it takes as long as there are records, so a large cluster's is checked after some events only.
void Cluster::check_invariants() const {
    constexpr std::size_t kEach = 64;
    std::size_t const records = servers_.size() + endpoints_.size() + channel_endpoints_of_.all();
    if ((counters_.messages + counters_.calls) % (1 + records / kEach) != 0) return;
    check_servers();
    check_endpoints();
    check_channels();
}

void Cluster::check_servers() const {
    MGI_ASSERT(server_names_.size() == servers_.size(), server_names_.size(), servers_.size());
    for (auto const& [id, server] : servers_) {
        auto const named = server_names_.find(server.name);
        MGI_ASSERT(server.id == id && named != server_names_.end() && named->second == id,
                   server.id, id, std::string_view(server.name));
        auto const session = sessions_.find(server.session);
        MGI_ASSERT(server.session == 0 || (session != sessions_.end() && session->second == id), id,
                   server.session);
        MGI_ASSERT(server.presence != Presence::Failed ||
                       (server.endpoints.empty() && server.created.empty() && server.session == 0),
                   id, server.endpoints.size(), server.created.size(), server.session);
        for (std::uint32_t endpoint : server.endpoints) {
            auto const known = endpoints_.find(endpoint);
            MGI_ASSERT(known != endpoints_.end() && known->second.server == id, id, endpoint);
        }
        for (std::uint32_t channel : server.channels) {
            auto const known = channels_.find(channel);
            MGI_ASSERT(known != channels_.end() && known->second.servers.contains(id), id, channel);
        }
        for (std::uint32_t channel : server.created) {
            auto const known = channels_.find(channel);
            MGI_ASSERT(known != channels_.end() && known->second.creator == id, id, channel);
        }
    }
    for (auto const& [session, agent] : sessions_) {
        auto const server = servers_.find(agent);
        MGI_ASSERT(agent == 0 || (server != servers_.end() && server->second.session == session),
                   session, agent);
    }
}

void Cluster::check_endpoints() const {
    std::map<std::string, std::size_t> owners;
    for (auto const& [id, endpoint] : endpoints_) ++owners[endpoint.owner];
    MGI_ASSERT(owners == endpoints_of_.by_owner(), owners.size(), endpoints_of_.all());
    for (auto const& [id, endpoint] : endpoints_) {
        auto const server = servers_.find(endpoint.server);
        MGI_ASSERT(server != servers_.end() && server->second.endpoints.contains(id), id,
                   endpoint.server);
        for (std::uint32_t channel : endpoint.channels) {
            MGI_ASSERT(channels_.contains(channel), id, channel);
        }
    }
    for (auto const& [request, id] : endpoint_requests_) {
        auto const endpoint = endpoints_.find(id);
        MGI_ASSERT(endpoint != endpoints_.end() && endpoint->second.request == request, id,
                   std::string_view(request));
    }
}

void Cluster::check_channels() const {
    std::map<std::string, std::size_t> owners;
    std::map<std::string, std::size_t> ends;
    std::map<std::string, std::size_t> creations;
    std::map<std::string, std::size_t> calls;
    std::size_t renewing = 0;
    for (auto const& [id, channel] : channels_) {
        MGI_ASSERT(channel.id == id, channel.id, id);
        check_channel(channel);
        ++owners[channel.owner];
        ends[channel.owner] += std::size_t(channel.spec.sources_size()) +
                               std::size_t(channel.spec.destinations_size());
        if (channel.next && channel.generation == 0) ++creations[channel.owner];
        if (!channel.calls.empty()) calls[channel.owner] += channel.calls.size();
        renewing += channel.next && channel.generation != 0 ? 1 : 0;
    }
    MGI_ASSERT(channels_of_.by_owner() == owners, channels_of_.all(), channels_.size());
    MGI_ASSERT(channel_endpoints_of_.by_owner() == ends, channel_endpoints_of_.all());
    MGI_ASSERT(creations_of_.by_owner() == creations, creations_of_.all());
    MGI_ASSERT(calls_of_.by_owner() == calls && calls_of_.all() == calls_.size(), calls_of_.all(),
               calls_.size());
    MGI_ASSERT(renewing_ == renewing, renewing_, renewing);
    for (auto const& [call, channel] : calls_) {
        auto const known = channels_.find(channel);
        MGI_ASSERT(known != channels_.end() && known->second.calls.contains(call), call, channel);
    }
    for (auto const& [request, id] : channel_requests_) {
        auto const channel = channels_.find(id);
        MGI_ASSERT(channel != channels_.end() && channel->second.request == request, id,
                   std::string_view(request));
    }
    for (Turns const* turns : {&to_renew_, &to_plan_}) {
        turns->for_each([&](std::string const& owner, std::uint32_t id, bool runs) {
            auto const channel = channels_.find(id);
            MGI_ASSERT(channel != channels_.end() && channel->second.owner == owner, id);
            if (turns == &to_renew_) return;
            MGI_ASSERT(channel->second.next && runs == (channel->second.generation != 0), id, runs);
        });
    }
    for (auto const& [endpoint, ids] : awaited_) {
        MGI_ASSERT(!endpoints_.contains(endpoint) && !ids.empty(), endpoint, ids.size());
        for (std::uint32_t id : ids) {
            auto const channel = channels_.find(id);
            MGI_ASSERT(channel != channels_.end() && channel->second.recovery &&
                           channel->second.recovery->missing.contains(endpoint),
                       endpoint, id);
        }
    }
}

void Cluster::check_channel(ChannelRecord const& channel) const {
    MGI_ASSERT(channel.generation <= channel.last_given, channel.id, channel.generation,
               channel.last_given);
    MGI_ASSERT(!channel.next || channel.next->generation == channel.last_given, channel.id,
               channel.next->generation, channel.last_given);
    MGI_ASSERT(!channel.recovery || (!channel.next && channel.generation == 0), channel.id,
               channel.generation);
    auto const creator = servers_.find(channel.creator);
    MGI_ASSERT(channel.creator == 0 ||
                   (creator != servers_.end() && creator->second.created.contains(channel.id)),
               channel.id, channel.creator);
    for (std::uint32_t id : channel.servers) {
        auto const server = servers_.find(id);
        MGI_ASSERT(server != servers_.end() && server->second.channels.contains(channel.id),
                   channel.id, id);
    }
    for (auto const* ends : {&channel.spec.sources(), &channel.spec.destinations()}) {
        for (std::uint32_t id : *ends) {
            auto const endpoint = endpoints_.find(id);
            bool const left = channel.left.contains(id);
            bool const here = endpoint != endpoints_.end() &&
                              endpoint->second.channels.contains(channel.id) &&
                              channel.servers.contains(endpoint->second.server);
            bool const missing = channel.recovery && channel.recovery->missing.contains(id);
            MGI_ASSERT(int(left) + int(here) + int(missing) == 1, channel.id, id, left, here,
                       missing);
        }
    }
}

}  // namespace mgi::control
#endif
