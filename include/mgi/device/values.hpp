/// \file
/// Leaf wrapper: how values are read and written, and how a tile's bytes come into a group's scratch.
/// On a CPU values may lie at any address; on a GPU at multiples of their type's alignment.
#pragma once

#include <mgi/device/group.hpp>

namespace mgi::device {

/// A value of 16 bytes, moved as a whole.
struct alignas(16) Wide16 {
    u64 word[2];
};

/// How many bytes of a value are moved at once: a power of two up to 16 that divides its width. `places` has
/// the bits of wherever its values lie, which are multiples of what is moved.
MGI_HD constexpr u32 unit_of(u64 places, u32 width) {
    u64 const bits = places | width | 16;
    return u32(bits & (~bits + 1));
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

/// Stores into a segment or a carry buffer, which on a GPU lie in its memory.
template <class T>
MGI_HD void store_to_segment(char* at, T const& value) {
#if defined(__CUDA_ARCH__)
    __builtin_assume(__isGlobal(at));
#endif
    store_value(at, value);
}

/// Copies kBytes (4 or 16) `count` times between addresses that are multiples of that, `to` in the group's
/// scratch, each thread its share. On a GPU they are on their way until `wait_for_copies`.
template <u32 kBytes>
MGI_HD void copy_units_to_scratch(Group const& group, char* to, char const* from, u32 count) {
#if defined(__CUDA_ARCH__)
    if (__isGlobal(from)) {
        u32 at = u32(__cvta_generic_to_shared(to)) + kBytes * group.thread;
        u64 source = __cvta_generic_to_global(from) + kBytes * u64(group.thread);
        u32 const step = kBytes * group.threads;
        u32 const end = u32(__cvta_generic_to_shared(to)) + kBytes * count;
        for (; at < end; at += step, source += step) {
            if constexpr (kBytes == 16) {
                asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(at), "l"(source));
            } else {
                asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(at), "l"(source));
            }
        }
        return;
    }
#endif
    for (u32 i = group.thread; i < count; i += group.threads) {
        memcpy(to + kBytes * i, from + kBytes * i, kBytes);
    }
}

/// The same of any number of bytes at any place.
MGI_HD inline void copy_few_to_scratch(Group const& group, char* to, char const* from, u32 bytes) {
    if ((u64(reinterpret_cast<std::uintptr_t>(from)) | bytes) % 4 == 0) {
        return copy_units_to_scratch<4>(group, to, from, bytes / 4);
    }
    for (u32 i = group.thread; i < bytes; i += group.threads) to[i] = from[i];
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
    u32 const tail = head + 16 * body;
    if (head != 0) copy_few_to_scratch(group, at, from, head);
    copy_units_to_scratch<16>(group, at + head, from + head, body);
    if (tail != bytes) copy_few_to_scratch(group, at + tail, from + tail, bytes - tail);
    return at;
}

}  // namespace mgi::device
