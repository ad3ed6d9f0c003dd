#include "control/controller/plans.hpp"

#include <fmt/format.h>

#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <mgi/error.hpp>

#include "planner/channel_planner.hpp"
#include "planner/cluster.hpp"
#include "planner/directory.hpp"

namespace mgi::control {
namespace {

topology::Infrastructure infrastructure(ServerGraph const& graph) {
    topology::Infrastructure made;
    for (Vertex const& vertex : graph.vertices()) {
        auto const kind = static_cast<VertexKind>(vertex.kind());
        bool const managed = kind == VertexKind::Cpu || kind == VertexKind::Gpu;
        bool const shared = kind == VertexKind::Network || !vertex.domain().empty();
        auto const id = static_cast<std::uint32_t>(made.graph.vertices.size());
        made.graph.vertices.push_back({id, vertex.name(), kind, managed});
        made.sites.push_back({shared ? topology::kEveryServer : 0,
                              vertex.parent() == 0 ? topology::kNoVertex : vertex.parent() - 1,
                              vertex.note()});
    }
    for (Link const& link : graph.links()) {
        if (link.gbps() == 0) continue;  // down
        made.graph.edges.push_back({link.from(), link.to(), link.gbps(), link.kind()});
    }
    return made;
}

std::string domain_of(ServerGraph const& graph) {
    for (Vertex const& vertex : graph.vertices()) {
        if (!vertex.domain().empty()) return vertex.domain();
    }
    return {};
}

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
        auto const sources = places(request.sources, directory.sources);
        auto const destinations = places(request.destinations, directory.destinations);
        planner::PathRules rules;
        rules.relay_gpus = request.relay_gpus;
        rules.relay_host = request.relay_host;
        rules.max_nics = request.max_nics;
        planner::ChannelPlan const plan = planner_.plan(sources, destinations, rules);
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

    void add(std::uint32_t agent, Known& known) {
        try {
            auto const made = infrastructure(known.graph);
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
    std::map<std::uint32_t, Known> known_;
    std::unordered_map<planner::ServerId, std::uint32_t> agents_;
};

}  // namespace

std::unique_ptr<ChannelPlans> make_plans() {
    return std::make_unique<PlannerPlans>();
}

}  // namespace mgi::control
