// GPU memory that a caller's allocator provides.
#include "gpu/provided.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <stdexcept>

#include <mgi/error.hpp>

#include "gpu/reserve.hpp"
#include "support/expect_error.hpp"
#include "support/fake_driver.hpp"
#include "support/gpu_pool.hpp"

namespace mgi::gpu {
namespace {

using test::expect_error;
using test::FakeDriver;
using test::GpuPool;

/// A reserve over an allocator, that would keep all there is.
std::shared_ptr<Reserve> reserve_over(GpuAllocator const& allocator) {
    return std::make_shared<Reserve>(1 << 20, 1 << 20, nullptr, to_share(allocator));
}

/// An allocator that hands out one address, and counts what comes back.
GpuAllocator giving(void* at, int& back) {
    return {[at](int, std::uint64_t) { return at; },
            [at, &back](int, void* came, std::uint64_t) { back += came == at ? 1 : 1000; }};
}

void refuses(void* at, std::string const& word) {
    int back = 0;
    expect_error(ErrorCode::InvalidArgument, {"cuda:0", "gpu_allocator", "1000 bytes", word},
                 [&] { (void)reserve_over(giving(at, back))->memory(0, 1000); });
    EXPECT_EQ(back, 1) << "it goes back";
}

TEST(GpuProvidedMemory, IsZeroedAndGoesBackAtOnce) {
    for (char const* const streams : {"at once", "late:3", "waited", "threads"}) {
        FakeDriver const fake({{"DEVICES", "2"}, {"STREAMS", streams}});
        GpuPool const pool;
        auto const reserve = reserve_over(pool.allocator());
        {
            auto const memory = reserve->memory(1, 1000);
            EXPECT_EQ(pool.bytes_out(1), 1000U);
            char* const at = memory->data();
            EXPECT_TRUE(std::all_of(at, at + 1000, [](char byte) { return byte == 0; }));
            EXPECT_FALSE(reserve->keeps(*memory));
            EXPECT_EQ(fake.calls("cuMemAlloc"), 1U) << "the pool's own";
        }
        EXPECT_EQ(pool.out(), 0U);
        EXPECT_EQ(fake.calls("cuCtxSynchronize"), 0U);
    }
}

TEST(GpuProvidedMemory, OfNoBytesIsNotAskedFor) {
    FakeDriver const fake;
    GpuPool const pool;
    EXPECT_EQ(reserve_over(pool.allocator())->memory(0, 0)->data(), nullptr);
    EXPECT_EQ(pool.calls(), 0);
}

TEST(GpuProvidedMemory, IsNotUsedWhereOthersReachIt) {
    FakeDriver const fake;
    GpuPool const pool;
    auto const reserve = reserve_over(pool.allocator());
    for (Shared const shared : {Shared::WithNics, Shared::Plainly, Shared::Mapped}) {
        auto const memory = reserve->memory(0, 1000, shared);
        EXPECT_FALSE(memory->is_provided());
    }
    EXPECT_EQ(pool.calls(), 0);
}

TEST(GpuProvidedMemory, IsAskedForOnceMoreWithoutWhatIsKept) {
    FakeDriver const fake;
    std::size_t const pinned = fake.alive("pinned");
    GpuPool const pool;
    auto const reserve = reserve_over(pool.allocator());
    (void)reserve->pinned(0, 1000);
    pool.throw_at(0, 1);
    EXPECT_NE(reserve->memory(0, 1000)->data(), nullptr);
    EXPECT_EQ(pool.calls(), 2);
    EXPECT_EQ(fake.alive("pinned"), pinned);
}

TEST(GpuProvidedMemory, AnAllocatorThatHasNoneSaysSo) {
    FakeDriver const fake;
    auto const ask = [](std::function<void*(int, std::uint64_t)> const& allocate) {
        (void)reserve_over(
            {allocate, [](int, void*, std::uint64_t) { ADD_FAILURE() << "nothing was taken"; }})
            ->memory(0, 1000);
    };
    auto const expect = [&](std::string const& word, auto const& allocate) {
        expect_error(ErrorCode::OutOfMemory, {"cuda:0", "gpu_allocator", "1000 bytes", word},
                     [&] { ask(allocate); });
    };
    expect("null", [](int, std::uint64_t) -> void* { return nullptr; });
    expect("the pool is dry",
           [](int, std::uint64_t) -> void* { throw std::runtime_error("the pool is dry"); });
    expect("no std::exception", [](int, std::uint64_t) -> void* { throw 7; });
}

TEST(GpuProvidedMemory, WhatIsNotTheGpusDeviceMemoryIsRefused) {
    FakeDriver const fake({{"DEVICES", "2"}});
    alignas(256) std::array<char, 1024> host{};
    refuses(host.data(), "does not know");
    PinnedMemory const pinned(0, 1024);
    refuses(pinned.data(), "the host");
    DeviceMemory const other(1, 1024);
    refuses(other.data(), "cuda:1");
    DeviceMemory const own(0, 2048);
    refuses(own.data() + 128, "multiple of 256");
}

TEST(GpuProvidedMemory, ManagedMemoryIsRefused) {
    FakeDriver const fake({{"MANAGED", "1"}});
    DeviceMemory const own(0, 1024);
    refuses(own.data(), "managed");
}

TEST(GpuProvidedMemory, GoesBackWhereItCannotBeZeroed) {
    FakeDriver const fake;
    GpuPool const pool;
    auto const reserve = reserve_over(pool.allocator());
    for (char const* const failure : {"cuMemsetD8Async:1:1", "cuStreamSynchronize:1:1",
                                      "cuMemsetD8Async:1:700", "cuPointerGetAttribute:1:999"}) {
        (void)Driver::get();  // failures are counted from when it was opened
        fake.fail(failure);
        EXPECT_THROW((void)reserve->memory(0, 1000), Error) << failure;
        EXPECT_EQ(pool.out(), 0U) << failure;
        Driver::look_again();  // lost contexts are well again
    }
}

// The driver waits for all that runs when it frees its own memory; a pool would hand it out at once.
TEST(GpuProvidedMemory, WaitsForWhatMayStillUseIt) {
    FakeDriver const fake({{"STREAMS", "waited"}});
    GpuPool const pool;
    OwnStream const stream(0);
    bool over = false;
    bool was_over = false;
    {
        auto memory = reserve_over({pool.allocator().allocate,
                                    [&](int gpu, void* at, std::uint64_t bytes) {
                                        was_over = over;
                                        pool.allocator().deallocate(gpu, at, bytes);
                                    }})
                          ->memory(0, 1000);
        Driver::get().cuLaunchHostFunc(
            stream.get(), [](void* at) { *static_cast<bool*>(at) = true; }, &over);
        memory->abandon();
    }
    EXPECT_TRUE(was_over);
    EXPECT_EQ(pool.out(), 0U);
}

TEST(GpuProvidedMemory, OutlivesItsReserve) {
    FakeDriver const fake;
    GpuPool const pool;
    auto reserve = reserve_over(pool.allocator());
    auto memory = reserve->memory(0, 1000);
    reserve = nullptr;
    memory = nullptr;
    EXPECT_EQ(pool.out(), 0U);
}

TEST(GpuProvidedMemory, ADeallocatorThatThrowsEndsNothing) {
    FakeDriver const fake;
    GpuPool const pool;
    (void)reserve_over({pool.allocator().allocate,
                        [&](int gpu, void* at, std::uint64_t bytes) {
                            pool.allocator().deallocate(gpu, at, bytes);
                            throw std::runtime_error("it may not");
                        }})
        ->memory(0, 1000);
    EXPECT_EQ(pool.out(), 0U);
}

TEST(GpuProvidedMemory, AnAllocatorHasBothFunctions) {
    EXPECT_EQ(to_share({}), nullptr);
    auto const both = GpuPool().allocator();
    expect_error(ErrorCode::InvalidArgument, {"deallocate"},
                 [&] { (void)to_share({both.allocate, nullptr}); });
    expect_error(ErrorCode::InvalidArgument, {"allocate"},
                 [&] { (void)to_share({nullptr, both.deallocate}); });
}

}  // namespace
}  // namespace mgi::gpu
