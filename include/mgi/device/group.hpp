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

/// The same address in a group's scratch, of which the compiler then knows where it lies: on a GPU such
/// accesses are cheaper. For functions of their own, which are not told, and addresses out of memory.
template <class T>
[[nodiscard]] MGI_HD T* in_scratch(T* at) {
#if defined(__CUDA_ARCH__)
    return static_cast<T*>(__cvta_shared_to_generic(__cvta_generic_to_shared(at)));
#else
    return at;
#endif
}

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

/// Adds 1, for each of `kRows` things, to one of `count` counters in group-shared memory: `which[k]`, nothing
/// unless `counts[k]`; `rank[k]` gets what the counter was. All threads of the group call it together. On a
/// GPU those of a warp that count the same add together, where counters are so few that they would queue up.
template <u32 kRows>
MGI_HD void shared_ranks(u32* counters, [[maybe_unused]] u32 count, u32 const (&which)[kRows],
                         bool const (&counts)[kRows], u32 (&rank)[kRows]) {
#if defined(__CUDA_ARCH__)
    if (count <= 4 && blockDim.x % 32 == 0) {
        u32 constexpr kAll = 0xffffffffu;
        u32 lane;
        asm("mov.u32 %0, %%laneid;" : "=r"(lane));
        u32 peers[kRows];
        for (u32 k = 0; k < kRows; ++k) peers[k] = __ballot_sync(kAll, counts[k]);
        for (u32 b = 0; (count - 1) >> b != 0; ++b) {
            for (u32 k = 0; k < kRows; ++k) {
                bool const set = (which[k] >> b & 1) != 0;
                u32 const having = __ballot_sync(kAll, set);
                peers[k] &= set ? having : ~having;
            }
        }
        u32 first[kRows];
        for (u32 k = 0; k < kRows; ++k) {
            first[k] = 0;
            bool const adds = counts[k] && (peers[k] & ((1u << lane) - 1)) == 0;
            if (adds) first[k] = atomicAdd(&counters[which[k]], u32(__popc(peers[k])));
        }
        for (u32 k = 0; k < kRows; ++k) {
            int const leader = counts[k] ? __ffs(int(peers[k])) - 1 : int(lane);
            rank[k] =
                __shfl_sync(kAll, first[k], leader) + u32(__popc(peers[k] & ((1u << lane) - 1)));
        }
        return;
    }
#endif
    for (u32 k = 0; k < kRows; ++k) rank[k] = counts[k] ? shared_add(&counters[which[k]], 1) : 0;
}

/// The sums of all counters before each, in group-shared memory: starts[d] = counts[0] + ... + counts[d - 1].
/// By the group's first threads; a barrier must follow.
MGI_HD inline void shared_sums(Group const& group, u32 const* counts, u32 count, u32* starts) {
#if defined(__CUDA_ARCH__)
    if (blockDim.x % 32 == 0) {
        if (group.thread >= 32) return;
        u32 before = 0;
        for (u32 first = 0; first < count; first += 32) {
            u32 const d = first + group.thread;
            u32 const mine = d < count ? counts[d] : 0;
            u32 sum = mine;
            for (u32 by = 1; by < 32; by *= 2) {
                u32 const other = __shfl_up_sync(0xffffffffu, sum, by);
                if (group.thread >= by) sum += other;
            }
            if (d < count) starts[d] = before + sum - mine;
            before += __shfl_sync(0xffffffffu, sum, 31);
        }
        return;
    }
#endif
    if (!group.leads()) return;
    u32 sum = 0;
    for (u32 d = 0; d < count; ++d) {
        starts[d] = sum;
        sum += counts[d];
    }
}

/// How a group's threads share out work of two kinds that goes on at the same time: the first ones are
/// workers, the last ones clerks. Without clerks everybody is both. On a GPU clerks are a warp, and barriers
/// hold up only who must wait; on a CPU every one of them is the group's.
class Crew {
public:
    /// With clerks, if there are threads enough.
    MGI_HD Crew(Group const& group, bool apart) : group_(group), clerks_(0) {
        if (apart && group.threads >= kLeastThreads && group.threads % kClerks == 0) {
            clerks_ = kClerks;
        }
    }

    [[nodiscard]] MGI_HD bool is_worker() const { return group_.thread < group_.threads - clerks_; }
    [[nodiscard]] MGI_HD bool is_clerk() const { return clerks_ == 0 || !is_worker(); }
    /// The workers, or the clerks, as a group that deals out work among them; to be asked by one of them.
    [[nodiscard]] MGI_HD Group workers() const {
        Group part = group_;
        part.threads -= clerks_;
        return part;
    }
    [[nodiscard]] MGI_HD Group clerks() const {
        Group part = group_;
        if (clerks_ != 0) {
            part.thread -= part.threads - clerks_;
            part.threads = clerks_;
        }
        return part;
    }
    [[nodiscard]] MGI_HD bool apart() const { return clerks_ != 0; }

    // Barriers; all threads of the group call each.

    /// Among workers.
    MGI_HD void sync_workers() const {
#if defined(__CUDA_ARCH__)
        if (clerks_ != 0) {
            if (is_worker()) wait_at<kWorkersMeet>(group_.threads - clerks_);
            return;
        }
#endif
        group_.sync();
    }
    /// Among clerks.
    MGI_HD void sync_clerks() const {
#if defined(__CUDA_ARCH__)
        if (clerks_ != 0) {
            if (!is_worker()) __syncwarp();
            return;
        }
#endif
        group_.sync();
    }
    /// Workers wait for each other, and clerks for all workers, who do not wait for clerks. Two kinds, to be
    /// called by turns.
    MGI_HD void await_counts() const { await_workers<kCounted>(); }
    MGI_HD void await_rows() const { await_workers<kWritten>(); }

private:
#if defined(__CUDA_ARCH__)
    static constexpr u32 kClerks = 32;
    static constexpr u32 kLeastThreads = 128;
#else
    static constexpr u32 kClerks = 1;
    static constexpr u32 kLeastThreads = 2;
#endif
    // Of the sixteen that a thread block has.
    static constexpr u32 kWorkersMeet = 13;
    static constexpr u32 kCounted = 14;
    static constexpr u32 kWritten = 15;

    template <u32 kBarrier>
    MGI_HD void await_workers() const {
#if defined(__CUDA_ARCH__)
        if (clerks_ != 0) {
            if (is_worker()) {
                asm volatile("barrier.arrive %0, %1;" ::"n"(kBarrier), "r"(group_.threads)
                             : "memory");
                wait_at<kWorkersMeet>(group_.threads - clerks_);
            } else {
                wait_at<kBarrier>(group_.threads);
            }
            return;
        }
#endif
        group_.sync();
    }
#if defined(__CUDA_ARCH__)
    template <u32 kBarrier>
    MGI_HD static void wait_at(u32 threads) {
        asm volatile("barrier.sync %0, %1;" ::"n"(kBarrier), "r"(threads) : "memory");
    }
#endif

    Group group_;
    u32 clerks_;
};

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
