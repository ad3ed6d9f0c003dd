// What a process keeps of others' memory, with a driver that is made up.
#include "runtime/imported_memories.hpp"

#include <gtest/gtest.h>

#include <optional>

#include "support/fake_driver.hpp"

namespace mgi::test::imported_memories {
namespace {

class ImportedMemoriesOfAGpu : public testing::Test {
protected:
    ImportedMemoriesOfAGpu() {
        importers_->add(hand_over(door_.name(), 0, {}));
        connection_ = door_.all_that_came().at(0).connection;
    }
    std::shared_ptr<gpu::ImportedMemory> take(std::uint64_t number) {
        return imported_.take(number, {0}, connection_, [&] {
            return std::make_unique<gpu::ImportedMemory>(std::vector<int>{0}, memory_.descriptor(),
                                                         memory_.shared_bytes());
        });
    }
    /// How many are imported, beside the owner's own.
    [[nodiscard]] std::size_t count() const { return gpus_.alive("mapped") - before_ - 1; }

    FakeDriver const gpus_;
    std::size_t const before_ = gpus_.alive("mapped");
    gpu::DeviceMemory const memory_{0, 1000, gpu::Shared::Mapped};
    GpuDoor const door_;
    std::optional<GpuImporters> importers_{std::in_place};
    std::shared_ptr<Descriptor const> connection_;
    ImportedMemories imported_;
};

TEST_F(ImportedMemoriesOfAGpu, AreKeptAsLongAsTheirOwnerHasThem) {
    auto const* const first = take(7).get();
    EXPECT_EQ(take(7).get(), first);
    EXPECT_EQ(count(), 1U);
    imported_.prune();
    EXPECT_EQ(count(), 1U);
    auto used = take(7);
    importers_.reset();
    imported_.prune();
    EXPECT_EQ(count(), 1U) << "a channel uses it";
    used = nullptr;
    imported_.prune();
    EXPECT_EQ(count(), 0U);
}

TEST_F(ImportedMemoriesOfAGpu, AreNotKeptWhereTheirOwnerDoesNot) {
    EXPECT_NE(take(0), nullptr);
    EXPECT_EQ(count(), 0U);
}

TEST_F(ImportedMemoriesOfAGpu, AreKeptInALimitedNumber) {
    auto const used = take(1);
    for (std::uint64_t number = 2; number <= 100; ++number) (void)take(number);
    EXPECT_EQ(count(), 65U) << "the one in use is kept no more, but it is there";
    imported_.trim();
    EXPECT_EQ(count(), 1U);
}

}  // namespace
}  // namespace mgi::test::imported_memories
