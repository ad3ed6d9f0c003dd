// hwloc's XML exports, 1.x to 3.x: a tree of <object>, and matrices of bandwidths between objects. Read
// from the XML itself, since hwloc's library refuses exports of a newer major version than its own.
#include <cstdio>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "topology/bus_id.hpp"
#include "topology/nic_models.hpp"
#include "topology/rates.hpp"
#include "topology/readers/formats.hpp"
#include "topology/readers/guesses.hpp"
#include "topology/readers/hwloc_cpus.hpp"
#include "topology/readers/hwloc_links.hpp"
#include "topology/readers/hwloc_pci.hpp"

namespace mgi::topology {
namespace {

constexpr double kNarrowGbps = 3.9;  ///< a GPU's own link below Gen3 x4
constexpr double kMostLinkGbps = 1e6;

/// A link of more is that of a device that does not answer: all ones are 63 lanes of a rate to come.
constexpr double kMostKnownGbps = 600;

/// Machines that an export puts beside each other below a system (hwloc 1.x).
void find_machines(XmlElement const& object, std::vector<XmlElement>& found) {
    for (XmlElement const& child : object.children("object")) {
        if (child.text("type") == "Machine") {
            found.push_back(child);
        } else {
            find_machines(child, found);
        }
    }
}

class HwlocReader {
public:
    explicit HwlocReader(Facts const& facts) : facts_(facts) {}

    Infrastructure read(XmlElement const& topology) {
        check_version(topology);
        auto const whole = topology.child("object");
        if (!whole) topology.fail("has no <object>; expected the machine");
        std::vector<XmlElement> machines;
        if (whole->text("type") == "System") find_machines(*whole, machines);
        if (machines.empty()) machines.push_back(*whole);
        for (XmlElement const& machine : machines) {
            architecture_ = hwloc_info(machine, "Architecture");
            if (architecture_.empty()) architecture_ = hwloc_info(topology, "Architecture");
            read_machine(machine);
            ++server_;
        }
        guesses_.warn(graph_);
        links_.connect(topology, graph_);
        add_switch_links(facts_, links_.any(), graph_);
        return std::move(graph_).finish(server_);
    }

private:
    /// CPUs that an object stands among: cpus_[first, last).
    struct Span {
        std::size_t first;
        std::size_t last;
    };

    static void check_version(XmlElement const& topology) {
        std::string_view const version = topology.text("version");
        if (version.empty()) return;  // hwloc 1.x writes none
        std::string_view const major = version.substr(0, version.find('.'));
        if (major != "1" && major != "2" && major != "3") {
            topology.fail("version is " + in_quotes(version) +
                          "; expected an export of hwloc 1, 2 or 3");
        }
    }

    void read_machine(XmlElement const& machine) {
        cpus_.clear();
        unplaced_ = false;
        std::vector<HwlocCpu> cpus = hwloc_cpus(machine);
        if (cpus.empty()) cpus.push_back({machine, {}, {}, machine.integer("os_index")});
        for (HwlocCpu const& cpu : cpus) add_cpu(cpu);
        graph_.mesh_cpus(cpus_);
        read_object(machine, {0, cpus.size()}, kNoVertex);
    }

    void add_cpu(HwlocCpu const& cpu) {
        auto const number = cpu.number.value_or(std::int64_t(cpus_.size()));
        std::string const name = "cpu" + std::to_string(number);
        if (!numbers_.insert({server_, number}).second) {
            graph_.warn(cpu.object.label() + ", line " + std::to_string(cpu.object.line()) +
                        ": a second CPU of this number; kept as another one");
        }
        XmlElement const& said = cpu.package ? *cpu.package : cpu.object;
        std::uint32_t const vertex =
            graph_.add(VertexKind::Cpu, name, server_, hwloc_info(said, "CPUModel"));
        auto const gbps = cpu_gbps(hwloc_model(cpu, architecture_));
        cpus_.emplace_back(vertex, cpu_gbps_of(facts_, gbps, said.label(), graph_));
        // A matrix names packages; of one with several NUMA nodes the first stands for it.
        links_.add_object(said, vertex);
        if (cpu.node) links_.add_object(*cpu.node, vertex);
    }

    /// `span`: the CPUs in this object, or (last == first + 1) the one that it is in. `parent`: the
    /// bridge above, kNoVertex where that is the CPU.
    void read_object(XmlElement const& object, Span span, std::uint32_t parent) {
        std::size_t next = span.first;
        for (XmlElement const& child : object.children("object")) {
            std::string_view const type = child.text("type");
            if (type == "Bridge") {
                std::uint32_t const inside = add_bridge(child, span, parent);
                read_object(child, span, inside);
            } else if (type == "PCIDev") {
                add_device(child, span, parent);
            } else if (span.last == span.first + 1) {
                read_object(child, span, parent);
            } else {
                std::size_t const held = hwloc_cpus(child).size();
                Span const inside = held == 0 ? span : Span{next, next + held};
                next += held;
                read_object(child, inside, parent);
            }
        }
    }

    std::uint32_t cpu_of(XmlElement const& object, Span span) {
        if (span.last > span.first + 1 && !unplaced_) {
            unplaced_ = true;
            graph_.warn(object.label() +
                        ": the file does not say which CPU this is at; the first one assumed, here "
                        "and for others like it");
        }
        return cpus_[span.first].first;
    }

    static std::string bus_id_of(XmlElement const& object) {
        std::string_view const text = object.required("pci_busid");
        auto id = parse_bus_id(text);
        if (!id) {
            object.fail("pci_busid is " + in_quotes(text) +
                        "; expected domain:bus:device.function such as 0000:01:00.0");
        }
        return *id;
    }

    /// GB/s of an object's link upward, `fallback` where the file does not say.
    double link_gbps(XmlElement const& object, double fallback) {
        double const gbps = known_link_gbps(object);
        if (gbps > 0) return gbps;
        guesses_.add(object.label(), fallback == kUnlimitedGbps
                                         ? "no pci_link_speed; no limit assumed"
                                         : "no pci_link_speed; 15.75 GB/s (Gen3 x16) assumed");
        return fallback;
    }

    /// 0 where the file does not say.
    static double known_link_gbps(XmlElement const& object) {
        double const gbps = object.number("pci_link_speed").value_or(0);
        if (gbps > kMostLinkGbps) {
            object.fail("pci_link_speed is " + in_quotes(object.text("pci_link_speed")) +
                        "; expected gigabytes a second");
        }
        return gbps <= kMostKnownGbps ? gbps : 0;
    }

    /// The vertex below which a bridge's children are: itself, or what a host bridge hangs from.
    std::uint32_t add_bridge(XmlElement const& bridge, Span span, std::uint32_t parent) {
        if (!bridge.has("pci_busid")) return parent;
        std::string const id = bus_id_of(bridge);
        warn_if_again(bridge, id, bridges_seen_);
        std::uint32_t const vertex = graph_.add(VertexKind::Switch, "pci " + id, server_);
        std::uint32_t const above = parent == kNoVertex ? cpu_of(bridge, span) : parent;
        graph_.hang(vertex, above, link_gbps(bridge, kUnlimitedGbps), "pcie");
        return vertex;
    }

    void add_device(XmlElement const& object, Span span, std::uint32_t parent) {
        PciType const type = pci_type_of(object);
        std::string const id = bus_id_of(object);
        // A device that does not answer is read as class 0000; its driver may still know what it is.
        bool const is_gpu = type.is_gpu() || is_computing(object);
        bool const is_nvswitch = object.text("subtype") == "NVSwitch";
        if (is_nvswitch || (!is_gpu && !type.is_nic())) {
            links_.add_other(object);
            return;
        }
        std::uint32_t const above = parent == kNoVertex ? cpu_of(object, span) : parent;
        if (is_gpu) {
            add_gpu(object, id, above);
        } else if (!is_part_of_another(object, type, id)) {
            add_nic(object, type, id, above);
        }
    }

    void add_gpu(XmlElement const& object, std::string const& id, std::uint32_t above) {
        if (!gpus_seen_.insert({server_, id}).second) {
            object.fail("a second GPU of this bus id; expected each GPU once");
        }
        double const gbps = link_gbps(object, kDefaultDeviceGbps);
        if (known_link_gbps(object) > 0 && gbps < kNarrowGbps) {
            char text[32];
            std::snprintf(text, sizeof(text), "%g", gbps);
            graph_.warn(object.label() + ": a link of " + text +
                        " GB/s, which may be an idle link's (idle GPUs slow theirs down)");
        }
        std::uint32_t const vertex = graph_.add(VertexKind::Gpu, id, server_, gpu_model(object));
        graph_.hang(vertex, above, gbps, "pcie");
        links_.add_object(object, vertex);
        for (XmlElement const& os_device : object.children("object")) {
            links_.add_object(os_device, vertex);
        }
    }

    static std::string gpu_model(XmlElement const& object) {
        for (XmlElement const& os_device : object.children("object")) {
            if (std::string model = hwloc_info(os_device, "GPUModel"); !model.empty()) return model;
        }
        return hwloc_info(object, "PCIDevice");
    }

    /// Whether a NIC is a virtual function of one that the file has, too, on the same bus.
    bool is_part_of_another(XmlElement const& object, PciType const& type, std::string const& id) {
        auto const bus = std::make_tuple(server_, id.substr(0, id.rfind(':')), type.vendor);
        if (!is_virtual_function(type.device, hwloc_info(object, "PCIDevice"))) {
            buses_of_nics_.insert(bus);
            return false;
        }
        if (buses_of_nics_.contains(bus)) {
            guesses_.add(object.label(), "a virtual function of a NIC beside it; left out");
            return true;
        }
        guesses_.add(object.label(),
                     "a virtual function whose NIC the file has not; counted as a NIC of its own");
        return false;
    }

    void add_nic(XmlElement const& object, PciType const& type, std::string const& id,
                 std::uint32_t above) {
        std::string const device(device_of(id));
        auto const [at, is_new] = nics_.try_emplace({above, device}, kNoVertex);
        if (is_new) {
            warn_if_again(object, device, nics_seen_);
            at->second =
                graph_.add(VertexKind::Nic, "nic " + id, server_, hwloc_info(object, "PCIDevice"));
            graph_.hang(at->second, above, link_gbps(object, kDefaultDeviceGbps), "pcie");
        }
        auto mbps = port_fact(object, id);
        if (!mbps) mbps = nic_mbps(type.device, hwloc_info(object, "PCIDevice"));
        if (!mbps) {
            graph_.warn(object.label() + ": a NIC of unknown rate (" + type.device +
                        "); 10 Gb/s assumed (fact: nic_gbps)");
        }
        graph_.connect_network(at->second, mbps.value_or(kDefaultNicMbps));
        for (XmlElement const& os_device : object.children("object")) {
            // What has a GUID is an RDMA device.
            if (!hwloc_info(os_device, "NodeGUID").empty()) graph_.set_nic_direct(at->second, true);
        }
    }

    [[nodiscard]] std::optional<double> port_fact(XmlElement const& object,
                                                  std::string const& id) const {
        for (XmlElement const& os_device : object.children("object")) {
            std::string const name(os_device.text("name"));
            if (facts_.nic_gbps_of.contains(name)) return nic_mbps_of(facts_, {name});
        }
        return nic_mbps_of(facts_, {id});
    }

    using Seen = std::set<std::pair<std::uint32_t, std::string>>;  ///< bus ids, by server

    void warn_if_again(XmlElement const& object, std::string const& id, Seen& seen) {
        if (seen.insert({server_, id}).second) return;
        graph_.warn(object.label() + ", line " + std::to_string(object.line()) +
                    ": this bus id is there more than once; kept as a vertex of its own");
    }

    Facts const& facts_;
    GraphBuilder graph_;
    HwlocLinks links_;
    std::string architecture_;
    std::vector<std::pair<std::uint32_t, double>> cpus_;
    std::map<std::pair<std::uint32_t, std::string>, std::uint32_t> nics_;
    Guesses guesses_;
    std::uint32_t server_ = 0;                                  ///< that is being read
    std::set<std::pair<std::uint32_t, std::int64_t>> numbers_;  ///< of CPUs, by server
    /// By server, bus and vendor.
    std::set<std::tuple<std::uint32_t, std::string, std::string>> buses_of_nics_;
    Seen gpus_seen_;
    Seen nics_seen_;
    Seen bridges_seen_;
    bool unplaced_ = false;
};

}  // namespace

Infrastructure read_hwloc(XmlElement const& topology, Facts const& facts) {
    return HwlocReader(facts).read(topology);
}

}  // namespace mgi::topology
