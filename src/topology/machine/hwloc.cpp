#include "topology/machine/hwloc.hpp"

#include <memory>

#include "core/shared_library.hpp"

namespace mgi::topology {
namespace {

// The six functions of hwloc 2 that are needed, as hwloc.h and hwloc/export.h declare them.
using Topology = void*;
constexpr int kKeepImportant = 3;  ///< HWLOC_TYPE_FILTER_KEEP_IMPORTANT

struct Functions {
    int (*init)(Topology*) = nullptr;
    int (*set_io_filter)(Topology, int) = nullptr;
    int (*load)(Topology) = nullptr;
    int (*to_xml)(Topology, char**, int*, unsigned long) = nullptr;
    void (*free_xml)(Topology, char*) = nullptr;
    void (*destroy)(Topology) = nullptr;
};

bool find_functions(SharedLibrary const& library, Functions& hwloc) {
    return library.get("hwloc_topology_init", hwloc.init) &&
           library.get("hwloc_topology_set_io_types_filter", hwloc.set_io_filter) &&
           library.get("hwloc_topology_load", hwloc.load) &&
           library.get("hwloc_topology_export_xmlbuffer", hwloc.to_xml) &&
           library.get("hwloc_free_xmlbuffer", hwloc.free_xml) &&
           library.get("hwloc_topology_destroy", hwloc.destroy);
}

}  // namespace

HwlocExport export_hwloc(std::string const& library_name) {
    SharedLibrary const library(library_name);
    if (!library.open()) {
        return {{}, "no " + library_name + " on this machine (Debian and Ubuntu: libhwloc15)"};
    }
    Functions hwloc;
    if (!find_functions(library, hwloc)) {
        return {{}, library_name + " is not hwloc 2: it lacks functions"};
    }
    Topology topology = nullptr;
    if (hwloc.init(&topology) != 0) return {{}, library_name + " cannot start"};
    std::unique_ptr<void, void (*)(Topology)> const owned(topology, hwloc.destroy);
    char* text = nullptr;
    int length = 0;
    if (hwloc.set_io_filter(topology, kKeepImportant) != 0 || hwloc.load(topology) != 0 ||
        hwloc.to_xml(topology, &text, &length, 0) != 0) {
        return {{}, library_name + " cannot read this machine"};
    }
    // The length counts the zero byte at the end.
    HwlocExport found{std::string(text), {}};
    hwloc.free_xml(topology, text);
    return found;
}

}  // namespace mgi::topology
