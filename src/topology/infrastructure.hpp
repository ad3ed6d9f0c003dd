/// \file
/// The infrastructure graph of servers that somebody described (a file, a discovery, a preset), and
/// what builds it by the rules of docs/design.md: NVSwitches of a server are one vertex, parallel
/// links one edge, NICs stay apart.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <mgi/graph.hpp>

namespace mgi::topology {

inline constexpr std::uint32_t kNoVertex = UINT32_MAX;
/// The server of a vertex that belongs to no one server: the network, an NVLink domain of several.
inline constexpr std::uint32_t kEveryServer = UINT32_MAX;

inline constexpr std::size_t kMostVertices = 1u << 16;
inline constexpr std::size_t kMostEdges = 1u << 20;

/// What is known of a vertex beyond the graph itself.
struct Site {
    std::uint32_t server = 0;
    std::uint32_t parent = kNoVertex;  ///< the next vertex toward the CPU
    std::string note;                  ///< for people: "sm 90", "200 Gb/s"
    /// Of a NIC: it reads and writes GPU memory itself, where no CPU is between them. No capacity of
    /// its own, but a path that needs no copy to the host.
    bool nic_direct = false;
};

/// Vertex i of `graph` has id i and sites[i]; from one vertex to another there is at most one edge.
struct Infrastructure {
    Graph graph;
    std::vector<Site> sites;
    std::uint32_t servers = 1;
    std::vector<std::string> warnings;  ///< what was guessed or left out, and where
};

/// Builds an Infrastructure. Throws Error(InvalidArgument) past kMostVertices or kMostEdges.
class GraphBuilder {
public:
    GraphBuilder() = default;
    /// Goes on with a graph.
    explicit GraphBuilder(Infrastructure made);

    /// What `name` is called on a server: with "h1/" in front on the second, "h2/" on the third.
    static std::string name_on(std::string const& name, std::uint32_t server);
    /// Named as `name_on` says; a name that its server already has gets "#2", "#3", ... behind it.
    std::uint32_t add(VertexKind kind, std::string const& name, std::uint32_t server,
                      std::string note = {});
    /// Adds to the edge from `from` to `to` what another link beside it carries.
    void connect(std::uint32_t from, std::uint32_t to, double gbps, std::string const& kind);
    /// In place of what the edge carried; makes it where there is none.
    void set_gbps(std::uint32_t from, std::uint32_t to, double gbps, std::string const& kind);
    void connect_both(std::uint32_t a, std::uint32_t b, double gbps, std::string const& kind);
    /// Connects both ways; `parent` is where the tree shows `child`.
    void hang(std::uint32_t child, std::uint32_t parent, double gbps, std::string const& kind);
    /// From each CPU of a server to each other one, at the rate of the CPU that sends.
    void mesh_cpus(std::vector<std::pair<std::uint32_t, double>> const& cpus);

    /// The one vertex of this name that belongs to every server; made when first asked for.
    std::uint32_t shared(VertexKind kind, std::string const& name);
    /// The one network vertex, the one NVSwitch vertex of a server, or (server kEveryServer) that of
    /// an NVLink domain of all servers; made when first asked for.
    std::uint32_t network();
    std::uint32_t nvswitch(std::uint32_t server);
    /// A NIC's way out and in: `mbps` megabits a second, beside those it has.
    void connect_network(std::uint32_t nic, double mbps);
    void set_nic_direct(std::uint32_t nic, bool direct) { made_.sites[nic].nic_direct = direct; }
    void set_note(std::uint32_t vertex, std::string note) {
        made_.sites[vertex].note = std::move(note);
    }
    void set_parent(std::uint32_t child, std::uint32_t parent) {
        made_.sites[child].parent = parent;
    }

    void warn(std::string warning) { made_.warnings.push_back(std::move(warning)); }
    [[nodiscard]] std::optional<std::uint32_t> find(std::string const& name) const;
    /// 0 where there is no edge.
    [[nodiscard]] double gbps(std::uint32_t from, std::uint32_t to) const;
    [[nodiscard]] Infrastructure const& made() const { return made_; }
    Infrastructure finish(std::uint32_t servers) &&;

private:
    std::uint32_t find_or_add(VertexKind kind, std::string const& name, std::uint32_t server);

    Infrastructure made_;
    std::unordered_map<std::uint64_t, std::size_t> edge_of_;
    std::unordered_map<std::string, std::uint32_t> vertex_of_;  ///< by name
    std::unordered_map<std::string, std::uint32_t> times_used_;
};

/// The graph without some of its vertices (`removed[v]`) and their edges, nor edges that carry nothing.
/// What hung from them hangs from nothing then.
Infrastructure without(Infrastructure const& made, std::vector<bool> const& removed);

}  // namespace mgi::topology
