#include "control/agent/usage.hpp"

#include <algorithm>
#include <string_view>
#include <tuple>
#include <vector>

namespace mgi::control {

namespace {

/// `from` besides what is there already.
void add(FlowUse& to, ClusterFlow const& from) {
    to.set_rows(to.rows() + from.rows);
    to.set_bytes(to.bytes() + from.bytes);
    to.set_segments(to.segments() + from.segments);
    to.set_in_flight(to.in_flight() + from.in_flight);
    to.set_waiting(to.waiting() + from.waiting);
    to.set_waits(to.waits() + from.waits);
    to.set_waited_ms(to.waited_ms() + from.waited_ms);
    to.set_longest_wait_ms(std::max(to.longest_wait_ms(), from.longest_wait_ms));
    to.set_resends(to.resends() + from.resends);
}

void add_wait(ChannelUse& to, ClusterWait const& wait) {
    WaitUse& made = *to.add_waits();
    made.set_what(static_cast<std::uint32_t>(wait.what));
    made.set_who(wait.who);
    made.mutable_whom()->Assign(wait.whom.begin(), wait.whom.end());
    made.set_more(wait.more);
    made.set_ms(wait.ms);
    made.set_why(wait.why);
}

/// The first ones by `before`, as many as there is room for; the rest are counted.
template <class T, class Before, class Add>
std::uint64_t add_first(std::vector<T const*> all, std::size_t room, Before before, Add add) {
    std::stable_sort(all.begin(), all.end(),
                     [&](T const* a, T const* b) { return before(*a, *b); });
    std::size_t const shown = std::min(all.size(), room);
    for (std::size_t at = 0; at < shown; ++at) add(*all[at]);
    return all.size() - shown;
}

}  // namespace

void Usage::take(ApplicationId application, ClusterUse use) {
    for (ClusterPathUse& path : use.paths) rename(path.nic);
    for (ClusterNicUse& nic : use.nics) rename(nic.nic);
    channels_[use.channel].uses[application] = std::move(use);
}

void Usage::application_left(ApplicationId application) {
    for (auto& [channel, of] : channels_) end(of, application);
}

void Usage::application_left(ApplicationId application, std::uint32_t channel) {
    auto const found = channels_.find(channel);
    if (found != channels_.end()) end(found->second, application);
}

void Usage::end(OfChannel& of, ApplicationId application) {
    auto const found = of.uses.find(application);
    if (found == of.uses.end()) return;
    ClusterUse& use = found->second;
    use.flow.in_flight = use.flow.waiting = 0;
    add(of.ended, use.flow);
    for (ClusterNicUse& nic : use.nics) {
        nic.flow.in_flight = 0;
        bool const room = past_.size() < kMostNics || past_.contains(nic.nic);
        if (room) add(past_[nic.nic], nic.flow);
    }
    of.uses.erase(found);
}

void Usage::rename(std::string& nic) const {
    auto const found = nic_names_.find(nic);
    if (found != nic_names_.end()) nic = found->second;
}

void Usage::forget_channel(std::uint32_t channel) {
    auto const found = channels_.find(channel);
    if (found == channels_.end()) return;
    OfChannel& of = found->second;
    while (!of.uses.empty()) end(of, of.uses.begin()->first);
    channels_.erase(found);
}

void Usage::add_nics(Heartbeat& heartbeat) const {
    std::map<std::string, FlowUse> nics = past_;
    for (auto const& [channel, of] : channels_) {
        for (auto const& [application, use] : of.uses) {
            for (ClusterNicUse const& nic : use.nics) add(nics[nic.nic], nic.flow);
        }
    }
    for (auto& [name, flow] : nics) {
        if (heartbeat.nics_size() == int(kMostNics)) break;
        NicUse& made = *heartbeat.add_nics();
        made.set_nic(name);
        *made.mutable_flow() = std::move(flow);
    }
}

// Wires of several applications, or of one's several slots, by the same NIC to the same process are one path.
void Usage::add_paths(ChannelUse& to, OfChannel const& of, std::size_t room) {
    std::map<std::tuple<std::uint32_t, std::uint32_t, std::string_view, std::string_view,
                        std::string_view>,
             PathUse>
        paths;
    std::uint64_t more = 0;
    for (auto const& [application, use] : of.uses) {
        more += use.more_paths;
        for (ClusterPathUse const& path : use.paths) {
            PathUse& one = paths[{path.source, path.destination, path.by, path.nic, path.peer}];
            one.set_source(path.source);
            one.set_destination(path.destination);
            one.set_by(path.by);
            one.set_nic(path.nic);
            one.set_peer(path.peer);
            add(*one.mutable_flow(), path.flow);
        }
    }
    std::vector<PathUse const*> all;
    all.reserve(paths.size());
    for (auto const& [name, path] : paths) all.push_back(&path);
    more += add_first(
        std::move(all), room,
        [](auto const& a, auto const& b) { return a.flow().bytes() > b.flow().bytes(); },
        [&](PathUse const& path) { *to.add_paths() = path; });
    to.set_more_paths(more);
}

void Usage::add_waits(ChannelUse& to, OfChannel const& of, std::size_t room) {
    std::vector<ClusterWait const*> all;
    std::uint64_t more = 0;
    for (auto const& [application, use] : of.uses) {
        more += use.more_waits;
        for (ClusterWait const& wait : use.waits) all.push_back(&wait);
    }
    more += add_first(
        std::move(all), room,
        [](auto const& a, auto const& b) {
            bool const a_rows = a.what == ClusterWait::For::Rows;
            bool const b_rows = b.what == ClusterWait::For::Rows;
            return a_rows != b_rows ? b_rows : a.ms > b.ms;
        },
        [&](ClusterWait const& wait) { add_wait(to, wait); });
    to.set_more_waits(more);
}

void Usage::add_to(Heartbeat& heartbeat) const {
    add_nics(heartbeat);
    std::size_t paths_left = kMostPaths;
    std::size_t waits_left = kMostWaits;
    for (auto const& [channel, of] : channels_) {
        ChannelUse& to = *heartbeat.add_channels();
        to.set_channel(channel);
        FlowUse& flow = *to.mutable_flow();
        flow = of.ended;
        for (auto const& [application, use] : of.uses) {
            add(flow, use.flow);
            to.set_queued(to.queued() + use.queued);
        }
        to.set_rows(flow.rows());
        to.set_bytes(flow.bytes());
        flow.clear_rows();
        flow.clear_bytes();
        add_paths(to, of, std::min(ClusterUse::kMostPaths, paths_left));
        add_waits(to, of, std::min(ClusterUse::kMostWaits, waits_left));
        paths_left -= static_cast<std::size_t>(to.paths_size());
        waits_left -= static_cast<std::size_t>(to.waits_size());
    }
}

}  // namespace mgi::control
