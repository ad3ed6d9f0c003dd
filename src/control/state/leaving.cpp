// Endpoints that leave a channel: it does without them, and is over when all have left it.
#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "control/state/cluster.hpp"
#include "core/log.hpp"

namespace mgi::control {

void Cluster::channel_left(ServerRecord& server, ChannelLeft const& message, Effects& effects) {
    auto const found = channels_.find(message.channel());
    if (found == channels_.end()) return;  // its end was told, or will be
    if (message.creator()) creator_left(found->second, server, effects);
    std::set<std::uint32_t> own;
    for (std::uint32_t id : message.endpoints()) {
        auto const endpoint = endpoints_.find(id);
        if (endpoint != endpoints_.end() && endpoint->second.server == server.id) own.insert(id);
    }
    leave(found->second, own, effects);
}

void Cluster::creator_left(ChannelRecord& channel, ServerRecord& server, Effects& effects) {
    if (channel.creator != server.id) return;
    channel.creator = 0;
    server.created.erase(channel.id);
    if (!channel.servers.contains(server.id)) detach(channel, server.id, effects);
}

// The channel may be gone afterwards.
void Cluster::leave(ChannelRecord& channel, std::set<std::uint32_t> const& endpoints,
                    Effects& effects) {
    std::vector<std::uint32_t> gone;
    std::set<std::uint32_t> of;  // servers
    for (std::uint32_t id : endpoints) {
        auto const known = endpoints_.find(id);
        if (known != endpoints_.end() && known->second.channels.erase(channel.id) != 0) {
            of.insert(known->second.server);
        } else if (channel.recovery && channel.recovery->missing.erase(id) != 0) {
            auto const awaited = awaited_.find(id);
            awaited->second.erase(channel.id);
            if (awaited->second.empty()) awaited_.erase(awaited);
        } else {
            continue;
        }
        channel.left.insert(id);
        gone.push_back(id);
    }
    if (gone.empty()) return;
    log::info("controller: channel {}: {} endpoints have left it, {} in all", channel.id,
              gone.size(), channel.left.size());
    for (std::uint32_t agent : of) {
        ServerRecord const& server = servers_.at(agent);
        bool const stays = std::any_of(
            server.endpoints.begin(), server.endpoints.end(),
            [&](std::uint32_t id) { return endpoints_.at(id).channels.contains(channel.id); });
        if (!stays) detach(channel, agent, effects);
    }
    bool const all =
        channel.servers.empty() && (!channel.recovery || channel.recovery->missing.empty());
    if (all) return end(channel, false, Problem::Aborted, "all have left it", effects);
    ControllerMessage message;
    message.mutable_channel_left()->set_channel(channel.id);
    message.mutable_channel_left()->mutable_endpoints()->Assign(gone.begin(), gone.end());
    send_to_all(channel.servers, std::move(message), effects);
    bool const accepted = channel.next && channel.next->sent && channel.next->waiting.empty();
    if (accepted) commit(channel, effects);
}

// None of a server's applications has a part in the channel any more.
void Cluster::detach(ChannelRecord& channel, std::uint32_t agent, Effects& effects) {
    ServerRecord& server = servers_.at(agent);
    channel.servers.erase(agent);
    server.channels.erase(channel.id);
    if (channel.next) channel.next->waiting.erase(agent);
    if (channel.creator == agent) return;
    server.unclaimed_channels.erase(channel.id);
    server.unnamed_channels.erase(channel.id);
    if (channel.recovery) return;  // told once it is known what becomes of it
    ControllerMessage message;
    message.mutable_channel_ended()->set_channel(channel.id);
    message.mutable_channel_ended()->set_why("all of this server have left it");
    message.mutable_channel_ended()->set_goes_on(true);
    send_to(agent, std::move(message), effects);
}

void Cluster::tell_left(ChannelRecord const& channel, std::uint32_t agent, Effects& effects) const {
    ControllerMessage message;
    message.mutable_channel_left()->set_channel(channel.id);
    message.mutable_channel_left()->mutable_endpoints()->Assign(channel.left.begin(),
                                                                channel.left.end());
    send_to(agent, std::move(message), effects);
}

// Then no rows are on their way, and no plan is needed any more.
bool Cluster::one_side_left(ChannelRecord const& channel) {
    auto const all_left = [&](auto const& ids) {
        return std::all_of(ids.begin(), ids.end(),
                           [&](std::uint32_t id) { return channel.left.contains(id); });
    };
    return !channel.left.empty() &&
           (all_left(channel.spec.sources()) || all_left(channel.spec.destinations()));
}

}  // namespace mgi::control
