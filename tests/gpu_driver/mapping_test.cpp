// GPUs' memory that is mapped, with a driver that is made up.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>

#include "gpu/memory.hpp"
#include "support/expect_error.hpp"
#include "support/fake_driver.hpp"

namespace mgi::gpu {
namespace {

using test::FakeDriver;

TEST(GpuMapping, IsTheSameMemoryForWhoImportsIt) {
    FakeDriver const gpus{{"DEVICES", "2"}};
    auto memory = std::make_unique<DeviceMemory>(0, 1000, Shared::Mapped);
    EXPECT_EQ(memory->bytes(), 1000U);
    EXPECT_GE(memory->shared_bytes(), 1000U);
    for (int i = 0; i < 1000; ++i) ASSERT_EQ(memory->data()[i], 0);
    int const descriptor = memory->descriptor();
    {
        ImportedMemory const imported({1, 0}, descriptor, memory->shared_bytes());
        close(descriptor);
        EXPECT_NE(imported.data(), memory->data());
        EXPECT_EQ(imported.on(), 0);
        memory->data()[7] = 'x';
        EXPECT_EQ(imported.data()[7], 'x');
        // Its maker gives it back; it is there all the same.
        memory.reset();
        EXPECT_EQ(imported.data()[7], 'x');
    }
    EXPECT_EQ(gpus.alive("memory"), 0U);
    EXPECT_EQ(gpus.alive("mapped"), 0U);
}

TEST(GpuMapping, IsNotThere) {
    {
        FakeDriver const gpus{{"MAPS", "0"}};
        EXPECT_NE(why_not_mapped(0).find("do not know it"), std::string::npos);
    }
    FakeDriver const gpus;
    (void)Driver::get();
    gpus.fail("cuMemExportToShareableHandle:1:801");
    EXPECT_NE(why_not_mapped(0).find("NOT_SUPPORTED"), std::string::npos) << why_not_mapped(0);
    EXPECT_EQ(gpus.alive("mapped"), 0U);
    gpus.fail("");
}

TEST(GpuMapping, IsThere) {
    FakeDriver const gpus;
    EXPECT_EQ(why_not_mapped(0), "");
    EXPECT_EQ(gpus.alive("mapped"), 0U);
}

TEST(GpuMapping, GivesAllBackWhenItCannotBeMade) {
    FakeDriver const gpus{{"MEMORY", "1000000"}};
    test::expect_error(ErrorCode::OutOfMemory, {"cuda:0", "bytes for a channel's pool"},
                       [] { DeviceMemory const much(0, 2'000'000, Shared::Mapped); });
    for (char const* call :
         {"cuMemAddressReserve", "cuMemMap", "cuMemSetAccess", "cuMemsetD8Async"}) {
        gpus.fail(std::string(call) + ":1:1");
        test::expect_error(ErrorCode::Internal, {"cuda:0"},
                           [] { DeviceMemory const memory(0, 1000, Shared::Mapped); });
        EXPECT_EQ(gpus.alive("memory"), 0U) << call;
        EXPECT_EQ(gpus.alive("mapped"), 0U) << call;
    }
    gpus.fail("");
}

TEST(GpuMapping, PlainMemoryThatIsSharedHasAnAllocationOfItsOwn) {
    FakeDriver const gpus;
    DeviceMemory const memory(0, 1000, Shared::Plainly);
    EXPECT_EQ(memory.bytes(), 1000U);
    EXPECT_EQ(memory.shared_bytes(), std::uint64_t(2) << 20);
}

TEST(GpuMapping, WhatIsKeptGoesWhenItIsLetGo) {
    FakeDriver const gpus;
    bool let_go = false;
    free_later(std::make_unique<DeviceMemory>(0, 1000, Shared::Plainly), [&] { return let_go; });
    free_let_go();
    EXPECT_EQ(gpus.alive("memory"), 1U);
    let_go = true;
    free_let_go();
    EXPECT_EQ(gpus.alive("memory"), 0U);
}

}  // namespace
}  // namespace mgi::gpu
