// NCCL's and RCCL's topology files: <system>, in it <cpu>, in it a tree of <pci> whose leaves hold
// <gpu> or <nic>. What each element means is NCCL's src/graph/topo.cc; rates are topology/rates.hpp.
#include <initializer_list>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "topology/bus_id.hpp"
#include "topology/nic_models.hpp"
#include "topology/rates.hpp"
#include "topology/readers/formats.hpp"
#include "topology/readers/guesses.hpp"
#include "topology/readers/nccl_links.hpp"
#include "topology/readers/nccl_ports.hpp"
#include "topology/readers/numbers.hpp"

namespace mgi::topology {
namespace {

std::string bus_id_of(XmlElement const& pci) {
    std::string_view const text = pci.required("busid");
    auto id = parse_bus_id(text);
    if (!id) {
        pci.fail("busid is " + in_quotes(text) +
                 "; expected domain:bus:device.function such as 0000:01:00.0");
    }
    return *id;
}

constexpr double kUnknownSpeed = 255;  ///< a link_speed of a device that does not answer

constexpr std::int64_t kSlowestPortMbps = 100;
constexpr std::int64_t kFastestPortMbps = 3'200'000;

bool is_gpu_class(std::string_view pci_class) {
    return pci_class.starts_with("0x03") || pci_class.starts_with("0x1200");
}

bool is_nic_class(std::string_view pci_class) {
    return pci_class.starts_with("0x02");
}

/// Devices that carry nobody's traffic unless a <gpu> or <nic> in them says so. NVSwitches (0x0680)
/// are known by the links to them.
bool is_idle_class(std::string_view pci_class) {
    return is_gpu_class(pci_class) || is_nic_class(pci_class) || pci_class.starts_with("0x0680");
}

bool has_gpu(XmlElement const& element) {
    for (XmlElement const& child : element.children()) {
        if (child.name() == "gpu" || has_gpu(child)) return true;
    }
    return false;
}

class NcclReader {
public:
    explicit NcclReader(Facts const& facts) : facts_(facts) {}

    Infrastructure read(XmlElement const& system) {
        check_version(system);
        template_ = !has_gpu(system);
        if (template_) {
            graph_.warn("a template without <gpu> elements: GPUs and NICs taken from PCI classes");
        }
        auto const cpus = system.children("cpu");
        if (cpus.empty()) system.fail("has no <cpu>");
        for (XmlElement const& cpu : cpus) ports_.add_names(cpu, server_of(cpu));
        for (XmlElement const& cpu : cpus) read_cpu(cpu);
        for (auto const& [server, members] : cpus_of_) graph_.mesh_cpus(members);
        guesses_.warn(graph_);
        links_.connect(graph_, std::uint32_t(servers_.size()));
        add_switch_links(facts_, links_.any(), graph_);
        return std::move(graph_).finish(std::uint32_t(servers_.size()));
    }

private:
    static void check_version(XmlElement const& system) {
        auto const version = system.integer("version");
        if (version != 1 && version != 2) {
            system.fail("version is " + in_quotes(system.text("version")) + "; expected 1 or 2");
        }
    }

    std::uint32_t server_of(XmlElement const& cpu) {
        auto const next = std::uint32_t(servers_.size());
        return servers_.try_emplace(std::string(cpu.text("host_hash")), next).first->second;
    }

    /// The NUMA node's; nothing where that is not known, which NCCL writes as -1.
    std::optional<std::int64_t> number_of(XmlElement const& cpu, std::uint32_t server) {
        auto const number = cpu.integer("numaid");
        if (!number || *number < 0) return std::nullopt;
        if (!numbers_.insert({server, *number}).second) {
            graph_.warn(cpu.label() + ", line " + std::to_string(cpu.line()) +
                        ": a second CPU of this number; kept as another one (a file of several "
                        "machines has a host_hash in each <cpu>)");
        }
        return number;
    }

    void read_cpu(XmlElement const& cpu) {
        std::uint32_t const server = server_of(cpu);
        CpuModel const model{std::string(cpu.text("arch")), std::string(cpu.text("vendor")),
                             cpu.integer("familyid"), cpu.integer("modelid")};
        auto const number = number_of(cpu, server);
        auto& members = cpus_of_[server];
        std::string const name =
            "cpu" + std::to_string(number.value_or(std::int64_t(members.size())));
        std::uint32_t const vertex =
            graph_.add(VertexKind::Cpu, name, server,
                       model.vendor.empty() ? model.architecture : model.vendor);
        members.emplace_back(vertex, cpu_gbps_of(facts_, cpu_gbps(model), cpu.label(), graph_));
        for (XmlElement const& child : cpu.children()) {
            if (child.name() == "pci") read_pci(child, {server, vertex, vertex});
            if (child.name() == "nic") read_bare_nic(child, server, vertex);
        }
    }

    struct Place {
        std::uint32_t server;
        std::uint32_t cpu;
        std::uint32_t parent;
    };

    void read_pci(XmlElement const& pci, Place const& place) {
        std::string const id = bus_id_of(pci);
        std::string_view const pci_class = pci.text("class");
        auto const gpus = pci.children("gpu");
        auto const nic = pci.child("nic");
        double const gbps =
            link_gbps(pci, !gpus.empty() || nic || template_ || !is_idle_class(pci_class));
        Place inside = place;
        if (!gpus.empty() || (template_ && is_gpu_class(pci_class))) {
            add_gpus(pci, gpus, id, gbps, place);
        } else if (nic || (template_ && is_nic_class(pci_class))) {
            add_nic(pci, nic, id, gbps, place);
        } else if (!is_idle_class(pci_class)) {
            inside.parent = add_switch(pci, id, gbps, place);
        }
        for (XmlElement const& child : pci.children()) {
            if (child.name() == "pci") read_pci(child, inside);
            if (child.name() == "pcilink") links_.add_pci_link(child, place.server, inside.parent);
        }
    }

    /// `counts`: whether the device becomes a vertex, so that what is assumed matters.
    double link_gbps(XmlElement const& pci, bool counts) {
        std::int64_t const written = pci.integer("link_width").value_or(0);
        if (written < -1 || written > 255) {
            pci.fail("link_width is " + std::to_string(written) +
                     "; expected the number of lanes, 0 where it is not known");
        }
        auto const width = known_lanes(written);
        if (!width && counts) guesses_.add(pci.label(), "no link_width; 16 lanes assumed");
        return transfers_gbps(pci, width.value_or(16), counts);
    }

    double transfers_gbps(XmlElement const& pci, std::int64_t width, bool counts) {
        std::string_view const speed = pci.text("link_speed");
        double transfers = 0;
        bool const known =
            read_leading(speed, transfers) && transfers > 0 && transfers != kUnknownSpeed;
        if (!known && facts_.pcie_gen) {
            return *pcie_gbps(*pcie_transfers(*facts_.pcie_gen), width);
        }
        auto const gbps = known ? pcie_gbps(transfers, width) : std::nullopt;
        if (gbps) return *gbps;
        if (known) {
            graph_.warn(pci.label() + ": link_speed " + in_quotes(speed) +
                        " is no PCIe rate; Gen3 (8 GT/s) assumed");
        } else if (counts) {
            guesses_.add(pci.label(), "no link_speed; Gen3 (8 GT/s) assumed (fact: pcie_gen)");
        }
        return *pcie_gbps(kDefaultTransfers, width);
    }

    void add_gpus(XmlElement const& pci, std::vector<XmlElement> const& gpus, std::string const& id,
                  double gbps, Place const& place) {
        auto const [first, is_new] = gpu_lines_.try_emplace({place.server, id}, pci.line());
        if (!is_new) {
            pci.fail("a second GPU of this bus id (the first is in line " +
                     std::to_string(first->second) + "); expected each GPU once");
        }
        if (gpus.empty()) {
            std::string const note = facts_.sm ? "sm " + std::to_string(*facts_.sm) : "";
            graph_.hang(graph_.add(VertexKind::Gpu, id, place.server, note), place.parent, gbps,
                        "pcie");
            return;
        }
        if (gpus.size() > 1) {
            graph_.warn(pci.label() + ": " + std::to_string(gpus.size()) +
                        " GPUs share this device; each has an equal share of its links");
        }
        // What one of them cannot take of the device's links, it can through its siblings.
        std::vector<std::uint32_t> siblings;
        for (XmlElement const& gpu : gpus) {
            std::uint32_t const vertex =
                graph_.add(VertexKind::Gpu, id, place.server, note_of(gpu));
            graph_.hang(vertex, place.parent, gbps / double(gpus.size()), "pcie");
            for (std::uint32_t const sibling : siblings) {
                graph_.connect_both(sibling, vertex, kUnlimitedGbps, "local");
            }
            siblings.push_back(vertex);
            links_.add_gpu(gpu, {place.server, place.cpu, vertex, id, gpus.size()}, facts_);
        }
    }

    [[nodiscard]] std::string note_of(XmlElement const& gpu) const {
        if (gpu.has("gcn")) return "gcn " + std::string(gpu.text("gcn"));
        auto const sm = NcclLinks::sm_of(gpu, facts_);
        return sm ? "sm " + std::to_string(*sm) : "";
    }

    void add_nic(XmlElement const& pci, std::optional<XmlElement> const& nic, std::string const& id,
                 double gbps, Place const& place) {
        auto const ports = nic ? ports_.own(*nic, place.server, id, graph_) : NcclPorts::List{};
        if (nic && nic->child("net") && ports.empty()) return;  // all of them are other NICs'
        std::string const device(device_of(id));
        auto const [at, is_new] =
            nics_.try_emplace({place.server, place.parent, device}, kNoVertex);
        if (is_new) {
            warn_if_again(pci, device, place.server, nic_devices_);
            at->second = graph_.add(VertexKind::Nic, "nic " + id, place.server);
            graph_.hang(at->second, place.parent, gbps, "pcie");
        }
        std::uint32_t const vertex = at->second;
        for (auto const& [port, share] : ports) {
            double const mbps = port_mbps(port, {std::string(port.text("name")), id});
            graph_.connect_network(vertex, share * mbps);
            if (port.text("gdr") == "1") graph_.set_nic_direct(vertex, true);
        }
        if (!ports.empty()) return;
        graph_.connect_network(vertex, unsaid_mbps(pci, {id}));
    }

    /// A NIC that is no PCI device, straight under a CPU: each interface is a vertex, and one that
    /// several CPUs list is the same.
    void read_bare_nic(XmlElement const& nic, std::uint32_t server, std::uint32_t cpu) {
        for (auto const& [port, share] : ports_.own(nic, server, "", graph_)) {
            std::string const name(port.required("name"));
            auto const [at, is_new] =
                bare_nics_.try_emplace({server, name, std::string(port.text("guid"))}, kNoVertex);
            if (is_new) {
                at->second = graph_.add(VertexKind::Nic, "nic " + name, server, "no PCI device");
                graph_.connect_network(at->second, share * port_mbps(port, {name}));
            } else {
                graph_.warn(port.label() + ": listed under several CPUs; taken as one NIC");
            }
            if (bare_nic_cpus_.insert({at->second, cpu}).second) {
                graph_.hang(at->second, cpu, kUnlimitedGbps, "local");
            }
        }
    }

    using Names = std::initializer_list<std::string>;

    /// Of a NIC or a port of which the file has no rate.
    double unsaid_mbps(XmlElement const& element, Names const& names) {
        auto const known = nic_mbps_of(facts_, names);
        if (!known) {
            graph_.warn(element.label() + ", line " + std::to_string(element.line()) +
                        ": a NIC without a rate; 10 Gb/s assumed (fact: nic_gbps)");
        }
        return known.value_or(kDefaultNicMbps);
    }

    double port_mbps(XmlElement const& port, Names const& names) {
        auto const speed = port.integer("speed");
        if (!speed || !known_mbps(double(*speed))) return unsaid_mbps(port, names);
        if (*speed < kSlowestPortMbps || *speed > kFastestPortMbps) {
            graph_.warn(port.label() + ", line " + std::to_string(port.line()) + ": a speed of " +
                        std::to_string(*speed) + " Mb/s, which looks like another unit");
        }
        return double(*speed);
    }

    std::uint32_t add_switch(XmlElement const& pci, std::string const& id, double gbps,
                             Place const& place) {
        warn_if_again(pci, id, place.server, switches_);
        std::uint32_t const vertex = graph_.add(VertexKind::Switch, "pci " + id, place.server);
        graph_.hang(vertex, place.parent, gbps, "pcie");
        links_.add_switch(id, place.server, vertex);
        return vertex;
    }

    using Seen = std::set<std::pair<std::uint32_t, std::string>>;

    void warn_if_again(XmlElement const& pci, std::string const& id, std::uint32_t server,
                       Seen& seen) {
        if (seen.insert({server, id}).second) return;
        graph_.warn(pci.label() + ", line " + std::to_string(pci.line()) +
                    ": this bus id is there more than once; kept as a vertex of its own");
    }

    Facts const& facts_;
    GraphBuilder graph_;
    NcclLinks links_;
    NcclPorts ports_;
    Guesses guesses_;
    bool template_ = false;
    std::map<std::string, std::uint32_t> servers_;  ///< by host_hash
    std::map<std::uint32_t, std::vector<std::pair<std::uint32_t, double>>> cpus_of_;
    std::set<std::pair<std::uint32_t, std::int64_t>> numbers_;  ///< of NUMA nodes, by server
    std::map<std::pair<std::uint32_t, std::string>, std::size_t> gpu_lines_;
    std::map<std::tuple<std::uint32_t, std::uint32_t, std::string>, std::uint32_t> nics_;
    std::map<std::tuple<std::uint32_t, std::string, std::string>, std::uint32_t> bare_nics_;
    std::set<std::pair<std::uint32_t, std::uint32_t>> bare_nic_cpus_;
    Seen nic_devices_;
    Seen switches_;
};

}  // namespace

Infrastructure read_nccl(XmlElement const& system, Facts const& facts) {
    return NcclReader(facts).read(system);
}

}  // namespace mgi::topology
