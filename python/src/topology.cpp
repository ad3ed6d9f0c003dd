#include "topology.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/tuple.h>

#include <mutex>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "bindings.hpp"
#include "interpreter.hpp"
#include "options.hpp"
#include "planner/server_flows.hpp"
#include "topology/machine/machine.hpp"
#include "topology/presets.hpp"
#include "topology/readers/corrections.hpp"
#include "topology/readers/read.hpp"
#include "topology/tree.hpp"

namespace mgi::python {
namespace {

using planner::Relays;

/// `given`, and behind it the facts of a file of corrections (empty: none).
topology::Facts facts_of(nb::dict const& given, std::string const& config = {}) {
    topology::Facts facts;
    if (!config.empty()) {
        facts = topology::read_corrections(topology::Source::of_file(config)).facts;
    }
    read_option(given, "sm", facts.sm);
    read_option(given, "nvs_links", facts.nvs_links);
    read_option(given, "pcie_gen", facts.pcie_gen);
    read_option(given, "cpu", facts.cpu);
    read_option(given, "nic_gbps", facts.nic_gbps);
    read_option(given, "nic_gbps_of", facts.nic_gbps_of);
    return facts;
}

Topology* topology_of(topology::ReadTopology read) {
    return new Topology{topology::to_string(read.format), std::move(read.infrastructure)};
}

Topology* read_file(std::string const& path, nb::dict const& given, std::string const& config) {
    topology::Facts const facts = facts_of(given, config);
    Unlocked const unlocked;
    return topology_of(topology::read_topology_file(path, facts));
}

Topology* read_text(std::string const& name, std::string const& text, nb::dict const& given) {
    topology::Facts const facts = facts_of(given);
    Unlocked const unlocked;
    return topology_of(topology::read_topology(topology::Source(name, text), facts));
}

Topology* make_preset(std::string const& name, std::optional<std::uint32_t> servers) {
    Unlocked const unlocked;
    return new Topology{"preset", topology::preset(name, servers)};
}

Topology* this_machine(nb::dict const& given, std::string const& config) {
    topology::Facts const facts = facts_of(given, config);
    Unlocked const unlocked;
    auto made = topology::discover_machine(topology::MachineSources::of_this_machine(), facts);
    return new Topology{"machine", std::move(made)};
}

void correct(Topology& made, std::string const& config) {
    Unlocked const unlocked;
    made.infrastructure = topology::correct(
        made.infrastructure, topology::read_corrections(topology::Source::of_file(config)));
}

nb::list preset_list() {
    nb::list list;
    for (topology::PresetInfo const& preset : topology::presets()) {
        list.append(nb::make_tuple(std::string(preset.name), std::string(preset.about)));
    }
    return list;
}

nb::list vertices_of(Topology const& read) {
    topology::Infrastructure const& infrastructure = read.infrastructure;
    nb::list list;
    for (Vertex const& vertex : infrastructure.graph.vertices) {
        topology::Site const& site = infrastructure.sites[vertex.id];
        nb::dict dict;
        dict["name"] = vertex.name;
        dict["kind"] = to_string(vertex.kind);
        dict["managed"] = vertex.managed;
        dict["server"] = site.server == topology::kEveryServer ? nb::none() : nb::cast(site.server);
        dict["parent"] = site.parent == topology::kNoVertex
                             ? nb::none()
                             : nb::cast(infrastructure.graph.vertices[site.parent].name);
        dict["note"] = site.note;
        if (vertex.kind == VertexKind::Nic) dict["nic_direct"] = site.nic_direct;
        list.append(dict);
    }
    return list;
}

nb::list edges_of(Topology const& read) {
    auto const& vertices = read.infrastructure.graph.vertices;
    nb::list list;
    for (Edge const& edge : read.infrastructure.graph.edges) {
        nb::dict dict;
        dict["from"] = vertices[edge.from].name;
        dict["to"] = vertices[edge.to].name;
        dict["gbps"] = edge.gbps;
        dict["kind"] = edge.kind;
        list.append(dict);
    }
    return list;
}

/// The flows of one server; keeps no reference to the topology.
struct Flows {
    Flows(Topology const& read, std::uint32_t server) : solver(read.infrastructure, server) {
        for (std::uint32_t const gpu : solver.gpus()) {
            names.push_back(read.infrastructure.graph.vertices[gpu].name);
        }
    }
    planner::ServerFlows solver;
    std::vector<std::string> names;
    std::mutex mutex;  ///< the solver's searches share memory, and run without the GIL
};

using Pair = std::pair<double, double>;

/// (with relays, without) in GB/s from the GPU of that index to each GPU of the server.
std::vector<Pair> flows_from(Flows& flows, std::size_t source) {
    Unlocked const unlocked;
    std::lock_guard const lock(flows.mutex);
    auto const& gpus = flows.solver.gpus();
    std::vector<Pair> found;
    for (std::uint32_t const gpu : gpus) {
        found.emplace_back(
            planner::gbps_of(flows.solver.between(gpus.at(source), gpu, Relays::Allowed)),
            planner::gbps_of(flows.solver.between(gpus.at(source), gpu, Relays::None)));
    }
    return found;
}

/// The same to the network, and from it.
std::pair<Pair, Pair> network_flows(Flows& flows, std::size_t index) {
    Unlocked const unlocked;
    std::lock_guard const lock(flows.mutex);
    std::uint32_t const gpu = flows.solver.gpus().at(index);
    return {{planner::gbps_of(flows.solver.to_network(gpu, Relays::Allowed)),
             planner::gbps_of(flows.solver.to_network(gpu, Relays::None))},
            {planner::gbps_of(flows.solver.from_network(gpu, Relays::Allowed)),
             planner::gbps_of(flows.solver.from_network(gpu, Relays::None))}};
}

using ArcTuple = std::tuple<std::uint32_t, std::uint32_t, planner::Capacity>;
using PathPair = std::pair<std::vector<std::uint32_t>, planner::Capacity>;

std::pair<planner::Capacity, std::vector<PathPair>> max_flow(std::uint32_t vertices,
                                                             std::vector<ArcTuple> const& given,
                                                             std::uint32_t source,
                                                             std::uint32_t sink) {
    std::vector<planner::Arc> arcs;
    for (auto const& [from, to, capacity] : given) arcs.push_back({from, to, capacity});
    planner::FlowNetwork network(vertices, std::move(arcs));
    planner::Flow const flow = network.max_flow(source, sink);
    std::vector<PathPair> paths;
    for (planner::FlowPath& path : network.paths(flow, source, sink)) {
        paths.emplace_back(std::move(path.vertices), path.capacity);
    }
    return {flow.value, std::move(paths)};
}

}  // namespace

void bind_topology(nb::module_& module) {
    module.def("presets", preset_list);
    nb::class_<Topology>(module, "Topology")
        .def_static("preset", make_preset, nb::arg("name"), nb::arg("servers").none())
        .def_static("read", read_file, nb::arg("path"), nb::arg("facts"), nb::arg("config"))
        .def_static("parse", read_text, nb::arg("name"), nb::arg("text"), nb::arg("facts"))
        .def_static("this_machine", this_machine, nb::arg("facts"), nb::arg("config"))
        .def("correct", correct, nb::arg("config"))
        .def_ro("format", &Topology::format)
        .def_prop_ro("servers", [](Topology const& read) { return read.infrastructure.servers; })
        .def_prop_ro("warnings", [](Topology const& read) { return read.infrastructure.warnings; })
        .def("tree", [](Topology const& read) { return tree_text(read.infrastructure); })
        .def("vertices", vertices_of)
        .def("edges", edges_of)
        .def(
            "flows",
            [](Topology const& read, std::uint32_t server) { return new Flows(read, server); },
            nb::arg("server"));
    nb::class_<Flows>(module, "ServerFlows")
        .def_prop_ro("gpus", [](Flows const& flows) { return flows.names; })
        .def("pairs", flows_from, nb::arg("source"))
        .def("network", network_flows, nb::arg("gpu"));
    module.def("max_flow", max_flow, nb::arg("vertices"), nb::arg("arcs"), nb::arg("source"),
               nb::arg("sink"));
}

}  // namespace mgi::python
