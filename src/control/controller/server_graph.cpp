#include "control/controller/server_graph.hpp"

namespace mgi::control {

topology::Infrastructure infrastructure_of(ServerGraph const& graph) {
    topology::Infrastructure made;
    for (Vertex const& vertex : graph.vertices()) {
        auto const kind = static_cast<VertexKind>(vertex.kind());
        bool const managed = kind == VertexKind::Cpu || kind == VertexKind::Gpu;
        bool const shared = kind == VertexKind::Network || !vertex.domain().empty();
        auto const id = static_cast<std::uint32_t>(made.graph.vertices.size());
        made.graph.vertices.push_back({id, vertex.name(), kind, managed});
        made.sites.push_back({shared ? topology::kEveryServer : 0,
                              vertex.parent() == 0 ? topology::kNoVertex : vertex.parent() - 1,
                              vertex.note(), vertex.nic_direct()});
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

}  // namespace mgi::control
