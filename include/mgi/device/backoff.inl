// Leaf wrapper: one of the few places where host and GPU code differ.
#if !defined(__CUDA_ARCH__) && !defined(__CUDACC_RTC__)
#include <sched.h>
#include <time.h>
#endif

namespace mgi::device {

/// The round of who is not awaited, and looks now and then.
inline constexpr u32 kRest = 1u << 20;

MGI_HD inline void backoff(u32 round) {
#if defined(__CUDA_ARCH__)
    __nanosleep(round < 6 ? 32u << round : 2048u);
#else
    if (round < 16) {
#if defined(__x86_64__)
        __builtin_ia32_pause();
#endif
    } else if (round < 64) {
        sched_yield();
    } else {
        // More groups than cores, or a slow partner: sleep, so that whoever is awaited gets the core.
        timespec const nap{0, round < 256 ? 20'000 : round < kRest ? 200'000 : 2'000'000};
        nanosleep(&nap, nullptr);
    }
#endif
}

}  // namespace mgi::device
