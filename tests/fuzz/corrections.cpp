#include <string>

#include <mgi/error.hpp>

#include "fuzz/targets.hpp"
#include "fuzz/topology_checks.hpp"
#include "topology/presets.hpp"
#include "topology/readers/corrections.hpp"

namespace mgi::fuzz {

void corrections(Input input) {
    static topology::Infrastructure const base = topology::preset("multi-rdma");
    try {
        auto const read =
            topology::read_corrections(topology::Source("input", std::string(input.all())));
        check_graph(topology::correct(base, read));
    } catch (Error const& error) {
        std::string const message = error.what();
        require(message.starts_with("input") || message.starts_with("a topology of more than"),
                "an error names the file", message.c_str());
    }
}

}  // namespace mgi::fuzz
