/// \file
/// This machine as hwloc sees it. The library is opened at run time, so that nothing links it.
#pragma once

#include <string>

namespace mgi::topology {

/// What hwloc exports of this machine: XML that read_topology() reads; or why there is none.
struct HwlocExport {
    std::string xml;
    std::string problem;  ///< empty where there is XML
};

HwlocExport export_hwloc(std::string const& library = "libhwloc.so.15");

}  // namespace mgi::topology
