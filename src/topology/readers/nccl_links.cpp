#include "topology/readers/nccl_links.hpp"

#include <utility>

#include "topology/bus_id.hpp"
#include "topology/rates.hpp"

namespace mgi::topology {
namespace {

constexpr std::int64_t kMostLinks = 1000;
constexpr std::int64_t kMostLinkMbps = 100'000'000;

std::int64_t link_count(XmlElement const& link) {
    std::int64_t const count = link.count("count");
    if (count > kMostLinks) {
        link.fail("count is " + std::to_string(count) + "; expected a number of links");
    }
    return count;
}

std::string target_of(XmlElement const& link) {
    std::string_view const text = link.required("target");
    auto id = parse_bus_id(text);
    if (!id) {
        link.fail("target is " + in_quotes(text) +
                  "; expected domain:bus:device.function such as 0000:01:00.0");
    }
    return *id;
}

}  // namespace

std::optional<std::int64_t> NcclLinks::sm_of(XmlElement const& gpu, Facts const& facts) {
    auto const sm = gpu.integer("sm");
    return sm && *sm > 0 ? sm : facts.sm;
}

void NcclLinks::add_gpu(XmlElement const& gpu, Gpu const& place, Facts const& facts) {
    auto const sm = sm_of(gpu, facts);
    auto const share = double(place.sharers);
    double const nvlink = nvlink_gbps(sm) / share;
    if (!sm && gpu.child("nvlink")) {
        guesses_.add("GPU " + place.bus_id, "no sm; 20 GB/s assumed for each NVLink (fact: sm)");
    }
    if (gpu.text("gcn").empty() && gpu.child("xgmi")) {
        guesses_.add("GPU " + place.bus_id, "no gcn; 24 GB/s assumed for each xGMI link");
    }
    double const xgmi = xgmi_gbps(gpu.text("gcn")) / share;
    for (XmlElement const& link : gpu.children()) {
        if (link.name() == "nvlink") links_.push_back({link, place, nvlink, "nvlink"});
        if (link.name() == "xgmi") links_.push_back({link, place, xgmi, "xgmi"});
        if (link.name() == "c2c") {
            std::int64_t const mbps = link.count("bw");
            if (mbps > kMostLinkMbps) {
                link.fail("bw is " + std::to_string(mbps) + "; expected megabytes a second");
            }
            c2c_.emplace_back(place, double(mbps) * double(link_count(link)) / 1000 / share);
        }
    }
    gpus_[{place.server, place.bus_id}].push_back(place.vertex);
}

void NcclLinks::add_switch(std::string const& bus_id, std::uint32_t server, std::uint32_t vertex) {
    switches_.try_emplace({server, bus_id}, vertex);
}

void NcclLinks::add_pci_link(XmlElement const& link, std::uint32_t server, std::uint32_t from) {
    pci_links_.push_back({link, server, from});
}

void NcclLinks::connect(GraphBuilder& graph, std::uint32_t servers) {
    for (auto const& [gpu, gbps] : c2c_) {
        if (gbps > 0) graph.connect_both(gpu.vertex, gpu.cpu, gbps, "c2c");
    }
    for (Link const& link : links_) connect(link, graph, servers);
    for (PciLink const& link : pci_links_) connect(link, graph);
    guesses_.warn(graph);
    any_ = !links_.empty();
}

void NcclLinks::connect(Link const& link, GraphBuilder& graph, std::uint32_t servers) const {
    std::int64_t const count = link_count(link.element);
    bool const hidden = is_hidden(link.element.text("target"));
    std::string const target = hidden ? std::string() : target_of(link.element);
    if (count == 0) {
        graph.warn(link.element.label() + " of GPU " + link.from.bus_id + ": no links; left out");
        return;
    }
    double const gbps = double(count) * link.gbps;
    std::uint32_t const from = link.from.vertex;
    std::string_view const target_class = link.element.text("tclass");
    if (target_class.starts_with("0x068001")) {
        graph.connect_both(from, link.from.cpu, gbps, link.kind);
        return;
    }
    if (target_class.starts_with("0x0680") || hidden) {
        // Servers that only see a hidden switch see the same one: a multi-node NVLink domain.
        bool const shared = hidden && servers > 1;
        graph.connect_both(from, graph.nvswitch(shared ? kEveryServer : link.from.server), gbps,
                           link.kind);
        return;
    }
    auto const at = gpus_.find({link.from.server, target});
    if (at == gpus_.end()) {
        graph.warn(link.element.label() + " of GPU " + link.from.bus_id +
                   ": the file has no such GPU; left out");
    } else if (target == link.from.bus_id) {
        // Azure's file for its NC A100 v4 machines has such links.
        graph.warn(link.element.label() + " of GPU " + target + ": a link to itself; left out");
    } else {
        auto const ends = double(at->second.size());
        for (std::uint32_t const end : at->second) graph.connect(from, end, gbps / ends, link.kind);
    }
}

void NcclLinks::connect(PciLink const& link, GraphBuilder& graph) const {
    std::string const target = target_of(link.element);
    auto const at = switches_.find({link.server, target});
    if (at == switches_.end() || at->second == link.from) {
        graph.warn(link.element.label() +
                   ": the file has no other PCI switch of this bus id; left out");
        return;
    }
    graph.connect(link.from, at->second, kUnlimitedGbps, "local");
}

}  // namespace mgi::topology
