/// \file
/// Threads of a warp that are in the same place at the same time, for what they had better do once for all of
/// them. On a CPU every thread is by itself.
#pragma once

#include <mgi/device/config.hpp>

namespace mgi::device {

/// Of the threads of a warp that have just come here together those that have come with the same `what`.
/// They may leave each other behind it; while they use this one, all of them make each call.
class Together {
public:
    MGI_HD explicit Together([[maybe_unused]] void const* what) {
#if defined(__CUDA_ARCH__)
        mask_ = __match_any_sync(__activemask(), static_cast<unsigned long long>(
                                                     reinterpret_cast<std::uintptr_t>(what)));
        u32 lane;
        asm("mov.u32 %0, %%laneid;" : "=r"(lane));
        rank_ = u32(__popc(mask_ & ((1u << lane) - 1)));
        count_ = u32(__popc(mask_));
#endif
    }

    [[nodiscard]] MGI_HD u32 count() const { return count_; }
    [[nodiscard]] MGI_HD u32 rank() const { return rank_; }
    [[nodiscard]] MGI_HD bool leads() const { return rank_ == 0; }

    /// The leader's value, in every one of them.
    [[nodiscard]] MGI_HD u32 of_leader(u32 value) const {
#if defined(__CUDA_ARCH__)
        return __shfl_sync(mask_, value, __ffs(int(mask_)) - 1);
#else
        return value;
#endif
    }
    [[nodiscard]] MGI_HD u64 of_leader(u64 value) const {
        u64 const high = of_leader(u32(value >> 32));
        return high << 32 | of_leader(u32(value));
    }

    /// What each has written before it the leader sees behind it.
    MGI_HD void sync() const {
#if defined(__CUDA_ARCH__)
        __syncwarp(mask_);
#endif
    }

private:
    [[maybe_unused]] u32 mask_ = 1;  // on a GPU
    u32 rank_ = 0;
    u32 count_ = 1;
};

}  // namespace mgi::device
