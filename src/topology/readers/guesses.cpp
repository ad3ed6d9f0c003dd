#include "topology/readers/guesses.hpp"

#include <algorithm>

namespace mgi::topology {

void Guesses::add(std::string const& who, std::string const& what) {
    auto at = std::find_if(kinds_.begin(), kinds_.end(),
                           [&](Kind const& kind) { return kind.what == what; });
    if (at == kinds_.end()) at = kinds_.insert(at, {what, who, 0});
    ++at->count;
}

void Guesses::warn(GraphBuilder& graph) const {
    for (Kind const& kind : kinds_) {
        std::size_t const others = kind.count - 1;
        std::string const more =
            others == 0 ? ""
                        : " and " + std::to_string(others) + (others == 1 ? " other" : " others");
        graph.warn(kind.first + more + ": " + kind.what);
    }
}

}  // namespace mgi::topology
