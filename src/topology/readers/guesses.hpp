/// \file
/// What a file does not say and a reader assumes: one warning for each kind, however often it happens.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "topology/infrastructure.hpp"

namespace mgi::topology {

class Guesses {
public:
    /// `who` lacks something; `what` is missing, and what is assumed.
    void add(std::string const& who, std::string const& what);
    /// "<pci busid=...> and 3 others: no link_width; 16 lanes assumed".
    void warn(GraphBuilder& graph) const;

private:
    struct Kind {
        std::string what;
        std::string first;
        std::size_t count = 0;
    };
    std::vector<Kind> kinds_;
};

}  // namespace mgi::topology
