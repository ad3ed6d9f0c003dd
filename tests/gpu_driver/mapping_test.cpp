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

/// The driver that is made up, and what of its memory is alive that was not before.
class Watched {
public:
    explicit Watched(FakeDriver::Settings settings = {})
        : gpus(settings), memory_(gpus.alive("memory")), mapped_(gpus.alive("mapped")) {}
    [[nodiscard]] std::size_t memory() const { return gpus.alive("memory") - memory_; }
    [[nodiscard]] std::size_t mapped() const { return gpus.alive("mapped") - mapped_; }
    FakeDriver const gpus;

private:
    std::size_t const memory_;
    std::size_t const mapped_;
};

TEST(GpuMapping, IsTheSameMemoryForWhoImportsIt) {
    Watched const watched({{"DEVICES", "2"}});
    auto memory = std::make_unique<DeviceMemory>(0, 1000, Shared::Mapped);
    EXPECT_EQ(memory->bytes(), 1000U);
    EXPECT_GE(memory->shared_bytes(), 1000U);
    for (int i = 0; i < 1000; ++i) ASSERT_EQ(memory->data()[i], 0);
    int const descriptor = memory->descriptor();
    {
        ImportedMemory const imported({1, 0}, descriptor, memory->shared_bytes());
        EXPECT_NE(imported.data(), memory->data());
        EXPECT_EQ(imported.on(), 0);
        memory->data()[7] = 'x';
        EXPECT_EQ(imported.data()[7], 'x');
        // Its maker gives it back; it is there all the same.
        memory.reset();
        EXPECT_EQ(imported.data()[7], 'x');
    }
    EXPECT_EQ(watched.memory(), 0U);
    EXPECT_EQ(watched.mapped(), 0U);
}

TEST(GpuMapping, IsNotThere) {
    {
        FakeDriver const gpus{{"MAPS", "0"}};
        EXPECT_NE(why_not_mapped(0).find("do not know it"), std::string::npos);
    }
    Watched const watched;
    (void)Driver::get();
    watched.gpus.fail("cuMemExportToShareableHandle:1:801");
    EXPECT_NE(why_not_mapped(0).find("NOT_SUPPORTED"), std::string::npos) << why_not_mapped(0);
    EXPECT_EQ(watched.mapped(), 0U);
    watched.gpus.fail("");
}

TEST(GpuMapping, IsThere) {
    Watched const watched;
    EXPECT_EQ(why_not_mapped(0), "");
    EXPECT_EQ(watched.mapped(), 0U);
}

TEST(GpuMapping, GivesAllBackWhenItCannotBeMade) {
    Watched const watched;
    test::expect_error(ErrorCode::OutOfMemory, {"cuda:0", "bytes for a channel's pool"},
                       [] { DeviceMemory const much(0, std::uint64_t(2) << 30, Shared::Mapped); });
    for (char const* call :
         {"cuMemAddressReserve", "cuMemMap", "cuMemSetAccess", "cuMemsetD8Async"}) {
        watched.gpus.fail(std::string(call) + ":1:1");
        test::expect_error(ErrorCode::Internal, {"cuda:0"},
                           [] { DeviceMemory const memory(0, 1000, Shared::Mapped); });
        EXPECT_EQ(watched.memory(), 0U) << call;
        EXPECT_EQ(watched.mapped(), 0U) << call;
    }
    watched.gpus.fail("");
}

TEST(GpuMapping, PlainMemoryThatIsSharedHasAnAllocationOfItsOwn) {
    Watched const watched;
    DeviceMemory const memory(0, 1000, Shared::Plainly);
    EXPECT_EQ(memory.bytes(), 1000U);
    EXPECT_EQ(memory.shared_bytes(), std::uint64_t(2) << 20);
}

TEST(GpuMapping, WhatIsKeptGoesWhenItIsLetGo) {
    Watched const watched;
    bool let_go = false;
    free_later(std::make_unique<DeviceMemory>(0, 1000, Shared::Plainly), [&] { return let_go; });
    free_let_go();
    EXPECT_EQ(watched.memory(), 1U);
    let_go = true;
    free_let_go();
    EXPECT_EQ(watched.memory(), 0U);
}

}  // namespace
}  // namespace mgi::gpu
