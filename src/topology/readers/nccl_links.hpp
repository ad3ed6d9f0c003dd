/// \file
/// Links of an NCCL file that lead elsewhere than up the PCI tree: <nvlink>, <xgmi>, <c2c>, <pcilink>.
/// They name their other end by bus id, so they wait until every vertex is known.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "topology/facts.hpp"
#include "topology/infrastructure.hpp"
#include "topology/readers/guesses.hpp"
#include "topology/readers/xml.hpp"

namespace mgi::topology {

class NcclLinks {
public:
    struct Gpu {
        std::uint32_t server;
        std::uint32_t cpu;
        std::uint32_t vertex;
        std::string bus_id;
        std::size_t sharers;  ///< GPUs of this PCI device, which share its links equally
    };

    /// A GPU's compute capability; nothing where neither the file nor a fact says it.
    static std::optional<std::int64_t> sm_of(XmlElement const& gpu, Facts const& facts);

    void add_gpu(XmlElement const& gpu, Gpu const& place, Facts const& facts);
    void add_switch(std::string const& bus_id, std::uint32_t server, std::uint32_t vertex);
    void add_pci_link(XmlElement const& link, std::uint32_t server, std::uint32_t from);

    /// Whether the file has links between GPUs.
    [[nodiscard]] bool any() const { return any_; }
    /// Warns of the links whose rate is assumed.
    void connect(GraphBuilder& graph, std::uint32_t servers);

private:
    struct Link {
        XmlElement element;
        Gpu from;
        double gbps;  ///< of one
        char const* kind;
    };
    struct PciLink {
        XmlElement element;
        std::uint32_t server;
        std::uint32_t from;
    };
    /// By server and bus id.
    template <class T>
    using Places = std::map<std::pair<std::uint32_t, std::string>, T>;

    void connect(Link const& link, GraphBuilder& graph, std::uint32_t servers) const;
    void connect(PciLink const& link, GraphBuilder& graph) const;

    Guesses guesses_;
    std::vector<Link> links_;
    std::vector<PciLink> pci_links_;
    std::vector<std::pair<Gpu, double>> c2c_;
    Places<std::vector<std::uint32_t>> gpus_;
    Places<std::uint32_t> switches_;
    bool any_ = false;
};

}  // namespace mgi::topology
