#include "topology/readers/hwloc_cpus.hpp"

#include <algorithm>

namespace mgi::topology {
namespace {

bool is_package(XmlElement const& object) {
    std::string_view const type = object.text("type");
    return type == "Package" || type == "Socket";  // Socket: hwloc 1.x
}

bool is_node(XmlElement const& object) {
    return object.text("type") == "NUMANode";
}

/// From hwloc 2 on a node is beside what it belongs to; in 1.x that is in it.
bool is_beside(XmlElement const& object) {
    return object.text("type") == "MemCache" || (is_node(object) && !object.child("object"));
}

/// The NUMA node that is this object or beside its children. A machine's memory of several kinds has a
/// node for each: the first is that of the cores.
std::optional<XmlElement> own_node(XmlElement const& object) {
    if (is_node(object)) return object;
    for (XmlElement const& child : object.children("object")) {
        if (!is_beside(child)) continue;
        if (auto const node = own_node(child)) return node;
    }
    return std::nullopt;
}

bool is_io(XmlElement const& object) {
    std::string_view const type = object.text("type");
    return type == "Bridge" || type == "PCIDev" || type == "OSDev" || type == "Misc";
}

std::optional<std::int64_t> info_number(XmlElement const& object, std::string_view name) {
    for (XmlElement const& entry : object.children("info")) {
        if (entry.text("name") == name) return entry.integer("value");
    }
    return std::nullopt;
}

}  // namespace

std::string hwloc_info(XmlElement const& object, std::string_view name) {
    for (XmlElement const& entry : object.children("info")) {
        if (entry.text("name") == name) return std::string(entry.text("value"));
    }
    return {};
}

std::vector<HwlocCpu> hwloc_cpus(XmlElement const& object,
                                 std::optional<XmlElement> const& package) {
    if (is_beside(object) || is_io(object)) return {};
    auto const here = is_package(object) ? std::optional(object) : package;
    std::vector<HwlocCpu> inside;
    for (XmlElement const& child : object.children("object")) {
        for (HwlocCpu const& cpu : hwloc_cpus(child, here)) inside.push_back(cpu);
    }
    bool const divided = std::any_of(inside.begin(), inside.end(),
                                     [](HwlocCpu const& cpu) { return cpu.node.has_value(); });
    auto const node = own_node(object);
    if (divided || (!node && !inside.empty())) return inside;
    if (!node && !is_package(object)) return {};
    HwlocCpu made{object, node, here, {}};
    if (!made.package && !inside.empty()) made.package = inside.front().package;
    if (node) made.number = node->integer("os_index");
    if (!made.number && made.package) made.number = made.package->integer("os_index");
    return {made};
}

CpuModel hwloc_model(HwlocCpu const& cpu, std::string const& architecture) {
    XmlElement const& said = cpu.package ? *cpu.package : cpu.object;
    CpuModel model{architecture, hwloc_info(said, "CPUVendor"),
                   info_number(said, "CPUFamilyNumber"), info_number(said, "CPUModelNumber")};
    // Exports without an architecture still name POWER's models and ARM's implementers.
    if (!model.architecture.empty()) return model;
    if (hwloc_info(said, "CPUModel").starts_with("POWER")) model.architecture = "ppc64";
    if (!hwloc_info(said, "CPUImplementer").empty()) model.architecture = "arm64";
    return model;
}

}  // namespace mgi::topology
