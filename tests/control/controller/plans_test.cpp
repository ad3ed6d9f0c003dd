// The planner as the controller drives it: servers come, change, fail and come back.
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>
#include <vector>

#include "control/agent/agent.hpp"
#include "control/controller/plans.hpp"
#include "control/controller/server_graph.hpp"
#include "control/state/rig.hpp"
#include "planner/directory.hpp"
#include "planner/table_codec.hpp"
#include "support/expect_error.hpp"
#include "topology/presets.hpp"

namespace mgi::control::test {
namespace {

using mgi::test::expect_error;

MakePlan request(std::uint32_t from, std::uint32_t to) {
    MakePlan made;
    made.channel = 1;
    made.generation = 1;
    made.sources = {{1, from, 1}};
    made.destinations = {{2, to, 2}};
    return made;
}

ServerGraph networked() {
    ServerGraph graph = server_graph();
    Vertex& network = *graph.add_vertices();
    network.set_name("network");
    network.set_kind(4);
    Vertex& nic = *graph.add_vertices();
    nic.set_name("nic0");
    nic.set_kind(2);
    auto const link = [&](std::uint32_t a, std::uint32_t b) {
        for (bool const there : {true, false}) {
            Link& one = *graph.add_links();
            one.set_from(there ? a : b);
            one.set_to(there ? b : a);
            one.set_gbps(12.5);
            one.set_kind("pcie");
        }
    };
    link(4, 0);
    link(4, 3);
    return graph;
}

TEST(ControlPlans, NamesServersAsAgentsDo) {
    auto const plans = make_plans();
    plans->learn(LearnServer{40, "b", networked()});
    plans->learn(LearnServer{7, "a", networked()});
    PlanMade const made = plans->plan(request(7, 40));
    ASSERT_EQ(made.tables.size(), 2u);
    EXPECT_FALSE(planner::decode_table(made.tables.at(7)).vertices.empty());
    EXPECT_TRUE(made.tables.contains(40));
    auto const directory = planner::decode_directory(made.directory);
    EXPECT_EQ(directory.sources.at(0), (planner::Place{7, 1}));
    EXPECT_EQ(directory.destinations.at(0), (planner::Place{40, 2}));
}

TEST(ControlPlans, FollowsLinksAndServers) {
    auto const plans = make_plans();
    plans->learn(LearnServer{1, "a", networked()});
    plans->learn(LearnServer{2, "b", networked()});
    PlanMade const whole = plans->plan(request(1, 2));
    Link down;
    down.set_from(4);
    down.set_to(3);
    plans->learn(LearnLink{1, down});
    expect_error(ErrorCode::InvalidArgument, {"a"}, [&] { plans->plan(request(1, 2)); });
    down.set_gbps(12.5);
    plans->learn(LearnLink{1, down});
    EXPECT_EQ(plans->plan(request(1, 2)).tables, whole.tables);
    Link fresh;  // a link that was not there when the server came
    fresh.set_from(1);
    fresh.set_to(2);
    fresh.set_gbps(300);
    plans->learn(LearnLink{1, fresh});
    EXPECT_NE(plans->plan(request(1, 1)).tables, whole.tables);
    plans->forget(2);
    expect_error(ErrorCode::NotFound, {"agent 2"}, [&] { plans->plan(request(1, 2)); });
    plans->learn(LearnServer{2, "b", networked()});
    EXPECT_EQ(plans->plan(request(2, 2)).tables.size(), 1u);
}

TEST(ControlPlans, AServerThatThePlannerRefusesSpoilsItsOwnPlansOnly) {
    auto const plans = make_plans();
    ServerGraph two = networked();
    two.mutable_vertices(4)->set_kind(4);
    EXPECT_THROW(plans->learn(LearnServer{1, "a", two}), Error);
    plans->learn(LearnServer{2, "b", networked()});
    expect_error(ErrorCode::InvalidArgument, {"two networks"}, [&] { plans->plan(request(1, 2)); });
    EXPECT_EQ(plans->plan(request(2, 2)).tables.size(), 1u);
    plans->learn(LearnServer{1, "a", networked()});
    EXPECT_EQ(plans->plan(request(1, 2)).tables.size(), 2u);
}

/// A plan, or why there is none.
std::string outcome(ChannelPlans& plans, MakePlan const& request) {
    try {
        PlanMade const made = plans.plan(request);
        std::string all = made.directory;
        for (auto const& [agent, table] : made.tables) all += std::to_string(agent) + ":" + table;
        return all;
    } catch (Error const& error) {
        return error.what();
    }
}

/// Servers of a preset, and what their links carry now.
class ChangingCluster {
public:
    ChangingCluster(std::string const& preset, std::uint32_t servers, std::uint64_t seed)
        : random_(seed) {
        auto const whole = topology::preset_server(preset);
        for (std::uint32_t agent = 1; agent <= servers; ++agent) {
            graphs_[agent] = message_of(whole);
            arrive(agent);
        }
        for (mgi::Vertex const& vertex : whole.graph.vertices) {
            if (vertex.kind == VertexKind::Gpu) gpus_.push_back(vertex.id);
        }
    }

    MakePlan channel(std::uint32_t id) {
        MakePlan made;
        made.channel = id;
        made.relay_host = id % 4 != 0;
        for (auto* ends : {&made.sources, &made.destinations}) {
            for (auto const& [agent, graph] : graphs_) {
                for (std::uint32_t const gpu : gpus_) {
                    if (random_() % 2 == 0) ends->push_back({0, agent, gpu});
                }
            }
            if (ends->empty()) ends->push_back({0, 1, gpus_[0]});
        }
        return made;
    }

    /// A link fails, comes back or gets another rate; now and then a server comes anew.
    void change() {
        auto const agent = std::uint32_t(1 + random_() % graphs_.size());
        if (random_() % 16 == 0) return arrive(agent);
        auto& links = *graphs_[agent].mutable_links();
        Link& link = *links.Mutable(static_cast<int>(random_() % std::uint64_t(links.size())));
        link.set_gbps(link.gbps() == 0 ? 12.5 : random_() % 2 == 0 ? 0 : link.gbps() / 2 + 1);
        plans->learn(LearnLink{agent, link});
    }

    /// By a planner that sees the cluster for the first time.
    std::string anew(MakePlan const& request) {
        auto const fresh = make_plans();
        for (auto const& [agent, graph] : graphs_)
            fresh->learn(LearnServer{agent, name(agent), graph});
        return outcome(*fresh, request);
    }

    std::unique_ptr<ChannelPlans> plans = make_plans();

private:
    static std::string name(std::uint32_t agent) { return "node" + std::to_string(agent); }
    void arrive(std::uint32_t agent) {
        plans->learn(LearnServer{agent, name(agent), graphs_.at(agent)});
    }

    std::mt19937_64 random_;
    std::map<std::uint32_t, ServerGraph> graphs_;
    std::vector<std::uint32_t> gpus_;
};

TEST(ControlPlans, AChannelPlannedAgainHasTheTablesOfAPlanAnew) {
    std::size_t refused = 0;
    std::size_t planned = 0;
    for (char const* const preset : {"dgx-1", "hgx-h100", "gb200-nvl72"}) {
        ChangingCluster cluster(preset, 3, 7);
        std::vector<MakePlan> channels;
        for (std::uint32_t id = 1; id <= 4; ++id) channels.push_back(cluster.channel(id));
        for (int step = 0; step < 40; ++step) {
            cluster.change();
            if (step % 3 == 0) continue;  // several changes at once
            for (MakePlan const& channel : channels) {
                std::string const again = outcome(*cluster.plans, channel);
                ASSERT_EQ(again, cluster.anew(channel)) << preset << ", step " << step;
                ++(again.find("no way") == std::string::npos ? planned : refused);
            }
        }
    }
    EXPECT_GT(planned, 50u);
    EXPECT_GT(refused, 5u);
}

TEST(ControlPlans, AnEndpointThatMovedMakesAPlanAnew) {
    ChangingCluster cluster("hgx-h100", 2, 1);
    MakePlan channel = cluster.channel(1);
    cluster.plans->plan(channel);
    channel.sources.erase(channel.sources.begin());
    EXPECT_EQ(outcome(*cluster.plans, channel), cluster.anew(channel));
}

TEST(ControlPlans, AGraphComesOutAsTheAgentSawIt) {
    bool some_direct = false;
    for (topology::PresetInfo const& preset : topology::presets()) {
        topology::Infrastructure const seen = topology::preset_server(preset.name);
        ServerGraph sent;
        ASSERT_TRUE(sent.ParseFromString(message_of(seen).SerializeAsString()));
        topology::Infrastructure const made = infrastructure_of(sent);
        ASSERT_EQ(made.sites.size(), seen.sites.size()) << preset.name;
        for (std::size_t v = 0; v < seen.sites.size(); ++v) {
            EXPECT_EQ(made.sites[v].nic_direct, seen.sites[v].nic_direct) << preset.name;
            EXPECT_EQ(made.sites[v].server, seen.sites[v].server) << preset.name;
            EXPECT_EQ(made.sites[v].parent, seen.sites[v].parent) << preset.name;
            EXPECT_EQ(made.graph.vertices[v].name, seen.graph.vertices[v].name) << preset.name;
            EXPECT_EQ(made.graph.vertices[v].managed, seen.graph.vertices[v].managed);
            some_direct = some_direct || made.sites[v].nic_direct;
        }
        EXPECT_EQ(made.graph.edges.size(), seen.graph.edges.size()) << preset.name;
    }
    EXPECT_TRUE(some_direct);
}

}  // namespace
}  // namespace mgi::control::test
