/// \file
/// How many random cases a test that only computes runs through.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "support/hang_guard.hpp"

namespace mgi::test {

/// Percent of each test's random cases to run: MGI_TEST_CASES, by default 100.
inline std::uint64_t percent_of_cases() {
    char const* const text = std::getenv("MGI_TEST_CASES");
    return text == nullptr ? 100 : std::strtoull(text, nullptr, 10);
}

/// All of them, as many percent as MGI_TEST_CASES says, and with a sanitizer an eighth of that: it is
/// ten times as slow, and looks at how a result is computed; whether each is right is the optimized
/// build's to say. Four at least.
template <class Count>
Count cases(Count all) {
    std::uint64_t const some = std::uint64_t(all) * percent_of_cases() / 100 / (kSanitized ? 8 : 1);
    return std::min(all, Count(std::max<std::uint64_t>(some, 4)));
}

/// Seeds of tests that run real threads: as many percent as MGI_TEST_CASES says, with a sanitizer too, which
/// sees what threads do to each other. Two at least.
inline int seeds(int all) {
    return std::max(int(std::uint64_t(all) * percent_of_cases() / 100), 2);
}

}  // namespace mgi::test
