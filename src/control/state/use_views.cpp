#include "control/state/use_views.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>

#include <mgi/cluster.hpp>
#include <mgi/graph.hpp>

namespace mgi::control {
namespace {

using Channels = std::unordered_map<std::uint32_t, ChannelView*>;

void add(FlowView& to, FlowUse const& from) {
    to.segments += from.segments();
    to.in_flight += from.in_flight();
    to.waiting += from.waiting();
    to.waits += from.waits();
    to.waited_ms += from.waited_ms();
    to.longest_wait_ms = std::max(to.longest_wait_ms, from.longest_wait_ms());
    to.resends += from.resends();
}

/// Bytes as older samples of one server's figures have them: by channel, by path and by NIC.
class Before {
public:
    explicit Before(Use const& use) : at_(use.last.at) {
        for (Use::Sample const* sample :
             {&use.before, &use.middle}) {  // the older one, if it is there
            for (ChannelUse const& figure : *sample->channels) {
                channels_.try_emplace(figure.channel(), Then{figure.bytes(), sample->at});
                for (PathUse const& path : figure.paths()) {
                    paths_.try_emplace(name_of(figure, path),
                                       Then{path.flow().bytes(), sample->at});
                }
            }
            for (NicUse const& nic : *sample->nics) {
                nics_.try_emplace(nic.nic(), Then{nic.flow().bytes(), sample->at});
            }
        }
    }
    [[nodiscard]] double gbps(ChannelUse const& figure) const {
        auto const found = channels_.find(figure.channel());
        return found == channels_.end() ? 0 : gbps(figure.bytes(), found->second);
    }
    [[nodiscard]] double gbps(ChannelUse const& figure, PathUse const& path) const {
        auto const found = paths_.find(name_of(figure, path));
        return found == paths_.end() ? 0 : gbps(path.flow().bytes(), found->second);
    }
    [[nodiscard]] double gbps(NicUse const& nic) const {
        auto const found = nics_.find(nic.nic());
        return found == nics_.end() ? 0 : gbps(nic.flow().bytes(), found->second);
    }

private:
    struct Then {
        std::uint64_t bytes = 0;
        Millis at = 0;
    };
    using PathName = std::tuple<std::uint32_t, std::uint32_t, std::uint32_t, std::string,
                                std::string, std::string>;
    static PathName name_of(ChannelUse const& figure, PathUse const& path) {
        return {figure.channel(), path.source(), path.destination(),
                path.by(),        path.nic(),    path.peer()};
    }
    [[nodiscard]] double gbps(std::uint64_t bytes, Then then) const {
        if (then.at >= at_ || bytes < then.bytes) return 0;  // its application began again
        return static_cast<double>(bytes - then.bytes) / (static_cast<double>(at_ - then.at) * 1e6);
    }

    Millis at_;
    std::unordered_map<std::uint32_t, Then> channels_;
    std::map<PathName, Then> paths_;
    std::unordered_map<std::string, Then> nics_;
};

NicView& nic_named(ServerView& server, std::string const& name) {
    auto const found = std::find_if(server.nics.begin(), server.nics.end(),
                                    [&](NicView const& nic) { return nic.name == name; });
    if (found != server.nics.end()) return *found;
    NicView& made = server.nics.emplace_back();
    made.name = name;
    return made;
}

void add_path(ServerView& server, ChannelView& channel, PathUse const& path, double gbps) {
    PathView made;
    made.server = server.id;
    made.source = path.source();
    made.destination = path.destination();
    made.by = path.by();
    made.nic = path.nic();
    made.peer = path.peer();
    made.flow.rows = path.flow().rows();
    made.flow.bytes = path.flow().bytes();
    made.flow.gbps = gbps;
    add(made.flow, path.flow());
    channel.paths.push_back(std::move(made));
}

void add_server(ServerView& server, Channels const& channels) {
    Before const before(server.use);
    for (ChannelUse const& figure : *server.use.last.channels) {
        auto const found = channels.find(figure.channel());
        if (found == channels.end()) continue;
        ChannelView& channel = *found->second;
        channel.flow.rows += figure.rows();
        channel.flow.bytes += figure.bytes();
        channel.flow.gbps += before.gbps(figure);
        add(channel.flow, figure.flow());
        channel.queued += figure.queued();
        channel.more_paths += figure.more_paths();
        channel.more_waits += figure.more_waits();
        for (PathUse const& path : figure.paths()) {
            add_path(server, channel, path, before.gbps(figure, path));
        }
        for (WaitUse const& wait : figure.waits()) channel.waits.push_back({server.id, wait});
    }
    for (NicUse const& figure : *server.use.last.nics) {
        FlowView& payload = nic_named(server, figure.nic()).payload;
        payload.bytes = figure.flow().bytes();
        payload.gbps = before.gbps(figure);
        add(payload, figure.flow());
    }
}

bool for_rows(WaitView const& wait) {
    return wait.use.what() == static_cast<std::uint32_t>(ClusterWait::For::Rows);
}

/// What joins a NIC to the network, one way or the other.
void add_nics(ServerView& server) {
    ServerGraph const& graph = *server.graph;
    std::map<std::pair<std::uint32_t, std::uint32_t>, double> used;
    for (LinkUse const& figure : *server.use.links) {
        used[{figure.from(), figure.to()}] = figure.gbps();
    }
    auto const is = [&](std::uint32_t vertex, VertexKind kind) {
        return graph.vertices(static_cast<int>(vertex)).kind() == static_cast<std::uint32_t>(kind);
    };
    for (Link const& link : graph.links()) {
        bool const out = is(link.to(), VertexKind::Network) && is(link.from(), VertexKind::Nic);
        bool const in = is(link.from(), VertexKind::Network) && is(link.to(), VertexKind::Nic);
        if (!out && !in) continue;
        std::string const& name =
            graph.vertices(static_cast<int>(out ? link.from() : link.to())).name();
        NicView& nic = nic_named(server, name);
        nic.in_graph = true;
        (out ? nic.out_capacity_gbps : nic.in_capacity_gbps) = link.gbps();
        (out ? nic.out_gbps : nic.in_gbps) = used[{link.from(), link.to()}];
    }
}

}  // namespace

void add_uses(Snapshot& snapshot) {
    Channels channels;
    for (ChannelView& channel : snapshot.channels) {
        bool const over = channel.state == "failed" || channel.state == "deleted";
        if (!over) channels[channel.id] = &channel;
    }
    for (ServerView& server : snapshot.servers) {
        add_nics(server);
        add_server(server, channels);
    }
    for (auto const& [id, channel] : channels) {
        std::stable_sort(
            channel->paths.begin(), channel->paths.end(), [](PathView const& a, PathView const& b) {
                return std::pair(a.flow.gbps, a.flow.bytes) > std::pair(b.flow.gbps, b.flow.bytes);
            });
        std::stable_sort(channel->waits.begin(), channel->waits.end(),
                         [](WaitView const& a, WaitView const& b) {
                             if (for_rows(a) != for_rows(b)) return for_rows(b);
                             return a.use.ms() > b.use.ms();
                         });
    }
}

}  // namespace mgi::control
