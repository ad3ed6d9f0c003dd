/// \file
/// Who makes a device call: a group of threads (a thread block on a GPU, one or a few threads on a
/// CPU), and the scratch memory its threads share (DESIGN section 7).
#pragma once

#include <mgi/device/atomics.hpp>
#include <mgi/device/barrier.hpp>

namespace mgi::device {

/// A group's place in its launch. All of its threads make each device call together, with equal
/// arguments. Copy it freely; `slice` renumbers some of a launch's groups as a launch of their own.
struct Group {
    u32 block = 0;                   ///< index of the group in the launch
    u32 blocks = 1;                  ///< groups in the launch at this endpoint
    u32 thread = 0;                  ///< index of the calling thread in the group
    u32 threads = 1;                 ///< threads in the group
    u64 launch = 0;                  ///< a number that no other group of the process ever has
    HostBarrier* barrier = nullptr;  ///< CPU only: what `sync` waits at, null for one thread

    /// One thread of the group speaks for it where a word of a protocol is touched.
    [[nodiscard]] MGI_HD bool leads() const { return thread == 0; }

    /// Group barrier: writes of all threads before it are seen by all threads behind it. On a CPU it
    /// throws GroupAborted when another thread of the group has left with an exception.
    MGI_HD void sync() const {
#if defined(__CUDA_ARCH__)
        __syncthreads();
#else
        if (barrier != nullptr) barrier->arrive_and_wait();
#endif
    }

    /// Groups [first, first + count) of this launch as a launch of `count` groups, for kernels in
    /// which only some groups send. To be called by those groups alone.
    [[nodiscard]] MGI_HD Group slice(u32 first, u32 count) const {
        Group part = *this;
        part.block = block - first;
        part.blocks = count;
        return part;
    }
};

/// Scratch memory shared by the threads of a group: dynamic shared memory on a GPU, a buffer of the
/// launch on a CPU. Device calls use it from the start and leave nothing in it; what a kernel wants
/// to keep it takes from the end.
struct Shared {
    std::byte* data = nullptr;
    u32 bytes = 0;

    /// Takes `count` objects, rounded up to 16 bytes, from the end of the scratch for the kernel's own
    /// use; null when fewer than `reserve` bytes would be left. Called by every thread of the group
    /// alike.
    template <class T>
    MGI_HD T* take(u32 count, u32 reserve = 0) {
        u64 const size = (u64(count) * sizeof(T) + 15) / 16 * 16;
        if (size + reserve > bytes) return nullptr;
        bytes -= u32(size);
        return reinterpret_cast<T*>(data + bytes);
    }
};

/// The leader's value, in every thread of the group. `word` is in group-shared memory.
MGI_HD inline u32 agree(Group const& group, u32* word, u32 value) {
    if (group.threads == 1) return value;
    group.sync();  // everybody has read what an earlier call left there
    if (group.leads()) *word = value;
    group.sync();
    return *word;
}

/// Adds to a counter in group-shared memory and returns what it was.
MGI_HD inline u32 shared_add(u32* counter, u32 value) {
#if defined(__CUDA_ARCH__)
    return atomicAdd(counter, value);
#else
    return __atomic_fetch_add(counter, value, __ATOMIC_RELAXED);
#endif
}

/// Adds 1 to one of `count` counters in group-shared memory and returns what it was; nothing unless
/// `counts`. All threads of the group call it together. On a GPU those of a warp that count the same add
/// together, where counters are so few that they would queue up.
MGI_HD inline u32 shared_count(u32* counters, u32 which, [[maybe_unused]] u32 count, bool counts) {
#if defined(__CUDA_ARCH__)
    if (count <= 16 && blockDim.x % 32 == 0) {
        u32 constexpr kAll = 0xffffffffu;
        u32 peers = __ballot_sync(kAll, counts);
        for (u32 b = 0; b < 4; ++b) {
            bool const set = (which >> b & 1) != 0;
            u32 const having = __ballot_sync(kAll, set);
            peers &= set ? having : ~having;
        }
        u32 lane;
        asm("mov.u32 %0, %%laneid;" : "=r"(lane));
        u32 const leader = counts ? u32(__ffs(int(peers))) - 1 : lane;
        u32 first = 0;
        if (counts && lane == leader) first = atomicAdd(&counters[which], u32(__popc(peers)));
        return __shfl_sync(kAll, first, int(leader)) + u32(__popc(peers & ((1u << lane) - 1)));
    }
#endif
    return counts ? shared_add(&counters[which], 1) : 0;
}

/// Whether `mine` is true in any thread of the group. A group barrier. `word` is in group-shared memory.
MGI_HD inline bool any_of(Group const& group, [[maybe_unused]] u32* word, bool mine) {
    if (group.threads == 1) return mine;
#if defined(__CUDA_ARCH__)
    return __syncthreads_or(mine ? 1 : 0) != 0;
#else
    group.sync();  // everybody has read what an earlier call left there
    if (group.leads()) *word = 0;
    group.sync();
    if (mine) shared_add(word, 1);
    group.sync();
    return *word != 0;
#endif
}

/// Whether `mine` is true in every thread of the group. As `any_of`.
MGI_HD inline bool all_agree(Group const& group, u32* word, bool mine) {
    return !any_of(group, word, !mine);
}

/// Sets bits of a word that other groups set bits of at the same time.
MGI_HD inline void shared_or(u64* word, u64 bits) {
#if defined(__CUDA_ARCH__)
    atomicOr(reinterpret_cast<unsigned long long*>(word), static_cast<unsigned long long>(bits));
#else
    __atomic_fetch_or(word, bits, __ATOMIC_RELAXED);
#endif
}

}  // namespace mgi::device
