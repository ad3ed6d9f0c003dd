// Blocks that are used again.
#include "core/block_cache.hpp"

#include <gtest/gtest.h>

#include <cstring>

#include "core/poison.hpp"

namespace mgi::test {
namespace {

// A size that nothing else in this program asks for, so that the block that comes back is the one given.
constexpr std::size_t kBytes = 3 * BlockCache::kHugePage + 5 * BlockCache::kStep;

TEST(BlockCache, GivesABlockOutAgainWhole) {
    BlockCache& cache = BlockCache::shared();
    BlockCache::Block first = cache.take(kBytes);
    ASSERT_NE(first.data, nullptr);
    std::memset(first.data, 1, first.bytes);
    first.used = first.bytes;
    cache.give(first);
    BlockCache::Block again = cache.take(kBytes);
    ASSERT_GE(again.bytes, kBytes);
    std::memset(again.data, 2, again.bytes);
    EXPECT_EQ(again.data[again.bytes - 1], 2);
    again.used = again.bytes;
    cache.give(again);
}

TEST(BlockCache, OnlyWhatIsUsedOfABlockCounts) {
    // Far more than the cache keeps, and hardly used.
    constexpr std::size_t kReserved = std::size_t{16} << 30;
    BlockCache& cache = BlockCache::shared();
    BlockCache::Block first = cache.take(kReserved);
    ASSERT_NE(first.data, nullptr);
    EXPECT_TRUE(first.zero);
    std::memset(first.data, 1, BlockCache::kStep);
    first.used = BlockCache::kStep;
    cache.give(first);
    BlockCache::Block const again = cache.take(kReserved);
    EXPECT_EQ(again.data, first.data);
    EXPECT_EQ(again.used, BlockCache::kStep);
    EXPECT_FALSE(again.zero);
    again.data[again.bytes - 1] = 1;
    cache.give(again);
}

TEST(BlockCacheDeathTest, UseAfterFreeIsSeen) {
    if (!kSeesUseAfterFree) GTEST_SKIP() << "needs AddressSanitizer";
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    BlockCache::Block block = BlockCache::shared().take(kBytes);
    ASSERT_NE(block.data, nullptr);
    block.used = block.bytes;
    char volatile* const first = block.data;
    char volatile* const last = block.data + block.bytes - 1;
    *first = 1;
    *last = 1;
    BlockCache::shared().give(block);
    EXPECT_DEATH((void)*first, "use-after-poison");
    EXPECT_DEATH(*last = 2, "use-after-poison");
}

}  // namespace
}  // namespace mgi::test
