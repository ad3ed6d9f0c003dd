#include "topology/tree.hpp"

#include <cstdio>
#include <map>
#include <utility>
#include <vector>

namespace mgi::topology {
namespace {

std::string gbps_text(double gbps) {
    char text[32];
    std::snprintf(text, sizeof(text), "%.7g", gbps);
    return text;
}

class TreeWriter {
public:
    explicit TreeWriter(Infrastructure const& infrastructure)
        : infrastructure_(infrastructure),
          children_(infrastructure.sites.size()),
          links_(infrastructure.sites.size()) {
        for (std::uint32_t id = 0; id < infrastructure.sites.size(); ++id) {
            std::uint32_t const parent = infrastructure.sites[id].parent;
            if (parent != kNoVertex) {
                children_[parent].push_back(id);
            } else {
                roots_[infrastructure.sites[id].server].push_back(id);
            }
        }
        for (Edge const& edge : infrastructure.graph.edges) links_[edge.from].push_back(&edge);
    }

    std::string write() {
        // By server, and kEveryServer, the largest number, behind all.
        for (std::uint32_t server = 0; server < infrastructure_.servers; ++server) roots_[server];
        for (auto const& [server, roots] : roots_) {
            bool const shared = server == kEveryServer;
            if (!shared) text_ += "server " + std::to_string(server) + "\n";
            for (std::uint32_t const root : roots) write_below(root, shared ? 0 : 1);
        }
        return std::move(text_);
    }

private:
    /// Depth-first without recursion: a PCI tree may be as deep as its file says.
    void write_below(std::uint32_t root, std::size_t depth) {
        std::vector<std::pair<std::uint32_t, std::size_t>> rest{{root, depth}};
        while (!rest.empty()) {
            auto const [id, level] = rest.back();
            rest.pop_back();
            write_line(id, level);
            for (auto child = children_[id].rbegin(); child != children_[id].rend(); ++child) {
                rest.emplace_back(*child, level + 1);
            }
        }
    }

    void write_line(std::uint32_t id, std::size_t level) {
        Vertex const& vertex = infrastructure_.graph.vertices[id];
        Site const& site = infrastructure_.sites[id];
        text_ += std::string(2 * level, ' ');
        if (vertex.kind == VertexKind::Gpu) text_ += "gpu ";
        text_ += vertex.name;
        if (!site.note.empty()) text_ += " (" + site.note + ")";
        for (Edge const* const edge : links_[id]) {
            if (edge->to == site.parent) text_ += "  " + gbps_text(edge->gbps);
        }
        // The network and NVSwitches stand at the other end of everybody's links.
        bool const hub = site.parent == kNoVertex && vertex.kind != VertexKind::Cpu;
        bool first = true;
        for (Edge const* const edge : links_[id]) {
            if (hub || edge->to == site.parent) continue;
            if (infrastructure_.sites[edge->to].parent == id) continue;
            text_ += first ? "  -> " : ", ";
            first = false;
            text_ += infrastructure_.graph.vertices[edge->to].name + " " + gbps_text(edge->gbps);
        }
        text_ += '\n';
    }

    Infrastructure const& infrastructure_;
    std::map<std::uint32_t, std::vector<std::uint32_t>> roots_;  ///< by server
    std::vector<std::vector<std::uint32_t>> children_;
    std::vector<std::vector<Edge const*>> links_;
    std::string text_;
};

}  // namespace

std::string tree_text(Infrastructure const& infrastructure) {
    return TreeWriter(infrastructure).write();
}

}  // namespace mgi::topology
