#include "control/agent/usage.hpp"

#include <algorithm>
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

void add_path(ChannelUse& to, ClusterPathUse const& path) {
    PathUse& made = *to.add_paths();
    made.set_source(path.source);
    made.set_destination(path.destination);
    made.set_by(path.by);
    made.set_nic(path.nic);
    made.set_peer(path.peer);
    add(*made.mutable_flow(), path.flow);
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
    uses_[use.channel][application] = std::move(use);
}

void Usage::application_left(ApplicationId application) {
    for (auto& [channel, applications] : uses_) {
        auto const found = applications.find(application);
        if (found != applications.end()) end(found->second);
    }
}

void Usage::application_left(ApplicationId application, std::uint32_t channel) {
    auto const applications = uses_.find(channel);
    if (applications == uses_.end()) return;
    auto const found = applications->second.find(application);
    if (found != applications->second.end()) end(found->second);
}

void Usage::end(ClusterUse& use) {
    use.flow.in_flight = use.flow.waiting = use.queued = 0;
    use.paths.clear();
    use.waits.clear();
    use.more_paths = use.more_waits = 0;
    for (ClusterNicUse& nic : use.nics) nic.flow.in_flight = 0;
}

void Usage::rename(std::string& nic) const {
    auto const found = nic_names_.find(nic);
    if (found != nic_names_.end()) nic = found->second;
}

void Usage::forget_channel(std::uint32_t channel) {
    auto const found = uses_.find(channel);
    if (found == uses_.end()) return;
    for (auto& [application, use] : found->second) {
        end(use);
        for (ClusterNicUse const& nic : use.nics) {
            bool const room = past_.size() < kMostNics || past_.contains(nic.nic);
            if (room) add(past_[nic.nic], nic.flow);
        }
    }
    uses_.erase(found);
}

void Usage::add_nics(Heartbeat& heartbeat) const {
    std::map<std::string, FlowUse> nics = past_;
    for (auto const& [channel, applications] : uses_) {
        for (auto const& [application, use] : applications) {
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

void Usage::add_to(Heartbeat& heartbeat) const {
    add_nics(heartbeat);
    std::size_t paths_left = kMostPaths;
    std::size_t waits_left = kMostWaits;
    for (auto const& [channel, applications] : uses_) {
        ChannelUse& to = *heartbeat.add_channels();
        to.set_channel(channel);
        std::vector<ClusterPathUse const*> paths;
        std::vector<ClusterWait const*> waits;
        std::uint64_t more_paths = 0;
        std::uint64_t more_waits = 0;
        ClusterFlow rest;
        for (auto const& [application, use] : applications) {
            rest = use.flow;
            to.set_rows(to.rows() + rest.rows);
            to.set_bytes(to.bytes() + rest.bytes);
            rest.rows = rest.bytes = 0;
            add(*to.mutable_flow(), rest);
            to.set_queued(to.queued() + use.queued);
            for (ClusterPathUse const& path : use.paths) paths.push_back(&path);
            for (ClusterWait const& wait : use.waits) waits.push_back(&wait);
            more_paths += use.more_paths;
            more_waits += use.more_waits;
        }
        more_paths += add_first(
            std::move(paths), std::min(ClusterUse::kMostPaths, paths_left),
            [](auto const& a, auto const& b) { return a.flow.bytes > b.flow.bytes; },
            [&](ClusterPathUse const& path) { add_path(to, path); });
        more_waits += add_first(
            std::move(waits), std::min(ClusterUse::kMostWaits, waits_left),
            [](auto const& a, auto const& b) {
                bool const a_rows = a.what == ClusterWait::For::Rows;
                bool const b_rows = b.what == ClusterWait::For::Rows;
                return a_rows != b_rows ? b_rows : a.ms > b.ms;
            },
            [&](ClusterWait const& wait) { add_wait(to, wait); });
        paths_left -= static_cast<std::size_t>(to.paths_size());
        waits_left -= static_cast<std::size_t>(to.waits_size());
        to.set_more_paths(more_paths);
        to.set_more_waits(more_waits);
    }
}

}  // namespace mgi::control
