// What channels have given back of GPUs, and have again.
#include "gpu/reserve.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include <mgi/error.hpp>

#include "support/fake_driver.hpp"

namespace mgi::gpu {
namespace {

using test::FakeDriver;

constexpr std::uint64_t kMost = 10000;

/// What there is of a kind, beside what was there.
class Alive {
public:
    Alive(FakeDriver const& fake, std::string what)
        : fake_(fake), what_(std::move(what)), before_(fake.alive(what_)) {}
    [[nodiscard]] std::size_t count() const { return fake_.alive(what_) - before_; }

private:
    FakeDriver const& fake_;
    std::string what_;
    std::size_t before_;
};

TEST(GpuReserve, UsesStreamsAgainOnTheirGpu) {
    FakeDriver const fake({{"DEVICES", "2"}});
    Alive const streams(fake, "streams");
    {
        auto const reserve = std::make_shared<Reserve>(kMost, kMost);
        auto first = reserve->stream(0);
        Stream const handle = first->get();
        auto const second = reserve->stream(0);
        EXPECT_NE(second->get(), handle);
        first = nullptr;
        EXPECT_NE(reserve->stream(1)->get(), handle);
        EXPECT_EQ(reserve->stream(0)->get(), handle);
        EXPECT_EQ(streams.count(), 3U);
    }
    EXPECT_EQ(streams.count(), 0U);
}

TEST(GpuReserve, HasStreamsAtHandForKernelsThatRunTogether) {
    FakeDriver const fake({{"DEVICES", "2"}});
    Alive const streams(fake, "streams");
    auto const reserve = std::make_shared<Reserve>(kMost, kMost);
    auto const before = reserve->stream(0);
    reserve->make_streams(0, 3);
    reserve->make_streams(0, 2);
    EXPECT_EQ(streams.count(), 4U);
    auto const first = reserve->stream(0);
    auto const second = reserve->stream(0);
    auto const third = reserve->stream(0);
    EXPECT_EQ(streams.count(), 4U);
}

TEST(GpuReserve, KeepsNoStreamThatIsBusy) {
    FakeDriver const fake({{"STREAMS", "late:3"}});
    Alive const streams(fake, "streams");
    auto const reserve = std::make_shared<Reserve>(kMost, kMost);
    auto stream = reserve->stream(0);
    int value = 0;
    Driver::get().cuLaunchHostFunc(
        stream->get(), [](void* at) { ++*static_cast<int*>(at); }, &value);
    stream = nullptr;
    EXPECT_EQ(streams.count(), 0U);
}

TEST(GpuReserve, LendsMemoryAgainZeroed) {
    FakeDriver const fake({{"DEVICES", "2"}, {"STREAMS", "late:3"}});
    Alive const memory(fake, "memory");
    {
        auto const reserve = std::make_shared<Reserve>(kMost, kMost);
        auto first = reserve->memory(0, 1000);
        char* const at = first->data();
        std::memset(at, 7, 1000);
        first = nullptr;
        EXPECT_NE(reserve->memory(1, 1000)->data(), at);
        EXPECT_NE(reserve->memory(0, 2000)->data(), at);
        EXPECT_NE(reserve->memory(0, 500)->data(), at);  // that would waste half of it
        auto const again = reserve->memory(0, 900);
        ASSERT_EQ(again->data(), at);
        EXPECT_TRUE(std::all_of(at, at + 1000, [](char byte) { return byte == 0; }));
    }
    EXPECT_EQ(memory.count(), 0U);
}

TEST(GpuReserve, LendsSharedMemoryOnceOthersHaveDone) {
    FakeDriver const fake;
    Alive const mapped(fake, "mapped");
    auto const reserve = std::make_shared<Reserve>(kMost, kMost);
    Use use = Use::OnGoing;
    std::uint64_t first = 0;
    auto const lend = [&] {
        auto const memory = reserve->memory(0, 1000, Shared::Mapped);
        memory->lend_to_others([&use] { return use; });
        std::memset(memory->data(), 7, 1000);
        return memory->number();
    };
    first = lend();
    std::uint64_t const second = lend();
    EXPECT_NE(second, first);
    EXPECT_EQ(mapped.count(), 2U);
    EXPECT_NE(reserve->memory(0, 1000)->number(), first) << "of another kind";
    use = Use::Over;
    {
        auto const again = reserve->memory(0, 1000, Shared::Mapped);
        EXPECT_TRUE(again->number() == first || again->number() == second);
        char* const at = again->data();
        EXPECT_TRUE(std::all_of(at, at + 1000, [](char byte) { return byte == 0; }));
    }
    EXPECT_EQ(mapped.count(), 2U);
    (void)lend();
    use = Use::Broken;
    (void)lend();
    EXPECT_LE(mapped.count(), 1U) << "what is not over is freed";
    reserve->trim();
    EXPECT_EQ(mapped.count(), 0U);
}

// Where one is not over, the driver that is made up zeroes what is mapped no more.
TEST(GpuReserve, UnmapsMemoryOnceItIsZeroed) {
    FakeDriver const fake({{"STREAMS", "waited"}});
    Alive const mapped(fake, "mapped");
    auto const reserve = std::make_shared<Reserve>(kMost, kMost);
    (void)reserve->memory(0, 1000, Shared::Mapped);
    reserve->trim();
    EXPECT_EQ(mapped.count(), 0U);
    for (std::uint64_t const bytes : {kMost, kMost / 2}) {
        (void)reserve->memory(0, bytes, Shared::Mapped);
    }
    EXPECT_EQ(mapped.count(), 1U) << "the first gave way";
}

TEST(GpuReserve, LendsPinnedMemoryAgain) {
    FakeDriver const fake;
    Alive const pinned(fake, "pinned");
    {
        auto const reserve = std::make_shared<Reserve>(kMost, kMost);
        char* const at = reserve->pinned(0, 1000)->data();
        EXPECT_EQ(reserve->pinned(0, 1000)->data(), at);
        EXPECT_EQ(pinned.count(), 1U);
        reserve->trim();
        EXPECT_EQ(pinned.count(), 0U);
    }
    EXPECT_EQ(pinned.count(), 0U);
}

TEST(GpuReserve, KeepsNoMoreThanItMay) {
    FakeDriver const fake({{"DEVICES", "2"}});
    Alive const memory(fake, "memory");
    auto const reserve = std::make_shared<Reserve>(kMost, kMost);
    EXPECT_FALSE(reserve->keeps(*reserve->memory(0, kMost + 1)));
    EXPECT_TRUE(reserve->keeps(*reserve->memory(0, kMost, Shared::Mapped)));
    EXPECT_FALSE(reserve->keeps(*reserve->memory(0, kMost, Shared::Plainly)));
    reserve->trim();
    EXPECT_EQ(memory.count(), 0U);
    (void)reserve->memory(1, kMost);
    {
        auto const last = reserve->memory(0, kMost / 2 + 1);
        auto const second = reserve->memory(0, kMost);
        (void)reserve->memory(0, 3000);
    }
    EXPECT_EQ(memory.count(), 2U);  // the last, and that of the other GPU
    std::uint64_t const calls = fake.calls("cuMemAlloc");
    (void)reserve->memory(0, kMost / 2 + 1);
    EXPECT_EQ(fake.calls("cuMemAlloc"), calls);
    reserve->trim();
    EXPECT_EQ(memory.count(), 0U);
}

TEST(GpuReserve, KeepsSoManyPieces) {
    FakeDriver const fake;
    Alive const pinned(fake, "pinned");
    auto const reserve = std::make_shared<Reserve>(kMost, kMost);
    {
        std::vector<std::shared_ptr<PinnedMemory>> all;
        for (int i = 0; i < 100; ++i) all.push_back(reserve->pinned(0, 16));
    }
    EXPECT_EQ(pinned.count(), 64U);
}

TEST(GpuReserve, GivesUpWhatItKeepsWhereMemoryIsShort) {
    FakeDriver const fake({{"MEMORY", "10000"}});
    Alive const memory(fake, "memory");
    auto const reserve = std::make_shared<Reserve>(kMost, kMost);
    (void)reserve->memory(0, 6000);
    EXPECT_EQ(memory.count(), 1U);
    EXPECT_EQ(reserve->memory(0, 8000)->bytes(), 8000U);
    EXPECT_THROW((void)reserve->memory(0, 12000), Error);
    EXPECT_EQ(memory.count(), 0U);
}

TEST(GpuReserve, HasOthersGiveUpWhatTheyKeepWhereMemoryIsShort) {
    FakeDriver const fake({{"MEMORY", "10000"}});
    std::shared_ptr<DeviceMemory> kept;
    auto const reserve = std::make_shared<Reserve>(kMost, kMost, [&kept] { kept = nullptr; });
    kept = reserve->memory(0, 6000);
    EXPECT_EQ(reserve->memory(0, 8000)->bytes(), 8000U) << "what they keep comes back first";
}

TEST(GpuReserve, FreesWhatAKernelMayStillUse) {
    FakeDriver const fake;
    Alive const memory(fake, "memory");
    Alive const pinned(fake, "pinned");
    auto const reserve = std::make_shared<Reserve>(kMost, kMost);
    reserve->memory(0, 1000)->abandon();
    reserve->pinned(0, 1000)->abandon();
    EXPECT_EQ(memory.count(), 0U);
    EXPECT_EQ(pinned.count(), 0U);
}

TEST(GpuReserve, DropsWhatCannotBeZeroed) {
    FakeDriver const fake;
    Alive const memory(fake, "memory");
    auto const reserve = std::make_shared<Reserve>(kMost, kMost);
    auto one = reserve->memory(0, 1000);
    fake.fail("cuMemsetD8Async:1:1");
    one = nullptr;
    EXPECT_EQ(memory.count(), 0U);
}

}  // namespace
}  // namespace mgi::gpu
