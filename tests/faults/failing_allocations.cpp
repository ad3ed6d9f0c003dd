#include "faults/failing_allocations.hpp"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/mman.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <new>

#include <mgi/error.hpp>

namespace mgi::faults {

thread_local int Spared::depth = 0;

namespace {

// Allocations still to pass; the one that brings it from 1 to 0 fails. 0: none will.
std::atomic<std::uint64_t> countdown{0};

bool this_one_fails() {
    if (Spared::depth != 0) return false;
    std::uint64_t left = countdown.load(std::memory_order_relaxed);
    do {
        if (left == 0) return false;
    } while (!countdown.compare_exchange_weak(left, left - 1, std::memory_order_relaxed));
    return left == 1;
}

void* allocate(std::size_t size, std::size_t alignment) {
    if (this_one_fails()) throw std::bad_alloc();
    std::size_t const whole = (size + alignment - 1) / alignment * alignment;
    void* const at = alignment <= alignof(std::max_align_t)
                         ? std::malloc(size == 0 ? 1 : size)
                         : std::aligned_alloc(alignment, whole == 0 ? alignment : whole);
    if (at == nullptr) throw std::bad_alloc();
    return at;
}

void* allocate_or_null(std::size_t size, std::size_t alignment) noexcept {
    try {
        return allocate(size, alignment);
    } catch (std::bad_alloc const&) {
        return nullptr;
    }
}

// What the disturbed operation threw; empty for what it may.
std::string run_disturbed(std::function<void()> const& operation) {
    try {
        operation();
    } catch (Error const& error) {
        if (error.code() == ErrorCode::OutOfMemory || error.code() == ErrorCode::GroupFailed) {
            return "";
        }
        return std::string(to_string(error.code())) + ": " + error.what();
    } catch (std::bad_alloc const&) {
        return "";
    } catch (std::exception const& error) {
        return std::string("an exception that is no Error: ") + error.what();
    }
    return "";
}

}  // namespace

void fail_each_allocation(std::function<void()> const& operation, std::uint64_t dense) {
    operation();  // what is made once in a process is made
    std::uint64_t tried = 0;
    for (std::uint64_t n = 1;; n += n < dense ? 1 : n / dense * 8) {
        countdown.store(n, std::memory_order_relaxed);
        std::string const wrong = run_disturbed(operation);
        bool const none_failed = countdown.exchange(0, std::memory_order_relaxed) != 0;
        ++tried;
        EXPECT_EQ(wrong, "") << "with allocation " << n << " failing";
        try {
            operation();
        } catch (std::exception const& error) {
            ADD_FAILURE() << "after allocation " << n << " had failed: " << error.what();
        }
        if (none_failed || ::testing::Test::HasFailure()) break;
    }
    std::printf("%llu allocations failed\n", static_cast<unsigned long long>(tried - 1));
}

}  // namespace mgi::faults

// The replacements. Everything ends in malloc, so that sanitizers still see each block.

void* operator new(std::size_t size) {
    return mgi::faults::allocate(size, 1);
}
void* operator new[](std::size_t size) {
    return mgi::faults::allocate(size, 1);
}
void* operator new(std::size_t size, std::align_val_t alignment) {
    return mgi::faults::allocate(size, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t size, std::align_val_t alignment) {
    return mgi::faults::allocate(size, static_cast<std::size_t>(alignment));
}
void* operator new(std::size_t size, std::nothrow_t const&) noexcept {
    return mgi::faults::allocate_or_null(size, 1);
}
void* operator new[](std::size_t size, std::nothrow_t const&) noexcept {
    return mgi::faults::allocate_or_null(size, 1);
}
void* operator new(std::size_t size, std::align_val_t alignment, std::nothrow_t const&) noexcept {
    return mgi::faults::allocate_or_null(size, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t size, std::align_val_t alignment, std::nothrow_t const&) noexcept {
    return mgi::faults::allocate_or_null(size, static_cast<std::size_t>(alignment));
}
void operator delete(void* at) noexcept {
    std::free(at);
}
void operator delete[](void* at) noexcept {
    std::free(at);
}
void operator delete(void* at, std::size_t) noexcept {
    std::free(at);
}
void operator delete[](void* at, std::size_t) noexcept {
    std::free(at);
}
void operator delete(void* at, std::align_val_t) noexcept {
    std::free(at);
}
void operator delete[](void* at, std::align_val_t) noexcept {
    std::free(at);
}
void operator delete(void* at, std::size_t, std::align_val_t) noexcept {
    std::free(at);
}
void operator delete[](void* at, std::size_t, std::align_val_t) noexcept {
    std::free(at);
}

extern "C" {

// The linker sends the library's calls of these functions here (--wrap=mmap, and so on).
// NOLINTBEGIN(bugprone-reserved-identifier)
void* __real_mmap(void* at, std::size_t size, int protection, int flags, int file, off_t offset);
void* __wrap_mmap(void* at, std::size_t size, int protection, int flags, int file, off_t offset) {
    if (mgi::faults::this_one_fails()) {
        errno = ENOMEM;
        return MAP_FAILED;
    }
    return __real_mmap(at, size, protection, flags, file, offset);
}
int __real_memfd_create(char const* name, unsigned flags);
int __wrap_memfd_create(char const* name, unsigned flags) {
    if (!mgi::faults::this_one_fails()) return __real_memfd_create(name, flags);
    errno = EMFILE;
    return -1;
}
int __real_fallocate(int file, int mode, off_t offset, off_t size);
int __wrap_fallocate(int file, int mode, off_t offset, off_t size) {
    if (!mgi::faults::this_one_fails()) return __real_fallocate(file, mode, offset, size);
    errno = ENOSPC;
    return -1;
}
// NOLINTEND(bugprone-reserved-identifier)

// std::thread's calls find this one before the C library's.
int pthread_create(pthread_t* thread, pthread_attr_t const* attributes, void* (*body)(void*),
                   void* argument) {
    using Create = int (*)(pthread_t*, pthread_attr_t const*, void* (*)(void*), void*);
    static auto const real = reinterpret_cast<Create>(dlsym(RTLD_NEXT, "pthread_create"));
    if (mgi::faults::this_one_fails()) return EAGAIN;
    return real(thread, attributes, body, argument);
}
}
