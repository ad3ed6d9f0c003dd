/// \file
/// Leaf wrapper: how values are read and written, and how a tile's bytes come into a group's scratch.
/// On a CPU values may lie at any address; on a GPU at multiples of their type's alignment.
#pragma once

#include <mgi/device/group.hpp>

namespace mgi::device {

/// A value of 16 bytes, moved as a whole.
struct alignas(8) Wide16 {
    u64 word[2];
};

/// How many bytes of a value are moved at once: a power of two up to 16 that divides its width. `places` has
/// the bits of wherever its values lie, which are multiples of what is moved (of 8 for a Wide16).
MGI_HD constexpr u32 unit_of(u64 places, u32 width) {
    u64 const bits = places | width | 8;
    u32 const lowest = u32(bits & (~bits + 1));
    return lowest == 8 && width % 16 == 0 ? 16 : lowest;
}

template <class T>
MGI_HD T load_value(void const* at) {
#if defined(__CUDA_ARCH__)
    // Of bytes at no known address the compiler would make a load for each.
    return *static_cast<T const*>(at);
#else
    T value;
    memcpy(&value, at, sizeof(T));
    return value;
#endif
}

template <class T>
MGI_HD void store_value(void* at, T const& value) {
#if defined(__CUDA_ARCH__)
    *static_cast<T*>(at) = value;
#else
    memcpy(at, &value, sizeof(T));
#endif
}

/// Copies 16 bytes `count` times between addresses that are multiples of 16, `to` in the group's scratch,
/// each thread its share. On a GPU they are on their way until `wait_for_copies`.
MGI_HD inline void copy_16_to_scratch(Group const& group, char* to, char const* from, u32 count) {
#if defined(__CUDA_ARCH__)
    if (__isGlobal(from)) {
        u32 at = u32(__cvta_generic_to_shared(to)) + 16 * group.thread;
        u64 source = __cvta_generic_to_global(from) + 16 * u64(group.thread);
        u32 const step = 16 * group.threads;
        u32 const end = u32(__cvta_generic_to_shared(to)) + 16 * count;
        for (; at < end; at += step, source += step) {
            asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(at), "l"(source));
        }
        return;
    }
#endif
    for (u32 i = group.thread; i < count; i += group.threads) {
        memcpy(to + 16 * i, from + 16 * i, 16);
    }
}

/// What the calling thread has copied to the scratch is there.
MGI_HD inline void wait_for_copies() {
#if defined(__CUDA_ARCH__)
    asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}

/// Scratch that `copy_to_scratch` may touch, a multiple of 16.
MGI_HD constexpr u32 scratch_for_copy(u32 bytes) {
    return (bytes + 15) / 16 * 16 + 16;
}

/// Starts to copy bytes into the group's scratch, at the same place in 16 bytes as they came from, and
/// returns where they will be. `to` is a multiple of 16.
MGI_HD inline char* copy_to_scratch(Group const& group, char* to, char const* from, u32 bytes) {
    u32 const phase = u32(reinterpret_cast<std::uintptr_t>(from)) % 16;
    char* const at = to + phase;
    u32 const head = min_of((16 - phase) % 16, bytes);
    u32 const body = (bytes - head) / 16;
    for (u32 i = group.thread; i < head; i += group.threads) at[i] = from[i];
    copy_16_to_scratch(group, at + head, from + head, body);
    for (u32 i = head + 16 * body + group.thread; i < bytes; i += group.threads) at[i] = from[i];
    return at;
}

}  // namespace mgi::device
