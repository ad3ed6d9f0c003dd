/// \file
/// Threads of a warp that are in the same place at the same time, for what they had better do once for all of
/// them. On a CPU every thread is by itself.
#pragma once

#include <mgi/device/group.hpp>

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

/// Whether a thread is in its group's first warp; of a CPU's group the leader is.
[[nodiscard]] MGI_HD inline bool in_leaders_warp(Group const& group) {
#if defined(__CUDA_ARCH__)
    return group.thread < (group.threads < 32 ? 1 : 32);
#else
    return group.leads();
#endif
}

/// The leader's value, in all threads of its warp.
[[nodiscard]] MGI_HD inline u32 of_leader([[maybe_unused]] Group const& group, u32 value) {
#if defined(__CUDA_ARCH__)
    if (group.threads >= 32) return __shfl_sync(~0u, value, 0);
#endif
    return value;
}

/// The first of `count` numbers that `is_one` holds for, or `count`; by all threads of the leader's warp. On a GPU
/// each of them asks for numbers of its own.
template <class IsOne>
[[nodiscard]] MGI_HD u32 first_of_warp([[maybe_unused]] Group const& group, u32 count,
                                       IsOne&& is_one) {
    u32 first = 0;
#if defined(__CUDA_ARCH__)
    for (; group.threads >= 32 && first < count; first += 32) {
        u32 const mine = first + group.thread;
        u32 const ones = __ballot_sync(~0u, mine < count && is_one(mine));
        if (ones != 0) return first + u32(__ffs(int(ones))) - 1;
    }
    if (group.threads >= 32) return count;
#endif
    while (first < count && !is_one(first)) ++first;
    return first;
}

}  // namespace mgi::device
