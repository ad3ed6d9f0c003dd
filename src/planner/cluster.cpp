#include "planner/cluster.hpp"

#include <algorithm>
#include <limits>
#include <set>

#include <mgi/error.hpp>

#include "planner/path_list.hpp"
#include "planner/paths.hpp"
#include "planner/refuse.hpp"

namespace mgi::planner {
namespace {

static_assert(topology::kMostVertices - 1 <= std::numeric_limits<LocalVertex>::max());

std::string edge_text(Graph const& graph, Edge const& edge) {
    auto const name = [&](std::uint32_t v) {
        return v < graph.vertices.size() ? graph.vertices[v].name : "vertex " + std::to_string(v);
    };
    return "the link from " + name(edge.from) + " to " + name(edge.to);
}

/// The arcs of a server's graph, ascending.
std::vector<Arc> arcs_of(Graph const& graph, std::string const& who) {
    std::vector<Arc> arcs;
    arcs.reserve(graph.edges.size());
    for (Edge const& edge : graph.edges) {
        if (edge.from >= graph.vertices.size() || edge.to >= graph.vertices.size()) {
            refuse(who + edge_text(graph, edge) + ": there are only " +
                   std::to_string(graph.vertices.size()) + " vertices");
        }
        if (!(edge.gbps > 0 && edge.gbps <= kMostGbps)) {
            refuse(who + edge_text(graph, edge) + " has a capacity of " +
                   std::to_string(edge.gbps) + " GB/s; expected more than 0 and at most 10^9");
        }
        if (edge.from == edge.to) {
            // A device reaches its own memory: true, and no way to anywhere.
            if (edge.kind == kMemoryEdge) continue;
            refuse(who + edge_text(graph, edge) + " leads back to where it starts");
        }
        arcs.push_back({edge.from, edge.to, std::max<Capacity>(1, capacity_of(edge.gbps))});
    }
    std::sort(arcs.begin(), arcs.end(), [](Arc const& a, Arc const& b) {
        return a.from != b.from ? a.from < b.from : a.to < b.to;
    });
    for (std::size_t i = 1; i < arcs.size(); ++i) {
        if (arcs[i - 1].from == arcs[i].from && arcs[i - 1].to == arcs[i].to) {
            refuse(who + edge_text(graph, {arcs[i].from, arcs[i].to, 0, {}}) +
                   " is given twice; parallel links are one edge of their sum");
        }
    }
    return arcs;
}

}  // namespace

ServerId Cluster::add_server(topology::Infrastructure const& one_server, std::string name,
                             std::string const& domain) {
    if (name.empty()) refuse("a server without a name");
    if (by_name_.contains(name)) refuse("there is a server '" + name + "' already");
    std::string const who = "server '" + name + "': ";
    Graph const& graph = one_server.graph;
    if (graph.vertices.size() != one_server.sites.size()) {
        refuse(who + std::to_string(graph.vertices.size()) + " vertices, but sites of " +
               std::to_string(one_server.sites.size()));
    }
    if (graph.vertices.size() > topology::kMostVertices) {
        refuse(who + std::to_string(graph.vertices.size()) + " vertices are more than " +
               std::to_string(topology::kMostVertices));
    }
    std::vector<ShapeVertex> vertices;
    vertices.reserve(graph.vertices.size());
    std::set<std::string> distinct;
    std::uint32_t networks = 0;
    std::uint32_t spine = kNowhere;
    for (Vertex const& vertex : graph.vertices) {
        auto const at = std::uint32_t(vertices.size());
        if (vertex.id != at) {
            refuse(who + "vertex " + vertex.name + " has id " + std::to_string(vertex.id) +
                   ", which is taken or leaves a gap; expected " + std::to_string(at));
        }
        if (!distinct.insert(vertex.name).second) {
            refuse(who + "two vertices are called " + vertex.name);
        }
        std::uint32_t const server = one_server.sites[at].server;
        if (vertex.kind == VertexKind::Network) {
            if (++networks > 1) refuse(who + "two networks; all NICs lead to one");
        } else if (server == topology::kEveryServer) {
            if (spine != kNowhere) refuse(who + "two NVLink domains");
            spine = at;
        } else if (server != 0) {
            refuse(who + vertex.name + " is of server " + std::to_string(server) +
                   "; add servers one by one");
        }
        bool const able = vertex.kind == VertexKind::Cpu || vertex.kind == VertexKind::Gpu;
        bool const direct = vertex.kind == VertexKind::Nic && one_server.sites[at].nic_direct;
        vertices.push_back({vertex.kind, vertex.managed && able, direct});
    }
    auto const managed = std::count_if(vertices.begin(), vertices.end(),
                                       [](ShapeVertex const& vertex) { return vertex.managed; });
    std::string const large = too_large(std::size_t(managed), vertices.size(), graph.edges.size());
    if (!large.empty()) refuse(who + large);
    if (!domain.empty() && spine == kNowhere) {
        refuse(who + "no switch of NVLink domain '" + domain + "' is among its vertices");
    }
    if (domain.empty()) spine = kNowhere;  // shared with nobody: a switch like others

    Server made;
    made.shape = made.whole = shared(std::move(vertices), arcs_of(graph, who), spine);
    std::string key;
    for (Vertex const& vertex : graph.vertices) key += vertex.name + '\0';
    made.names = names_[key].lock();
    if (made.names == nullptr) {
        std::vector<std::string> names;
        for (Vertex const& vertex : graph.vertices) names.push_back(vertex.name);
        made.names = std::make_shared<std::vector<std::string> const>(std::move(names));
        names_[key] = made.names;
    }
    if (!domain.empty()) {
        made.domain =
            domains_.try_emplace(domain, std::uint32_t(domains_.size() + 1)).first->second;
    }
    made.name = name;
    auto const id = ServerId(servers_.size());
    servers_.push_back(std::move(made));
    by_name_.emplace(std::move(name), id);
    ++version_;
    return id;
}

void Cluster::remove_server(ServerId server) {
    by_name_.erase(existing(server).name);
    changes_.erase(server);
    servers_[server] = {};
    ++version_;
}

void Cluster::set_link(ServerId server, std::uint32_t from, std::uint32_t to, double gbps) {
    link_of(server, from, to);
    Capacity const capacity = gbps == 0 ? 0 : std::max<Capacity>(1, capacity_of(gbps));
    changes_[server].links[{from, to}] = capacity;
    rebuild(server);
}

void Cluster::recover_link(ServerId server, std::uint32_t from, std::uint32_t to) {
    link_of(server, from, to);
    changes_[server].links.erase({from, to});
    rebuild(server);
}

void Cluster::set_nic(ServerId server, std::uint32_t nic, bool up) {
    Server const& at = existing(server);
    if (nic >= at.names->size() || !at.shape->is(nic, VertexKind::Nic)) {
        refuse("server '" + at.name + "': " +
               (nic < at.names->size() ? (*at.names)[nic] : "vertex " + std::to_string(nic)) +
               " is no NIC");
    }
    auto& down = changes_[server].nics_down;
    auto const found = std::lower_bound(down.begin(), down.end(), nic);
    bool const is_down = found != down.end() && *found == nic;
    if (up && is_down) down.erase(found);
    if (!up && !is_down) down.insert(found, nic);
    rebuild(server);
}

void Cluster::rebuild(ServerId server) {
    ++version_;
    Server& at = servers_[server];
    Changes const& changes = changes_[server];
    if (changes.links.empty() && changes.nics_down.empty()) {
        at.shape = at.whole;
        changes_.erase(server);
        return;
    }
    auto const is_down = [&](std::uint32_t v) {
        return std::binary_search(changes.nics_down.begin(), changes.nics_down.end(), v);
    };
    std::vector<Arc> arcs;
    for (Arc arc : at.whole->arcs()) {
        if (auto const found = changes.links.find({arc.from, arc.to});
            found != changes.links.end()) {
            arc.capacity = found->second;
        }
        if (arc.capacity == 0 || is_down(arc.from) || is_down(arc.to)) continue;
        arcs.push_back(arc);
    }
    at.shape = shared(at.whole->vertices(), std::move(arcs), at.whole->domain());
}

std::shared_ptr<Shape const> Cluster::shared(std::vector<ShapeVertex> vertices,
                                             std::vector<Arc> arcs, std::uint32_t domain) {
    std::string key = Shape::key_of(vertices, arcs, domain);
    auto& known = shapes_[key];
    std::shared_ptr<Shape const> shape = known.lock();
    if (shape == nullptr) {
        shape = std::make_shared<Shape const>(next_shape_++, std::move(vertices), std::move(arcs),
                                              domain);
        known = shape;
        drop_unused();
    }
    return shape;
}

/// Forgets shapes and names that no server has, now and then.
void Cluster::drop_unused() {
    if (shapes_.size() < drop_at_) return;
    std::erase_if(shapes_, [](auto const& entry) { return entry.second.expired(); });
    std::erase_if(names_, [](auto const& entry) { return entry.second.expired(); });
    drop_at_ = std::max<std::size_t>(64, 2 * shapes_.size());
}

std::vector<ServerId> Cluster::servers() const {
    std::vector<ServerId> found;
    for (ServerId id = 0; id < servers_.size(); ++id) {
        if (has(id)) found.push_back(id);
    }
    return found;
}

std::size_t Cluster::shapes() const {
    std::set<Shape const*> distinct;
    for (Server const& server : servers_) {
        if (server.shape != nullptr) distinct.insert(server.shape.get());
    }
    return distinct.size();
}

std::optional<ServerId> Cluster::find(std::string const& name) const {
    auto const found = by_name_.find(name);
    if (found == by_name_.end()) return std::nullopt;
    return found->second;
}

Cluster::Server const& Cluster::existing(ServerId server) const {
    if (!has(server)) {
        refuse("there is no server " + std::to_string(server) +
               (server < servers_.size() ? " any more" : ""));
    }
    return servers_[server];
}

std::string const& Cluster::name(ServerId server) const {
    return existing(server).name;
}

std::shared_ptr<Shape const> const& Cluster::shape(ServerId server) const {
    return existing(server).shape;
}

std::string const& Cluster::vertex_name(Place place) const {
    Server const& at = existing(place.server);
    if (place.vertex >= at.names->size()) {
        refuse("server '" + at.name + "' has no vertex " + std::to_string(place.vertex));
    }
    return (*at.names)[place.vertex];
}

std::string Cluster::name(Place place) const {
    return name(place.server) + "/" + vertex_name(place);
}

void Cluster::check_endpoint(Place place) const {
    std::string const& vertex = vertex_name(place);
    if (!servers_[place.server].shape->managed(place.vertex)) {
        refuse("no endpoint can be at " + name(place.server) + "/" + vertex +
               ", which MGI does not manage");
    }
}

Capacity Cluster::link_of(ServerId server, std::uint32_t from, std::uint32_t to) const {
    Server const& at = existing(server);
    for (Arc const& arc : at.whole->arcs()) {
        if (arc.from == from && arc.to == to) return arc.capacity;
    }
    auto const text = [&](std::uint32_t v) {
        return v < at.names->size() ? (*at.names)[v] : "vertex " + std::to_string(v);
    };
    refuse("server '" + at.name + "' has no link from " + text(from) + " to " + text(to));
}

}  // namespace mgi::planner
