/// \file
/// The atomics policy of the protocols: every shared word of the data plane is one of these, with one
/// scope for life. Production uses libcu++, which is the same source for g++ and nvcc; a checker puts
/// its own words in the same places.
#pragma once

#include <cuda/atomic>

#include <mgi/device/config.hpp>

namespace mgi::device {

inline constexpr auto relaxed = cuda::std::memory_order_relaxed;
inline constexpr auto acquire = cuda::std::memory_order_acquire;
inline constexpr auto release = cuda::std::memory_order_release;
inline constexpr auto acq_rel = cuda::std::memory_order_acq_rel;
inline constexpr auto seq_cst = cuda::std::memory_order_seq_cst;

/// Lets the other side run while this thread waits for it: a pause, later a yield of the core.
/// `round` counts the polls that found nothing; the caller starts it at 0.
MGI_HD void backoff(u32 round);

/// libcu++ words. `Device` is for words that only threads of one device touch, `System` for words
/// that a host thread (a mover, the watchdog) touches as well.
struct LibcuAtomics {
    template <class T>
    using Device = cuda::atomic<T, cuda::thread_scope_device>;
    template <class T>
    using System = cuda::atomic<T, cuda::thread_scope_system>;
    /// How a thread waits; a checker lets another one run.
    MGI_HD static void backoff(u32 round) { device::backoff(round); }
};

}  // namespace mgi::device

#include <mgi/device/backoff.inl>
