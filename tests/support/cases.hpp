/// \file
/// How many random cases a test that only computes runs through.
#pragma once

namespace mgi::test {

/// All of them, or with a sanitizer an eighth: it is ten times as slow, and looks at how a result is
/// computed; whether each is right is the optimized build's to say.
template <class Count>
constexpr Count cases(Count all) {
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
    return all / 8;
#else
    return all;
#endif
}

}  // namespace mgi::test
