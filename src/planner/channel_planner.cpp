#include "planner/channel_planner.hpp"

#include <algorithm>
#include <array>

#include <mgi/error.hpp>

#include "planner/directory.hpp"
#include "planner/participants.hpp"
#include "planner/refuse.hpp"

namespace mgi::planner {
namespace {

/// Of a cache's entry, beside what it holds.
constexpr std::size_t kEntryBytes = 256;

constexpr std::size_t mix(std::size_t seed, std::size_t value) {
    return (seed ^ value) * 0x9e3779b97f4a7c15ULL ^ seed >> 29;
}

std::size_t hash_of(std::span<Place const> places) {
    // Four sums side by side, since each waits for its own multiplication.
    std::array<std::size_t, 4> sums{1, 2, 3, 4};
    for (std::size_t i = 0; i < places.size(); ++i) {
        sums[i % 4] = (sums[i % 4] ^ (std::size_t(places[i].server) << 32 | places[i].vertex)) *
                      0x9e3779b97f4a7c15ULL;
    }
    std::size_t hash = places.size();
    for (std::size_t const sum : sums) hash = mix(hash, sum ^ sum >> 32);
    return hash;
}

}  // namespace

std::size_t ChannelPlanner::Hash::operator()(PathKey const& key) const {
    std::size_t const rules = std::size_t(key.rules.relay_gpus) |
                              std::size_t(key.rules.relay_host) << 1 |
                              std::size_t(key.rules.max_nics) << 2;
    return mix(mix(0, key.shape), rules);
}

std::size_t ChannelPlanner::Hash::operator()(TableKey const& key) const {
    Role const& role = key.role;
    std::size_t const ways = std::size_t(role.network_out) | std::size_t(role.network_in) << 1 |
                             std::size_t(role.domain_out) << 2 | std::size_t(role.domain_in) << 3;
    return mix(mix(mix((*this)(key.paths), role.sources.hash()), role.destinations.hash()), ways);
}

ChannelPlanner::ChannelPlanner(Cluster const& cluster, PlannerLimits limits)
    : cluster_(cluster),
      limits_(limits),
      paths_(limits.path_bytes),
      tables_(limits.table_bytes),
      plans_(limits.plan_bytes) {}

void ChannelPlanner::clear() {
    paths_.clear();
    tables_.clear();
    plans_.clear();
}

std::shared_ptr<ShapePaths> ChannelPlanner::shape_paths(ServerId server, PathRules rules) {
    flow_.unload();  // its graph may be a shape's that is gone
    PathKey const key = key_of(server, rules);
    if (auto const* known = paths_.find(key)) return *known;
    auto made = std::make_shared<ShapePaths>(cluster_.shape(server), rules);
    paths_.put(key, made, made->bytes());
    return made;
}

void ChannelPlanner::settle(ServerId server, ShapePaths const& paths, PathRules rules) {
    paths_.resize(key_of(server, rules), paths.bytes());
}

ChannelPlan ChannelPlanner::plan(std::span<Place const> sources,
                                 std::span<Place const> destinations, PathRules rules) {
    if (sources.size() > kMostEndpoints || destinations.size() > kMostEndpoints) {
        return make(sources, destinations, rules);  // which refuses it
    }
    Request request{cluster_.version(),
                    rules,
                    {sources.begin(), sources.end()},
                    {destinations.begin(), destinations.end()},
                    mix(hash_of(sources), hash_of(destinations))};
    if (auto const* known = plans_.find(request)) return **known;
    auto made = std::make_shared<ChannelPlan const>(make(sources, destinations, rules));
    std::size_t const bytes = kEntryBytes + sizeof(Request) +
                              (sources.size() + destinations.size()) * sizeof(Place) +
                              made->kept_bytes();
    ChannelPlan plan = *made;
    plans_.put(std::move(request), std::move(made), bytes);
    return plan;
}

ChannelPlan ChannelPlanner::make(std::span<Place const> sources,
                                 std::span<Place const> destinations, PathRules rules) {
    Participants const participants = gather(cluster_, sources, destinations);
    ChannelPlan plan;
    plan.rules = rules;
    plan.sources = sources.size();
    plan.destinations = destinations.size();
    plan.directory = std::make_shared<std::string const>(encode(participants.directory));
    plan.servers.reserve(participants.servers.size());
    Capacity widest = 0;
    for (Participant const& at : participants.servers) {
        KeptTable kept = table_of(at.server, at.role, rules);
        widest = std::max(widest, kept.table->widest);
        plan.servers.push_back({at.server, kept.role, kept.table});
    }
    check_ways(plan);
    plan.lanes = choose_lanes(destinations.size(), participants.destination_servers,
                              participants.most_destinations);
    plan.batching = choose_batching(widest, plan.lanes.count, limits_.source_memory);
    return plan;
}

ChannelPlan ChannelPlanner::replan(ChannelPlan const& plan, std::span<ServerId const> changed) {
    ChannelPlan made = plan;
    bool touched = false;
    for (ServerId const server : changed) {
        auto const at =
            std::lower_bound(made.servers.begin(), made.servers.end(), server,
                             [](ServerPlan const& s, ServerId id) { return s.server < id; });
        if (at == made.servers.end() || at->server != server) continue;
        KeptTable kept = table_of(server, *at->role, plan.rules);
        at->table = kept.table;
        touched = true;
    }
    if (!touched) return made;
    check_ways(made);
    Capacity widest = 0;
    for (ServerPlan const& server : made.servers) widest = std::max(widest, server.table->widest);
    made.batching = choose_batching(widest, made.lanes.count, limits_.source_memory);
    return made;
}

ChannelPlanner::KeptTable ChannelPlanner::table_of(ServerId server, Role const& role,
                                                   PathRules rules) {
    TableKey key{key_of(server, rules), role};
    if (KeptTable const* known = tables_.find(key)) return *known;
    KeptTable kept{std::make_shared<Role const>(role), build(server, role, rules)};
    std::size_t const bytes = sizeof(KeptTable) + kEntryBytes + kept.table->bytes.capacity() +
                              2 * (role.sources.bytes() + role.destinations.bytes());
    tables_.put(std::move(key), kept, bytes);
    return kept;
}

std::shared_ptr<EncodedTable const> ChannelPlanner::build(ServerId server, Role const& role,
                                                          PathRules rules) {
    auto const paths = shape_paths(server, rules);
    Shape const& shape = paths->shape();
    auto const sources = role.sources.list();
    auto const destinations = role.destinations.list();
    auto made = std::make_shared<EncodedTable>();
    builder_.start(shape);
    auto const add = [&](std::uint32_t from, std::uint32_t to) {
        PathRange const range = paths->find(flow_, from, to);
        builder_.next_pair();
        for (std::uint32_t p = range.begin; p < range.end; ++p) builder_.add(paths->list()[p]);
        return !range.empty();
    };
    for (std::uint32_t const d : destinations) {
        for (std::uint32_t const s : sources) {
            if (s == d || add(s, d)) continue;
            refuse("no way from " + cluster_.name({server, s}) + " to " +
                   cluster_.name({server, d}) + to_text(rules));
        }
    }
    // Across servers: whether the ways of two of them meet is for `check_ways`.
    auto const cross = [&](bool out, std::uint32_t vertex) {
        for (Gateway const gateway : {Gateway::Network, Gateway::Domain}) {
            std::uint32_t const at = shape.gateway(gateway);
            if (at == kNowhere || !role.crosses(gateway, out)) continue;
            add(out ? vertex : at, out ? at : vertex);
        }
        return ways_of(*paths, role, out, vertex);
    };
    for (std::uint32_t const s : sources) made->out[cross(true, s)] = true;
    for (std::uint32_t const d : destinations) made->in[cross(false, d)] = true;

    // What all of them can carry together, by each way and by all ways at once.
    auto const join = [&](std::vector<std::uint32_t> const& from,
                          std::vector<std::uint32_t> const& to) {
        if (from.empty() || to.empty() || from.size() + to.size() < 3) return;
        PathList const& joint = paths->find_joint(flow_, from, to);
        for (std::uint32_t p = 0; p < joint.size(); ++p) {
            builder_.next_pair();
            builder_.add(joint[p]);
        }
    };
    join(sources, destinations);
    auto all_out = destinations;
    auto all_in = sources;
    auto const join_gateway = [&](Gateway gateway, bool goes_out, bool comes_in) {
        std::uint32_t const at = shape.gateway(gateway);
        // Which NICs a GPU may use is a pair's matter where they are limited.
        if (at == kNowhere || (gateway == Gateway::Network && rules.max_nics != 0)) return;
        if (goes_out) {
            join(sources, {at});
            all_out.push_back(at);
        }
        if (comes_in) {
            join({at}, destinations);
            all_in.push_back(at);
        }
    };
    join_gateway(Gateway::Network, role.network_out, role.network_in);
    join_gateway(Gateway::Domain, role.domain_out, role.domain_in);
    if (all_out.size() > destinations.size()) join(sources, all_out);
    if (all_in.size() > sources.size()) join(all_in, destinations);

    made->bytes = builder_.bytes();
    made->widest = builder_.widest();
    settle(server, *paths, rules);
    return made;
}

}  // namespace mgi::planner
