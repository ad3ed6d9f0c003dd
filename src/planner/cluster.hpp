/// \file
/// The servers that there are. Servers of equal shape share one graph, and with it every solution, so
/// that a cluster's cost grows with its shapes and not with its servers.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "planner/shape.hpp"
#include "topology/infrastructure.hpp"

namespace mgi::planner {

/// Number of a server in its cluster; not used again when the server is gone.
using ServerId = std::uint32_t;

/// A vertex of a server.
struct Place {
    ServerId server = 0;
    std::uint32_t vertex = 0;
    auto operator<=>(Place const&) const = default;
};

/// Not thread-safe: who shares it, with the planners over it, holds one lock around them all.
///
/// Errors are Error(InvalidArgument) whose text names the server and the vertices.
class Cluster {
public:
    /// Adds a server that this graph describes: all vertices are of server 0 or of every server, and
    /// keep their ids. A switch of every server is the NVLink domain's; servers that say the same
    /// `domain` share it, one that says none has it alone. Refuses what no server can be: one that is
    /// too large (planner/limits.hpp), a name that is taken or empty, an edge to a vertex that there is not, from a vertex to itself (but one of
    /// kind "memory", which is left out), twice, or with a capacity that is not above 0; two networks
    /// or two domains; vertices whose ids are not 0, 1, 2, ...
    ServerId add_server(topology::Infrastructure const& one_server, std::string name,
                        std::string const& domain = {});
    void remove_server(ServerId server);

    /// A link's capacity from now on, in GB/s; 0 is a link that failed. Throws where the server's own
    /// graph has no such edge.
    void set_link(ServerId server, std::uint32_t from, std::uint32_t to, double gbps);
    /// The link is again as it was when the server was added.
    void recover_link(ServerId server, std::uint32_t from, std::uint32_t to);
    /// A NIC that is down has no links.
    void set_nic(ServerId server, std::uint32_t nic, bool up);

    /// Servers that there are, ascending.
    [[nodiscard]] std::vector<ServerId> servers() const;
    [[nodiscard]] std::size_t size() const { return by_name_.size(); }
    /// Shapes that servers have now.
    [[nodiscard]] std::size_t shapes() const;
    [[nodiscard]] bool has(ServerId server) const {
        return server < servers_.size() && servers_[server].shape != nullptr;
    }
    [[nodiscard]] std::optional<ServerId> find(std::string const& name) const;
    [[nodiscard]] std::string const& name(ServerId server) const;
    [[nodiscard]] std::shared_ptr<Shape const> const& shape(ServerId server) const;
    /// "node3/gpu0".
    [[nodiscard]] std::string name(Place place) const;
    [[nodiscard]] std::string const& vertex_name(Place place) const;
    /// Whether an NVLink domain joins the two, which are not one.
    [[nodiscard]] bool share_domain(ServerId a, ServerId b) const {
        return a != b && servers_[a].domain != 0 && servers_[a].domain == servers_[b].domain;
    }
    /// Equal for servers of one NVLink domain; 0 for one that shares none.
    [[nodiscard]] std::uint32_t domain(ServerId server) const { return servers_[server].domain; }
    /// Where an endpoint can be; throws for a server or vertex that there is not, or that MGI does
    /// not manage.
    void check_endpoint(Place place) const;
    [[nodiscard]] bool is_endpoint(Place place) const {
        return has(place.server) && place.vertex < servers_[place.server].names->size() &&
               servers_[place.server].shape->managed(place.vertex);
    }
    /// Another one after every change.
    [[nodiscard]] std::uint64_t version() const { return version_; }
    /// The number that the next server gets: more than any that there is.
    [[nodiscard]] ServerId next_server() const { return ServerId(servers_.size()); }

private:
    using Link = std::pair<std::uint32_t, std::uint32_t>;
    /// How a server differs from what it was when it was added.
    struct Changes {
        std::map<Link, Capacity> links;
        std::vector<std::uint32_t> nics_down;
    };
    struct Server {
        std::string name;
        std::shared_ptr<Shape const> shape;  ///< as it is; null: removed
        std::shared_ptr<Shape const> whole;  ///< as it was added
        std::shared_ptr<std::vector<std::string> const> names;
        std::uint32_t domain = 0;
    };

    Server const& existing(ServerId server) const;
    Capacity link_of(ServerId server, std::uint32_t from, std::uint32_t to) const;
    std::shared_ptr<Shape const> shared(std::vector<ShapeVertex> vertices, std::vector<Arc> arcs,
                                        std::uint32_t domain);
    void rebuild(ServerId server);
    void drop_unused();

    std::vector<Server> servers_;
    std::unordered_map<std::string, ServerId> by_name_;
    std::unordered_map<std::string, std::weak_ptr<Shape const>> shapes_;  ///< by Shape::key_of
    std::size_t drop_at_ = 64;
    std::unordered_map<std::string, std::weak_ptr<std::vector<std::string> const>> names_;
    std::unordered_map<std::string, std::uint32_t> domains_;
    std::unordered_map<ServerId, Changes> changes_;
    std::uint64_t next_shape_ = 1;
    std::uint64_t version_ = 0;
};

}  // namespace mgi::planner
