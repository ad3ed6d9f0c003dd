#include "topology/readers/corrections.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include <mgi/error.hpp>

#include "topology/readers/json_object.hpp"

namespace mgi::topology {
namespace {

using nlohmann::json;

constexpr double kMostGbps = 1e6;
constexpr int kMostDepth = 16;

std::string item_of(char const* list, std::size_t index) {
    return std::string(list) + "[" + std::to_string(index) + "]";
}

json parse(Source const& source) {
    std::vector<std::set<std::string>> fields;  // of the objects that are open
    auto const check = [&](int depth, json::parse_event_t event, json& value) {
        if (depth > kMostDepth) source.fail(0, "is nested deeper than any such file");
        if (event == json::parse_event_t::object_start) fields.emplace_back();
        if (event == json::parse_event_t::object_end) fields.pop_back();
        if (event == json::parse_event_t::key &&
            !fields.back().insert(value.get<std::string>()).second) {
            source.fail(
                0, "has the field " + in_quotes(value.get<std::string>()) + " twice in one object");
        }
        return true;
    };
    try {
        return json::parse(source.text(), check);
    } catch (json::parse_error const& error) {
        source.fail(source.line_of(error.byte == 0 ? 0 : error.byte - 1),
                    std::string("is no JSON: ") + error.what());
    } catch (json::out_of_range const& error) {
        source.fail(0, std::string("has a number that is too large: ") + error.what());
    }
}

VertexKind kind_of(JsonObject& object) {
    static std::map<std::string, VertexKind, std::less<>> const known{
        {"cpu", VertexKind::Cpu},
        {"gpu", VertexKind::Gpu},
        {"nic", VertexKind::Nic},
        {"switch", VertexKind::Switch}};
    std::string const name = object.required_text("kind");
    auto const at = known.find(name);
    if (at == known.end()) {
        object.fail("kind", "is " + in_quotes(name) + "; expected cpu, gpu, nic or switch");
    }
    return at->second;
}

Facts read_facts(Source const& source, json const& value) {
    JsonObject object(source, value, "facts");
    Facts facts;
    facts.sm = object.integer("sm");
    facts.nvs_links = object.integer("nvs_links");
    facts.pcie_gen = object.integer("pcie_gen");
    if (object.get("cpu") != nullptr) facts.cpu = object.text("cpu");
    json const* const rates = object.get("nic_gbps");
    if (rates != nullptr && rates->is_object()) {
        JsonObject by_name(source, *rates, "facts.nic_gbps");
        for (auto const& [name, rate] : rates->items()) {
            facts.nic_gbps_of[name] = *by_name.number(name, kMostGbps);
        }
    } else {
        facts.nic_gbps = object.number("nic_gbps", kMostGbps);
    }
    object.done();
    try {
        check_facts(facts);
    } catch (Error const& error) {
        source.fail(0, error.what());
    }
    return facts;
}

Corrections::NewVertex read_vertex(JsonObject object) {
    Corrections::NewVertex vertex;
    vertex.name = object.required_text("name");
    vertex.kind = kind_of(object);
    vertex.parent = object.text("parent");
    vertex.gbps = object.number("gbps", kMostGbps).value_or(0);
    vertex.note = object.text("note");
    vertex.network_gbps = object.number("network_gbps", kMostGbps).value_or(0);
    vertex.nic_direct = object.flag("nic_direct");
    object.done();
    if (vertex.parent.empty() != (vertex.gbps == 0)) {
        object.fail("", "has one of parent and gbps; expected both or none");
    }
    if (vertex.kind != VertexKind::Nic && (vertex.network_gbps > 0 || vertex.nic_direct)) {
        object.fail("", "has network_gbps or nic_direct and is no nic");
    }
    return vertex;
}

Corrections::NewLink read_link(JsonObject object) {
    Corrections::NewLink link;
    link.from = object.required_text("from");
    link.to = object.required_text("to");
    auto const gbps = object.number("gbps", kMostGbps);
    if (!gbps) object.fail("gbps", "is missing; expected gigabytes a second, 0 for no link");
    link.gbps = *gbps;
    link.one_way = object.flag("one_way");
    object.done();
    if (link.from == link.to) object.fail("", "leads from a vertex to itself");
    return link;
}

class Corrector {
public:
    Corrector(Infrastructure made, Corrections const& corrections)
        : corrections_(corrections), graph_(std::move(made)) {}

    Infrastructure correct() {
        std::uint32_t const servers = graph_.made().servers;
        remove(corrections_.remove, "remove");
        add_vertices();
        set_links();
        keep_gpus();
        return std::move(graph_).finish(servers);
    }

private:
    [[noreturn]] void fail(std::string const& field, std::string const& what) const {
        throw Error(ErrorCode::InvalidArgument, corrections_.file + ": " + field + " " + what);
    }

    [[noreturn]] void fail_twice(std::string const& field, std::string const& name) const {
        fail(field, "is " + in_quotes(name) + ", which stands in that list already");
    }

    std::uint32_t vertex_named(std::string const& name, std::string const& field) const {
        auto const found = graph_.find(name);
        if (!found) {
            fail(field, "is " + in_quotes(name) +
                            ", and the graph has no such vertex (mgi topo --json - has all names)");
        }
        return *found;
    }

    void drop(std::vector<bool> const& removed) {
        graph_ = GraphBuilder(without(graph_.made(), removed));
    }

    void remove(std::vector<std::string> const& names, char const* list) {
        std::vector<bool> removed(graph_.made().sites.size(), false);
        for (std::size_t i = 0; i < names.size(); ++i) {
            std::uint32_t const vertex = vertex_named(names[i], item_of(list, i));
            if (removed[vertex]) fail_twice(item_of(list, i), names[i]);
            removed[vertex] = true;
        }
        drop(removed);
    }

    void add_vertices() {
        for (std::size_t i = 0; i < corrections_.add.size(); ++i) {
            Corrections::NewVertex const& given = corrections_.add[i];
            std::string const field = item_of("add", i);
            std::uint32_t server = 0;
            std::uint32_t parent = kNoVertex;
            if (!given.parent.empty()) {
                parent = parent_of(given, field + ".parent");
                server = graph_.made().sites[parent].server;
            }
            check_new(i, server);
            std::uint32_t const made = graph_.add(given.kind, given.name, server, given.note);
            if (parent != kNoVertex) graph_.hang(made, parent, given.gbps, "config");
            if (given.network_gbps > 0) graph_.connect_network(made, given.network_gbps * 1000);
            graph_.set_nic_direct(made, given.nic_direct);
        }
    }

    /// A name that is taken would get "#2" behind it: here that is an error.
    void check_new(std::size_t index, std::uint32_t server) const {
        std::string const& name = corrections_.add[index].name;
        bool const reserved = name == "network" || name == "nvswitch" || name == "nvlink domain";
        if (!reserved && !graph_.find(GraphBuilder::name_on(name, server))) return;
        std::string who = "the graph has itself";
        for (std::size_t i = 0; i < index; ++i) {
            if (corrections_.add[i].name == name) who = item_of("add", i) + " has already";
        }
        fail(item_of("add", index) + ".name", "is " + in_quotes(name) + ", which " + who);
    }

    std::uint32_t parent_of(Corrections::NewVertex const& given, std::string const& field) const {
        if (given.parent == given.name) fail(field, "is the new vertex itself");
        bool const later =
            !graph_.find(given.parent) &&
            std::any_of(corrections_.add.begin(), corrections_.add.end(),
                        [&](auto const& other) { return other.name == given.parent; });
        if (later) {
            fail(field, "is " + in_quotes(given.parent) +
                            ", which comes later in add; parents come first");
        }
        std::uint32_t const parent = vertex_named(given.parent, field);
        if (graph_.made().sites[parent].server == kEveryServer) {
            fail(field, "is " + in_quotes(given.parent) +
                            ", which all servers share; expected a vertex of one server (links "
                            "join others)");
        }
        return parent;
    }

    void set_links() {
        std::set<std::pair<std::uint32_t, std::uint32_t>> links;
        for (std::size_t i = 0; i < corrections_.links.size(); ++i) {
            Corrections::NewLink const& given = corrections_.links[i];
            std::string const field = item_of("links", i);
            std::uint32_t const from = vertex_named(given.from, field + ".from");
            std::uint32_t const to = vertex_named(given.to, field + ".to");
            if (!links.insert({from, to}).second) {
                fail(field, "is from " + in_quotes(given.from) + " to " + in_quotes(given.to) +
                                ", as an earlier one of links");
            }
            graph_.set_gbps(from, to, given.gbps, "config");
            if (!given.one_way) graph_.set_gbps(to, from, given.gbps, "config");
        }
    }

    void keep_gpus() {
        std::vector<bool> removed(graph_.made().sites.size(), false);
        if (!corrections_.gpus) return drop(removed);
        for (Vertex const& vertex : graph_.made().graph.vertices) {
            removed[vertex.id] = vertex.kind == VertexKind::Gpu;
        }
        for (std::size_t i = 0; i < corrections_.gpus->size(); ++i) {
            std::string const field = item_of("gpus", i);
            std::uint32_t const gpu = vertex_named((*corrections_.gpus)[i], field);
            if (graph_.made().graph.vertices[gpu].kind != VertexKind::Gpu) {
                fail(field, "is " + in_quotes((*corrections_.gpus)[i]) + ", which is no GPU");
            }
            if (!removed[gpu]) fail_twice(field, (*corrections_.gpus)[i]);
            removed[gpu] = false;
        }
        drop(removed);
    }

    Corrections const& corrections_;
    GraphBuilder graph_;
};

}  // namespace

Corrections read_corrections(Source const& source) {
    json const whole = parse(source);
    JsonObject object(source, whole, "");
    Corrections corrections;
    corrections.file = source.name();
    if (json const* const facts = object.get("facts")) {
        corrections.facts = read_facts(source, *facts);
    }
    corrections.remove = object.texts("remove");
    for (json const& item : object.list("add")) {
        corrections.add.push_back(
            read_vertex({source, item, item_of("add", corrections.add.size())}));
    }
    for (json const& item : object.list("links")) {
        corrections.links.push_back(
            read_link({source, item, item_of("links", corrections.links.size())}));
    }
    if (object.get("gpus") != nullptr) corrections.gpus = object.texts("gpus");
    object.done();
    return corrections;
}

Infrastructure correct(Infrastructure made, Corrections const& corrections) {
    return Corrector(std::move(made), corrections).correct();
}

}  // namespace mgi::topology
