// Thousands of lives of a cluster. MGI_CONTROL_SEED=N replays one, with MGI_CONTROL_TRACE=1 step by
// step; MGI_CONTROL_SEEDS=N runs more of them, from the seed that the other names.
#include <gtest/gtest.h>

#include <cstdlib>
#include <exception>
#include <string>

#include "control/state/simulation.hpp"

namespace mgi::control::test {
namespace {

std::uint64_t number(char const* name, std::uint64_t otherwise) {
    char const* const text = std::getenv(name);
    return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

TEST(ControlSimulation, KeepsItsPromises) {
    std::uint64_t const first = number("MGI_CONTROL_SEED", 0);
    std::uint64_t const seeds =
        number("MGI_CONTROL_SEEDS", std::getenv("MGI_CONTROL_SEED") != nullptr ? 1 : 60);
    for (std::uint64_t seed = first; seed < first + seeds; ++seed) {
        Simulation simulation(seed);
        simulation.trace = number("MGI_CONTROL_TRACE", 0) != 0;
        try {
            simulation.run();
        } catch (std::exception const& error) {
            FAIL() << error.what() << "\nreplay it with: MGI_CONTROL_SEED=" << seed
                   << " MGI_CONTROL_TRACE=1 mgi_control_tests"
                      " --gtest_filter=ControlSimulation.KeepsItsPromises";
        }
    }
}

}  // namespace
}  // namespace mgi::control::test
