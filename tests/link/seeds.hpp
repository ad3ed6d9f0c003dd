/// \file
/// Which seeds a test in virtual time runs: MGI_LINK_SEEDS says how many, MGI_LINK_SEED a single one.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <string>

#include "support/cases.hpp"
#include "support/random.hpp"

namespace mgi::test {

/// The command that runs a seed of this test alone.
inline std::string replay(std::uint64_t seed) {
    auto const* const test = ::testing::UnitTest::GetInstance()->current_test_info();
    return std::string("replay: MGI_TEST_SEED=") + std::to_string(base_seed()) +
           " MGI_LINK_SEED=" + std::to_string(seed) +
           " mgi_tests --gtest_filter=" + test->test_suite_name() + "." + test->name();
}

/// Plays one seed after the other until one fails: `cases(count)` of them where nothing else is said.
/// What fails is named with its seed.
template <class Play>
void for_seeds(std::uint64_t count, Play const& play) {
    std::uint64_t first = 0;
    std::uint64_t last = cases(count);
    if (char const* const one = std::getenv("MGI_LINK_SEED")) {
        first = std::strtoull(one, nullptr, 10);
        last = first + 1;
    } else if (char const* const many = std::getenv("MGI_LINK_SEEDS")) {
        last = std::strtoull(many, nullptr, 10);
    }
    for (std::uint64_t seed = first; seed < last && !::testing::Test::HasFailure(); ++seed) {
        SCOPED_TRACE(replay(seed));
        play(seed);
    }
}

}  // namespace mgi::test
