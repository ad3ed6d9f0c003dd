#include "topology/readers/read.hpp"

#include "topology/readers/formats.hpp"
#include "topology/readers/xml.hpp"

namespace mgi::topology {

char const* to_string(FileFormat format) noexcept {
    switch (format) {
        case FileFormat::Nccl: return "nccl";
        case FileFormat::Hwloc: return "hwloc";
        case FileFormat::NvidiaSmi: return "nvidia-smi";
    }
    return "unknown";
}

ReadTopology read_topology(Source const& source, Facts const& facts) {
    check_facts(facts);
    std::string_view const text = source.text();
    if (text[text.find_first_not_of(" \t\r\n")] != '<') {
        return {FileFormat::NvidiaSmi, read_nvidia_smi(source, facts)};
    }
    XmlDocument const document(source);
    XmlElement const root = document.root();
    if (root.name() == "system") return {FileFormat::Nccl, read_nccl(root, facts)};
    if (root.name() == "topology") return {FileFormat::Hwloc, read_hwloc(root, facts)};
    std::string const hint = root.name() == "graphs"
                                 ? " (this is NCCL's NCCL_GRAPH_DUMP_FILE; the topology is written "
                                   "by NCCL_TOPO_DUMP_FILE)"
                                 : "";
    root.fail("is no topology; expected <system> (NCCL) or <topology> (hwloc)" + hint);
}

ReadTopology read_topology_file(std::string const& path, Facts const& facts) {
    return read_topology(Source::of_file(path), facts);
}

}  // namespace mgi::topology
