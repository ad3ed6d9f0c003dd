/// \file
/// No test may hang: a watchdog that, when one test takes too long, prints where every thread stands
/// and ends the process. It is installed by being linked; nothing needs to be called.
#pragma once

#include <chrono>

namespace mgi::test {

/// Whether this build runs under ThreadSanitizer or AddressSanitizer, which slow it down.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

/// How long one test may take: MGI_TEST_LIMIT seconds, by default a minute (four with a sanitizer).
std::chrono::seconds test_limit();

/// Prints the stack of every thread of this process to stderr: by gdb where there is one, else each
/// thread prints its own when a signal tells it to.
void print_all_stacks();

}  // namespace mgi::test
