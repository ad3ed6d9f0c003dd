/// \file
/// Which seeds a test in virtual time runs: MGI_LINK_SEEDS says how many, MGI_LINK_SEED a single one.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <string>

#include "support/hang_guard.hpp"
#include "support/random.hpp"

namespace mgi::test {

struct Seeds {
    std::uint64_t first = 0;
    std::uint64_t last = 0;

    /// `count` of them where nothing else is said, a tenth under sanitizers.
    static Seeds of(std::uint64_t count) {
        if (char const* const one = std::getenv("MGI_LINK_SEED")) {
            std::uint64_t const seed = std::strtoull(one, nullptr, 10);
            return {seed, seed + 1};
        }
        char const* const many = std::getenv("MGI_LINK_SEEDS");
        if (many != nullptr) return {0, std::strtoull(many, nullptr, 10)};
        return {0, kSanitized ? count / 10 : count};
    }

    /// The command that runs a seed of this test alone.
    static std::string replay(std::uint64_t seed) {
        auto const* const test = ::testing::UnitTest::GetInstance()->current_test_info();
        return std::string("\nreplay: MGI_TEST_SEED=") + std::to_string(base_seed()) +
               " MGI_LINK_SEED=" + std::to_string(seed) +
               " mgi_tests --gtest_filter=" + test->test_suite_name() + "." + test->name();
    }
};

}  // namespace mgi::test
