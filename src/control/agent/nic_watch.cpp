#include "control/agent/nic_watch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include <mgi/graph.hpp>

namespace mgi::control {

NicWatch::NicWatch(ServerGraph const& graph, std::vector<topology::LocalNic> const& nics) {
    auto const is_network = [&](std::uint32_t vertex) {
        return graph.vertices(static_cast<int>(vertex)).kind() ==
               static_cast<std::uint32_t>(VertexKind::Network);
    };
    for (topology::LocalNic const& local : nics) {
        Nic nic;
        nic.vertex = local.vertex;
        nic.name = local.name;
        nic.told_rate = local.told_rate;
        for (Link const& link : graph.links()) {
            bool const out = link.from() == local.vertex && is_network(link.to());
            bool const in = link.to() == local.vertex && is_network(link.from());
            if (out || in) nic.links.push_back({link.from(), link.to(), link.gbps()});
        }
        nics_.push_back(std::move(nic));
    }
}

std::vector<NicWatch::Change> NicWatch::take(std::vector<topology::NicState> const& states,
                                             Time now) {
    std::vector<Change> changes;
    for (std::size_t i = 0; i < nics_.size(); ++i) {
        Nic& nic = nics_[i];
        topology::NicState const& state = states[i];
        bool const first = !nic.last;
        if (!first) count_falls(nic, state, now);
        sample(nic, state, now);
        nic.last = state;

        Condition seen{state.up && now >= nic.quiet, 0};
        if (seen.up && !nic.told_rate) seen.mbps = state.mbps;
        if (seen != nic.coming || first) {
            nic.coming = seen;
            nic.since = now;
        }
        if (seen == nic.told || (now - nic.since < kSettled && !first)) continue;
        if (auto made = change(nic, seen, now)) changes.push_back(std::move(*made));
    }
    return changes;
}

void NicWatch::count_falls(Nic& nic, topology::NicState const& state, Time now) {
    std::uint64_t fallen = nic.last->up && !state.up ? 1 : 0;
    // The kernel sees those between two readings, too. Its counter begins anew with the driver.
    if (state.falls && nic.last->falls) {
        fallen = *state.falls > *nic.last->falls ? *state.falls - *nic.last->falls : 0;
    }
    for (std::uint64_t i = 0; i < std::min<std::uint64_t>(fallen, kMostFalls + 1); ++i) {
        nic.falls.push_back(now);
    }
    while (nic.falls.size() > kMostFalls + 1 ||
           (!nic.falls.empty() && now - nic.falls.front() > kFlapping)) {
        nic.falls.pop_front();
    }
    if (fallen > 0 && (nic.falls.size() > kMostFalls || now < nic.quiet)) {
        nic.quiet = now + kCoolDown;
    }
}

void NicWatch::sample(Nic& nic, topology::NicState const& state, Time now) {
    auto& samples = nic.samples;
    // Counters begin anew with the driver.
    if (!samples.empty() &&
        (state.sent < samples.back().sent || state.received < samples.back().received)) {
        samples.clear();
    }
    samples.push_back({now, state.sent, state.received});
    while (samples.size() > 2 && now - samples[1].at >= kWindow) samples.pop_front();
}

double NicWatch::gbps(Condition const& condition, Rate const& link) {
    if (!condition.up) return 0;
    return condition.mbps > 0 ? condition.mbps / 8000 : link.gbps;
}

std::optional<NicWatch::Change> NicWatch::change(Nic& nic, Condition const& next, Time now) {
    Condition const before = std::exchange(nic.told, next);
    Change made;
    for (Rate const& link : nic.links) {
        double const rate = gbps(next, link);
        if (rate != gbps(before, link)) made.links.push_back({link.from, link.to, rate});
    }
    if (made.links.empty()) return std::nullopt;
    if (!next.up && now < nic.quiet) {
        made.what = fmt::format(
            "{} lost its link more than {} times in {} s: it counts as down until it has kept it "
            "for {} s",
            nic.name, kMostFalls, kFlapping.count() / 1000, kCoolDown.count() / 1000);
    } else if (!next.up) {
        made.what = fmt::format("{} is down", nic.name);
    } else {
        made.what =
            fmt::format("{} is up, with {:.4g} GB/s", nic.name, gbps(next, nic.links.front()));
    }
    return made;
}

std::vector<NicWatch::Rate> NicWatch::uses() const {
    std::vector<Rate> uses;
    for (Nic const& nic : nics_) {
        if (!nic.told.up || nic.samples.size() < 2) continue;
        Sample const& then = nic.samples.front();
        Sample const& now = nic.samples.back();
        double const seconds = std::chrono::duration<double>(now.at - then.at).count();
        if (seconds <= 0) continue;
        for (Rate const& link : nic.links) {
            bool const out = link.from == nic.vertex;
            auto const bytes = out ? now.sent - then.sent : now.received - then.received;
            if (bytes > 0) uses.push_back({link.from, link.to, double(bytes) / 1e9 / seconds});
        }
    }
    return uses;
}

}  // namespace mgi::control
