#include "topology/readers/hwloc_links.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

#include "topology/readers/numbers.hpp"

namespace mgi::topology {
namespace {

/// Stands for "the NVSwitches of this server", which is a vertex once there is a link to it.
constexpr std::uint32_t kNvswitch = kNoVertex - 1;
constexpr std::size_t kMostObjects = 4096;
constexpr std::uint64_t kMostMbps = 1'000'000'000;

/// The words of all children of that name, in order: long lists are split over several.
std::vector<std::string> words_of(XmlElement const& matrix, std::string_view child) {
    std::vector<std::string> words;
    for (XmlElement const& part : matrix.children(child)) {
        std::string const text = part.body();
        std::string_view rest = text;
        while (!rest.empty()) {
            std::size_t const start = rest.find_first_not_of(" \t\r\n");
            if (start == std::string_view::npos) break;
            std::size_t const end = rest.find_first_of(" \t\r\n", start);
            words.emplace_back(rest.substr(start, end - start));
            rest = end == std::string_view::npos ? std::string_view{} : rest.substr(end);
        }
    }
    return words;
}

std::uint64_t mbps_of(XmlElement const& matrix, std::string_view word) {
    std::uint64_t value = 0;
    if (!read_whole(word, value) || value > kMostMbps) {
        matrix.fail("a value is " + in_quotes(word) + "; expected megabytes a second");
    }
    return value;
}

}  // namespace

void HwlocLinks::add_object(XmlElement const& object, std::uint32_t vertex) {
    if (object.has("gp_index"))
        vertex_of_.try_emplace(std::string(object.text("gp_index")), vertex);
}

void HwlocLinks::add_other(XmlElement const& object) {
    add_object(object, kNvswitch);
}

void HwlocLinks::connect(XmlElement const& topology, GraphBuilder& graph) {
    std::map<std::string, Rates> rates_of;  // by kind
    for (XmlElement const& matrix : topology.children()) {
        if (matrix.name() != "distances2" && matrix.name() != "distances2hetero") continue;
        std::string_view const name = matrix.text("name");
        if (name == "NVLinkBandwidth") read_matrix(matrix, graph, rates_of["nvlink"]);
        if (name == "XGMIBandwidth") read_matrix(matrix, graph, rates_of["xgmi"]);
    }
    for (auto const& [kind, rates] : rates_of) {
        for (auto const& [pair, mbps] : rates) {
            auto [from, to, nvswitch] = pair;
            std::uint32_t const gpu = from == kNvswitch ? to : from;
            std::uint32_t const server = graph.made().sites[gpu].server;
            if (from == kNvswitch) from = graph.nvswitch(server);
            if (to == kNvswitch) to = graph.nvswitch(server);
            graph.connect(from, to, double(mbps) / 1000, kind);
            any_ = true;
        }
    }
}

std::vector<HwlocLinks::End> HwlocLinks::ends_of(XmlElement const& matrix, std::size_t objects,
                                                 GraphBuilder& graph) const {
    auto const words = words_of(matrix, "indexes");
    if (words.size() != objects) {
        matrix.fail("has " + std::to_string(words.size()) + " indexes; expected nbobjs, " +
                    std::to_string(objects));
    }
    std::vector<End> ends;
    for (std::string const& word : words) {
        // "OSDev:802" where types are mixed, else "802".
        std::string const index(word.substr(word.find(':') + 1));
        auto const at = vertex_of_.find(index);
        if (at == vertex_of_.end()) {
            graph.warn(matrix.label() + ": object " + in_quotes(word) +
                       " is no GPU, NVSwitch or CPU of this file; its links are left out");
        }
        std::uint32_t const vertex = at == vertex_of_.end() ? kNoVertex : at->second;
        ends.push_back({vertex, vertex == kNvswitch ? index : ""});
    }
    return ends;
}

void HwlocLinks::read_matrix(XmlElement const& matrix, GraphBuilder& graph, Rates& rates) const {
    auto const objects = std::size_t(matrix.count("nbobjs"));
    if (objects > kMostObjects) {
        matrix.fail("nbobjs is " + std::to_string(objects) + "; expected " +
                    std::to_string(kMostObjects) + " at most");
    }
    auto const ends = ends_of(matrix, objects, graph);
    auto const values = words_of(matrix, "u64values");
    if (values.size() != objects * objects) {
        matrix.fail("has " + std::to_string(values.size()) + " values; expected " +
                    std::to_string(objects) + " times " + std::to_string(objects));
    }
    for (std::size_t i = 0; i < objects; ++i) {
        for (std::size_t j = 0; j < objects; ++j) {
            std::uint64_t const mbps = mbps_of(matrix, values[i * objects + j]);
            auto const& [from, from_switch] = ends[i];
            auto const& [to, to_switch] = ends[j];
            // What stands on the diagonal is a GPU's memory, and NVSwitches are one vertex.
            if (mbps == 0 || from == to || from == kNoVertex || to == kNoVertex) continue;
            std::uint64_t& known = rates[{from, to, from_switch + to_switch}];
            known = std::max(known, mbps);
        }
    }
}

}  // namespace mgi::topology
