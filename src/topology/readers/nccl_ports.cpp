#include "topology/readers/nccl_ports.hpp"

#include <string_view>

namespace mgi::topology {
namespace {

constexpr char kMerges = '+';
constexpr std::string_view kDataDirect = "_dma";  ///< of a NIC's function that reads GPUs' memory

std::vector<std::string> parts_of(std::string_view name) {
    if (name.ends_with(kDataDirect)) {
        return {std::string(name.substr(0, name.size() - kDataDirect.size()))};
    }
    std::vector<std::string> parts;
    while (true) {
        std::size_t const end = name.find(kMerges);
        parts.emplace_back(name.substr(0, end));
        if (end == std::string_view::npos) return parts;
        name.remove_prefix(end + 1);
    }
}

}  // namespace

void NcclPorts::add_names(XmlElement const& cpu, std::uint32_t server) {
    for (XmlElement const& child : cpu.children()) {
        if (child.name() == "net") names_.emplace(server, child.text("name"));
        add_names(child, server);
    }
}

double NcclPorts::share_of(std::string const& name, std::uint32_t server) const {
    auto const parts = parts_of(name);
    if (parts.front() == name) return 1;
    std::size_t others = 0;
    for (std::string const& part : parts) others += has(part, server) ? 0 : 1;
    return double(others) / double(parts.size());
}

NcclPorts::List NcclPorts::own(XmlElement const& nic, std::uint32_t server,
                               std::string const& bus_id, GraphBuilder& graph) {
    List found;
    for (XmlElement const& port : nic.children("net")) {
        std::string const where = port.label() + ", line " + std::to_string(port.line());
        std::string const name(port.text("name"));
        double const share = share_of(name, server);
        if (share < 1) {
            graph.warn(where + ": made of NICs that the file has on their own, too; " +
                       (share > 0 ? "only its others count" : "left out"));
        }
        std::string const guid(port.text("guid"));
        bool const is_told = !bus_id.empty() && guid.find_first_not_of("0x") != std::string::npos;
        if (share > 0 && is_told) {
            auto const [at, is_new] =
                places_.try_emplace({server, name, guid, std::string(port.text("port"))}, bus_id);
            if (!is_new && at->second != bus_id) {
                graph.warn(where + ": the same name, guid and port as at " + at->second +
                           "; left out");
                continue;
            }
        }
        if (share > 0) found.emplace_back(port, share);
    }
    return found;
}

}  // namespace mgi::topology
