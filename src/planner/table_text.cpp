#include "planner/server_table.hpp"

namespace mgi::planner {
namespace {

class Printer {
public:
    explicit Printer(std::vector<std::string> const& names) : names_(names) {}

    void vertex(VertexTable const& table) {
        text_ += name(table.vertex) + "\n";
        for (Forward const& forward : table.forwards) {
            text_ += "  to " + target(forward.target);
            if (forward.stage > 0) text_ += ", stage " + std::to_string(forward.stage);
            text_ += '\n';
            for (NextHop const& hop : forward.hops) put("next", hop);
        }
    }
    void arrival(Arrival const& arrival) {
        text_ += "from the " + std::string(to_string(arrival.gateway)) + " to " +
                 name(arrival.destination) + "\n";
        for (NextHop const& hop : arrival.hops) put("first", hop);
    }
    [[nodiscard]] std::string take() && { return std::move(text_); }

private:
    void put(char const* what, NextHop const& hop) {
        text_ += "    " + std::string(what) + " " + name(hop.next) + via(hop.path) + ", " +
                 gbps_text(hop.capacity);
        if (hop.stage > 0) text_ += ", stage " + std::to_string(hop.stage);
        text_ += '\n';
    }
    [[nodiscard]] std::string name(std::uint32_t vertex) const {
        return vertex < names_.size() ? names_[vertex] : "vertex " + std::to_string(vertex);
    }
    [[nodiscard]] std::string target(Target const& target) const {
        switch (target.kind) {
            case Target::Kind::Local: return name(target.vertex);
            case Target::Kind::Network: return "other servers, by the network";
            case Target::Kind::Domain: return "other servers, by the nvlink domain";
        }
        return {};
    }
    [[nodiscard]] std::string via(std::vector<LocalVertex> const& path) const {
        if (path.empty()) return {};
        std::string text = " via";
        for (std::size_t i = 0; i < path.size(); ++i) {
            text += (i == 0 ? " " : " > ") + name(path[i]);
        }
        return text;
    }

    std::vector<std::string> const& names_;
    std::string text_;
};

}  // namespace

std::string to_text(ServerTable const& table, std::vector<std::string> const& names) {
    Printer printer(names);
    for (VertexTable const& vertex : table.vertices) printer.vertex(vertex);
    for (Arrival const& arrival : table.arrivals) printer.arrival(arrival);
    return std::move(printer).take();
}

}  // namespace mgi::planner
