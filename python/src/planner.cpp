#include <nanobind/nanobind.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/tuple.h>

#include <algorithm>
#include <mutex>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <mgi/error.hpp>

#include "bindings.hpp"
#include "interpreter.hpp"
#include "options.hpp"
#include "planner/channel_planner.hpp"
#include "planner/congestion.hpp"
#include "planner/optimizations.hpp"
#include "planner/split.hpp"
#include "planner/table_codec.hpp"
#include "topology.hpp"

namespace mgi::python {
namespace {

using namespace planner;
using Vertices = std::vector<std::uint32_t>;

/// A planner over the servers of a topology; vertices are numbered as there.
struct TopologyPlanner : SplitCluster {
    explicit TopologyPlanner(Topology const& read)
        : SplitCluster(split(read.infrastructure)), planner(cluster) {}

    [[nodiscard]] Place place(std::uint32_t vertex) const {
        if (vertex >= places.size()) {
            throw Error(ErrorCode::InvalidArgument,
                        "the topology has no vertex " + std::to_string(vertex));
        }
        if (places[vertex].server == kNowhere) {
            throw Error(ErrorCode::InvalidArgument, "no endpoint can be at vertex " +
                                                        std::to_string(vertex) +
                                                        ", which belongs to no one server");
        }
        return places[vertex];
    }
    [[nodiscard]] std::vector<Place> all(Vertices const& vertices) const {
        std::vector<Place> found;
        found.reserve(vertices.size());
        for (std::uint32_t const v : vertices) found.push_back(place(v));
        return found;
    }
    template <class List>
    [[nodiscard]] nb::list numbers(ServerId server, List const& vertices) const {
        nb::list list;
        for (auto const v : vertices) list.append(whole[server][v]);
        return list;
    }

    ChannelPlanner planner;
    std::mutex mutex;  ///< planning lets the GIL go
};

PathRules rules_of(nb::dict const& given) {
    PathRules rules;
    read_option(given, "relay_gpus", rules.relay_gpus);
    read_option(given, "relay_host", rules.relay_host);
    read_option(given, "max_nics", rules.max_nics);
    return rules;
}

/// Runs what plans without the GIL, one at a time.
template <class Work>
auto locked(TopologyPlanner& planner, Work&& work) {
    Unlocked const unlocked;
    std::lock_guard const lock(planner.mutex);
    return work();
}

nb::dict path_dict(TopologyPlanner const& planner, ClusterPath const& path) {
    nb::list vertices;
    for (Place const place : path.vertices) vertices.append(planner.whole_of(place));
    nb::dict dict;
    dict["vertices"] = vertices;
    dict["gbps"] = gbps_of(path.capacity);
    dict["capacity"] = path.capacity;
    dict["nic_direct"] = path.nic_direct;
    return dict;
}

nb::list paths(TopologyPlanner& planner, std::uint32_t from, std::uint32_t to,
               nb::dict const& given) {
    PathRules const rules = rules_of(given);
    auto const found = locked(planner, [&] {
        return planner.planner.paths(planner.place(from), planner.place(to), rules);
    });
    nb::list list;
    for (ClusterPath const& path : found) list.append(path_dict(planner, path));
    return list;
}

nb::list hop_list(TopologyPlanner const& planner, ServerId server,
                  std::vector<NextHop> const& hops) {
    nb::list list;
    for (NextHop const& hop : hops) {
        nb::dict dict;
        dict["next"] = planner.whole[server][hop.next];
        dict["stage"] = hop.stage;
        dict["path"] = planner.numbers(server, hop.path);
        dict["gbps"] = gbps_of(hop.capacity);
        list.append(dict);
    }
    return list;
}

nb::dict table_dict(TopologyPlanner const& planner, ServerId server, ServerTable const& table) {
    nb::list vertices;
    for (VertexTable const& vertex : table.vertices) {
        nb::list forwards;
        for (Forward const& forward : vertex.forwards) {
            nb::dict dict;
            bool const local = forward.target.kind == Target::Kind::Local;
            bool const network = forward.target.kind == Target::Kind::Network;
            dict["target"] = local ? "local" : network ? "network" : "nvlink domain";
            dict["destination"] =
                local ? nb::cast(planner.whole[server][forward.target.vertex]) : nb::none();
            dict["stage"] = forward.stage;
            dict["hops"] = hop_list(planner, server, forward.hops);
            forwards.append(dict);
        }
        nb::dict dict;
        dict["vertex"] = planner.whole[server][vertex.vertex];
        dict["forwards"] = forwards;
        vertices.append(dict);
    }
    nb::list arrivals;
    for (Arrival const& arrival : table.arrivals) {
        nb::dict dict;
        dict["gateway"] = to_string(arrival.gateway);
        dict["destination"] = planner.whole[server][arrival.destination];
        dict["hops"] = hop_list(planner, server, arrival.hops);
        arrivals.append(dict);
    }
    nb::dict dict;
    dict["vertices"] = vertices;
    dict["arrivals"] = arrivals;
    return dict;
}

nb::dict plan(TopologyPlanner& planner, Vertices const& sources, Vertices const& destinations,
              nb::dict const& given) {
    PathRules const rules = rules_of(given);
    ChannelPlan const made = locked(planner, [&] {
        return planner.planner.plan(planner.all(sources), planner.all(destinations), rules);
    });
    nb::list servers;
    for (ServerPlan const& server : made.servers) {
        ServerTable const table = decode_table(server.table->bytes);
        std::vector<std::string> names;
        for (std::uint32_t v = 0; v < planner.whole[server.server].size(); ++v) {
            names.push_back(planner.cluster.vertex_name({server.server, v}));
        }
        nb::dict dict;
        dict["server"] = server.server;
        dict["table"] = table_dict(planner, server.server, table);
        dict["text"] = to_text(table, names);
        dict["bytes"] = nb::bytes(server.table->bytes.data(), server.table->bytes.size());
        servers.append(dict);
    }
    nb::dict dict;
    dict["servers"] = servers;
    dict["directory"] = nb::bytes(made.directory->data(), made.directory->size());
    dict["table_bytes"] = made.distinct_bytes();
    dict["sent_bytes"] = made.sent_bytes();
    dict["two_level"] = made.lanes.two_level;
    dict["lanes"] = made.lanes.count;
    dict["group_size"] = made.lanes.group_size;
    dict["segment_bytes"] = made.batching.segment_bytes;
    dict["slots"] = made.batching.slots;
    return dict;
}

nb::list optimizations_of(TopologyPlanner& planner, Vertices const& sources,
                          Vertices const& destinations, nb::dict const& given) {
    PathRules const rules = rules_of(given);
    auto const found = locked(planner, [&] {
        return optimizations(planner.planner, planner.cluster, planner.all(sources),
                             planner.all(destinations), rules);
    });
    nb::list list;
    for (Optimization const& one : found) {
        nb::dict dict;
        dict["number"] = one.number;
        dict["name"] = one.name;
        dict["applies"] = one.applies;
        dict["why"] = one.why;
        list.append(dict);
    }
    return list;
}

using LinkLists = std::vector<std::vector<Vertices>>;

std::tuple<std::vector<std::vector<double>>, double, double> path_weights(
    std::vector<double> const& demands, LinkLists const& paths,
    std::vector<double> const& capacities, double tolerance) {
    if (demands.size() != paths.size()) {
        throw Error(ErrorCode::InvalidArgument, std::to_string(demands.size()) + " demands, but " +
                                                    std::to_string(paths.size()) +
                                                    " lists of paths");
    }
    std::vector<Commodity> commodities;
    for (std::size_t k = 0; k < demands.size(); ++k) commodities.push_back({demands[k], paths[k]});
    PathWeights found = least_congestion(commodities, capacities, tolerance);
    return {std::move(found.weights), found.congestion, found.bound};
}

using ArcTuple = std::tuple<std::uint32_t, std::uint32_t, Capacity>;
using PathPair = std::pair<Vertices, Capacity>;

std::vector<PathPair> joint_flow(std::uint32_t vertices, std::vector<ArcTuple> const& given,
                                 Vertices const& sources, Vertices const& sinks) {
    std::vector<Arc> arcs;
    auto const check = [&](std::uint32_t vertex) {
        if (vertex < vertices && vertices <= topology::kMostVertices) return;
        throw Error(ErrorCode::InvalidArgument, "vertex " + std::to_string(vertex) +
                                                    " of a graph of " + std::to_string(vertices));
    };
    for (auto const& [from, to, capacity] : given) {
        check(from);
        check(to);
        arcs.push_back({from, to, capacity});
    }
    for (std::uint32_t const v : sources) check(v);
    for (std::uint32_t const v : sinks) check(v);
    SmallFlow flow;
    PathList list;
    JointFlow().find({vertices, arcs, sources, sinks, [](std::uint32_t) { return false; }}, flow,
                     list);
    std::vector<PathPair> paths;
    for (std::uint32_t p = 0; p < list.size(); ++p) {
        paths.emplace_back(Vertices(list[p].vertices.begin(), list[p].vertices.end()),
                           list[p].capacity);
    }
    return paths;
}

}  // namespace

void bind_planner(nb::module_& module) {
    nb::class_<TopologyPlanner>(module, "Planner")
        .def_static(
            "over", [](Topology const& read) { return new TopologyPlanner(read); },
            nb::arg("topology"))
        .def_prop_ro("servers", [](TopologyPlanner const& p) { return p.cluster.size(); })
        .def_prop_ro("shapes", [](TopologyPlanner const& p) { return p.cluster.shapes(); })
        .def("paths", paths, nb::arg("source"), nb::arg("destination"), nb::arg("rules"))
        .def("plan", plan, nb::arg("sources"), nb::arg("destinations"), nb::arg("rules"))
        .def("optimizations", optimizations_of, nb::arg("sources"), nb::arg("destinations"),
             nb::arg("rules"));
    module.def("joint_flow", joint_flow, nb::arg("vertices"), nb::arg("arcs"), nb::arg("sources"),
               nb::arg("sinks"));
    module.def("path_weights", path_weights, nb::arg("demands"), nb::arg("paths"),
               nb::arg("capacities"), nb::arg("tolerance"));
}

}  // namespace mgi::python
