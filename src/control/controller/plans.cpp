#include "control/controller/plans.hpp"

#include <fmt/format.h>

#include <functional>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <mgi/error.hpp>

#include "control/controller/server_graph.hpp"
#include "planner/channel_planner.hpp"
#include "planner/cluster.hpp"
#include "planner/directory.hpp"
#include "planner/lru_cache.hpp"

namespace mgi::control {
namespace {

/// Of plans that are kept to be planned again, those of channels that have ended among them.
constexpr std::size_t kKeptBytes = std::size_t(32) << 20;

class PlannerPlans final : public ChannelPlans {
public:
    void learn(LearnServer const& server) override {
        forget(server.agent);
        Known& known = known_[server.agent];
        known.name = server.name;
        known.graph = server.graph;
        add(server.agent, known);
    }

    void learn(LearnLink const& change) override {
        Known& known = known_.at(change.agent);
        Link const& link = change.link;
        Link* mine = nullptr;
        for (Link& candidate : *known.graph.mutable_links()) {
            if (candidate.from() == link.from() && candidate.to() == link.to()) mine = &candidate;
        }
        bool const fresh =
            mine == nullptr || !known.planned_links.contains({link.from(), link.to()});
        if (mine == nullptr) {
            *known.graph.add_links() = link;
        } else {
            mine->set_gbps(link.gbps());
        }
        if (fresh || !known.wrong.empty()) {  // a link that the planner has never seen
            remove(known);
            add(change.agent, known);
        } else {
            cluster_.set_link(known.server, link.from(), link.to(), link.gbps());
            changed_[known.server] = cluster_.version();
        }
    }

    void forget(std::uint32_t agent) override {
        auto const known = known_.find(agent);
        if (known == known_.end()) return;
        remove(known->second);
        known_.erase(known);
    }

    PlanMade plan(MakePlan const& request) override {
        planner::ChannelDirectory directory;
        Asked asked;
        asked.sources = places(request.sources, directory.sources);
        asked.destinations = places(request.destinations, directory.destinations);
        asked.rules.relay_gpus = request.relay_gpus;
        asked.rules.relay_host = request.relay_host;
        asked.rules.max_nics = request.max_nics;
        planner::ChannelPlan const plan = plan_of(request.channel, std::move(asked));
        PlanMade made;
        // The planner numbers servers in its own way; what travels names them as agents do.
        made.directory = planner::encode(directory);
        for (planner::ServerPlan const& server : plan.servers) {
            made.tables.emplace(agents_.at(server.server), server.table->bytes);
        }
        return made;
    }

private:
    struct Known {
        std::string name;
        ServerGraph graph;
        planner::ServerId server = 0;
        std::set<std::pair<std::uint32_t, std::uint32_t>> planned_links;
        std::string wrong;  ///< not empty: the planner does not take this server
    };

    /// What a channel's plan is made from. A server that came anew has another number.
    struct Asked {
        std::vector<planner::Place> sources;
        std::vector<planner::Place> destinations;
        planner::PathRules rules;
        bool operator==(Asked const&) const = default;
    };
    struct Kept {
        Asked asked;
        planner::ChannelPlan plan;
        std::uint64_t version = 0;  ///< of the cluster that it is for
    };

    /// A channel that was planned before is planned again for what has changed since.
    planner::ChannelPlan plan_of(std::uint32_t channel, Asked asked) {
        Kept* const kept = kept_.find(channel);
        if (kept != nullptr && kept->asked == asked) {
            std::vector<planner::ServerId> changed;
            for (auto const& [server, version] : changed_) {
                if (version > kept->version) changed.push_back(server);
            }
            kept->plan = planner_.replan(kept->plan, changed);
            kept->version = cluster_.version();
            planner::ChannelPlan plan = kept->plan;
            kept_.resize(channel, bytes_of(*kept));
            return plan;
        }
        planner::ChannelPlan plan = planner_.plan(asked.sources, asked.destinations, asked.rules);
        Kept fresh{std::move(asked), plan, cluster_.version()};
        std::size_t const bytes = bytes_of(fresh);
        if (kept != nullptr) {
            *kept = std::move(fresh);
            kept_.resize(channel, bytes);
        } else {
            kept_.put(channel, std::move(fresh), bytes);
        }
        return plan;
    }

    static std::size_t bytes_of(Kept const& kept) {
        return sizeof(Kept) + kept.plan.distinct_bytes() +
               kept.plan.servers.size() * sizeof(planner::ServerPlan) +
               (kept.asked.sources.size() + kept.asked.destinations.size()) *
                   sizeof(planner::Place);
    }

    void add(std::uint32_t agent, Known& known) {
        try {
            auto const made = infrastructure_of(known.graph);
            known.server = cluster_.add_server(made, known.name, domain_of(known.graph));
            known.wrong.clear();
            agents_[known.server] = agent;
            known.planned_links.clear();
            for (Edge const& edge : made.graph.edges) {
                known.planned_links.emplace(edge.from, edge.to);
            }
        } catch (Error const& error) {
            known.wrong = error.what();
            throw;
        }
    }

    void remove(Known& known) {
        if (!known.wrong.empty()) return;
        agents_.erase(known.server);
        changed_.erase(known.server);
        cluster_.remove_server(known.server);
        known.wrong = "it is being learned";
    }

    std::vector<planner::Place> places(std::vector<Place> const& from,
                                       planner::Directory& directory) const {
        std::vector<planner::Place> to;
        to.reserve(from.size());
        std::uint32_t agent = 0;
        Known const* known = nullptr;
        for (Place const& place : from) {
            if (known == nullptr || place.agent != agent) {  // endpoints of a server stand together
                auto const found = known_.find(place.agent);
                if (found == known_.end()) {
                    throw Error(ErrorCode::NotFound,
                                fmt::format("agent {} is not known", place.agent));
                }
                if (!found->second.wrong.empty()) {
                    throw Error(ErrorCode::InvalidArgument, found->second.wrong);
                }
                agent = place.agent;
                known = &found->second;
            }
            to.push_back({known->server, place.vertex});
            directory.add({agent, place.vertex});
        }
        directory.close();
        return to;
    }

    planner::Cluster cluster_;
    planner::ChannelPlanner planner_{cluster_};
    planner::LruCache<std::uint32_t, Kept, std::hash<std::uint32_t>> kept_{kKeptBytes};
    /// Servers of which a link changed, and the cluster's version then.
    std::unordered_map<planner::ServerId, std::uint64_t> changed_;
    std::map<std::uint32_t, Known> known_;
    std::unordered_map<planner::ServerId, std::uint32_t> agents_;
};

}  // namespace

std::unique_ptr<ChannelPlans> make_plans() {
    return std::make_unique<PlannerPlans>();
}

}  // namespace mgi::control
