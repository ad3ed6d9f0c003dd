/// \file
/// Memory for a benchmark's rows, on huge pages where the system has them.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>

namespace mgi::perf {

struct FreeBuffer {
    void operator()(void* at) const { std::free(at); }
};

/// `count` objects without a value.
template <class T>
using Buffer = std::unique_ptr<T[], FreeBuffer>;

template <class T>
Buffer<T> make_buffer(std::size_t count) {
    constexpr std::size_t kHugePage = std::size_t{2} << 20;
    std::size_t const bytes = (count * sizeof(T) + kHugePage - 1) / kHugePage * kHugePage;
    void* const at = std::aligned_alloc(kHugePage, bytes == 0 ? kHugePage : bytes);
    if (at == nullptr) throw std::bad_alloc();
    madvise(at, bytes, MADV_HUGEPAGE);  // a hint: without it the figures are only lower
    return Buffer<T>(static_cast<T*>(at));
}

}  // namespace mgi::perf
