// The fuzz targets without a fuzzer: over their corpus, and over inputs made from seeds.
#include <gtest/gtest.h>

#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "fuzz/targets.hpp"
#include "support/random.hpp"

namespace mgi::fuzz {
namespace {

struct Target {
    char const* name;
    void (*run)(Input);
    int inputs;  ///< made from seeds; a second or less of them
};

class Replay : public ::testing::TestWithParam<Target> {};

void run(Target const& target, std::vector<std::uint8_t> const& bytes, std::string const& which) {
    try {
        target.run(Input(bytes.data(), bytes.size()));
    } catch (std::exception const& error) {
        ADD_FAILURE() << target.name << ", " << which << ": " << error.what();
    }
}

TEST_P(Replay, Corpus) {
    std::filesystem::path const folder = std::filesystem::path(MGI_FUZZ_CORPUS) / GetParam().name;
    if (!std::filesystem::exists(folder)) return;  // inputs that are no text have no corpus
    for (auto const& entry : std::filesystem::directory_iterator(folder)) {
        std::ifstream file(entry.path(), std::ios::binary);
        std::vector<std::uint8_t> const bytes{std::istreambuf_iterator<char>(file), {}};
        run(GetParam(), bytes, entry.path().string());
    }
}

TEST_P(Replay, Seeds) {
    for (int seed = 0; seed < GetParam().inputs && !HasFailure(); ++seed) {
        test::Random random{std::uint64_t(seed)};
        std::vector<std::uint8_t> bytes(random.below(400));
        for (std::uint8_t& byte : bytes) byte = std::uint8_t(random.next());
        run(GetParam(), bytes, "seed " + std::to_string(seed));
    }
}

INSTANTIATE_TEST_SUITE_P(
    Fuzz, Replay,
    ::testing::Values(
        Target{"core_list", &core_list, 2000}, Target{"numa_nodes", &numa_nodes, 100},
        Target{"arrow_schema", &arrow_schema, 5000}, Target{"arrow_batch", &arrow_batch, 5000},
        Target{"nested_value", &nested_value, 5000}, Target{"plan", &plan, 5000},
        Target{"topology_file", &topology_file, 5000}, Target{"corrections", &corrections, 5000},
        Target{"agent_message", &agent_message, 20'000}, Target{"plan_bytes", &plan_bytes, 20'000},
        Target{"cluster", &cluster, 20'000}, Target{"wire", &wire, 5000}),
    [](auto const& target) { return std::string(target.param.name); });

}  // namespace
}  // namespace mgi::fuzz
