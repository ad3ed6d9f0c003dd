/// \file
/// What a user knows better than a machine's own word: a JSON file that corrects its graph.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "topology/facts.hpp"
#include "topology/infrastructure.hpp"
#include "topology/readers/source.hpp"

namespace mgi::topology {

/// In the order in which they take effect; vertices go by their names.
struct Corrections {
    struct NewVertex {
        std::string name;
        VertexKind kind = VertexKind::Gpu;
        std::string parent;  ///< empty: hangs from nothing
        double gbps = 0;     ///< to its parent and back
        std::string note;
        double network_gbps = 0;  ///< of a NIC, in gigabits a second
        bool nic_direct = false;
    };
    struct NewLink {
        std::string from;
        std::string to;
        double gbps = 0;  ///< in place of what there was; 0: no link
        bool one_way = false;
    };

    Facts facts;
    std::vector<std::string> remove;  ///< with all their links
    std::vector<NewVertex> add;
    std::vector<NewLink> links;
    std::optional<std::vector<std::string>> gpus;  ///< that take part; nothing: all
    std::string file;                              ///< that they are from, for errors
};

/// Throws Error(InvalidArgument) that names the file and the line or the field, and what was expected.
Corrections read_corrections(Source const& source);

/// The graph as corrected. Throws Error(InvalidArgument) that names the field whose vertex there is not,
/// or is already.
Infrastructure correct(Infrastructure made, Corrections const& corrections);

}  // namespace mgi::topology
