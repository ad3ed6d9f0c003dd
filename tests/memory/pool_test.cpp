// A channel's memory.
#include "memory/pool.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <optional>

#include "core/poison.hpp"

namespace mgi::test {
namespace {

constexpr std::uint64_t kSegment = 4096;

std::shared_ptr<memory::Account> plenty() {
    return std::make_shared<memory::Account>(std::uint64_t{1} << 30);
}

std::optional<std::uint64_t> take(memory::Pool& pool) {
    auto const loan = pool.borrow();
    if (loan.offset) pool.settle();
    return loan.offset;
}

TEST(Pool, SegmentsComeBackUntilTheLimit) {
    memory::Pool pool(kSegment, kSegment, 2 * kSegment, plenty());
    auto const first = take(pool);
    auto const second = take(pool);
    ASSERT_TRUE(first && second);
    EXPECT_NE(*first, *second);
    EXPECT_FALSE(take(pool));
    pool.give(*first);
    EXPECT_EQ(pool.taken_bytes(), kSegment);
    auto const again = take(pool);
    ASSERT_EQ(again, first);
    std::memset(pool.base() + *again, 1, kSegment);
}

TEST(Pool, ALoanMayComeBack) {
    memory::Pool pool(kSegment, kSegment, kSegment, plenty());
    auto const first = pool.borrow();
    ASSERT_TRUE(first.offset);
    EXPECT_FALSE(first.others);
    auto const second = pool.borrow();
    EXPECT_FALSE(second.offset);
    EXPECT_TRUE(second.others) << "the limit has not been reached for good";
    pool.give_back(*first.offset);
    ASSERT_TRUE(pool.borrow().offset);
    pool.settle();
    auto const third = pool.borrow();
    EXPECT_FALSE(third.offset);
    EXPECT_FALSE(third.others);
    EXPECT_EQ(pool.taken_bytes(), kSegment);
}

TEST(Pool, ALoanThatComesBackIsChargedToNobody) {
    auto const account = plenty();
    memory::Pool pool(kSegment, kSegment, 2 * kSegment, account);
    std::uint64_t const left = account->left();
    auto const loan = pool.borrow();
    ASSERT_TRUE(loan.offset);
    EXPECT_EQ(account->left(), left - kSegment);
    pool.give_back(*loan.offset);
    EXPECT_EQ(account->left(), left);
    EXPECT_EQ(pool.taken_bytes(), 0U);
    EXPECT_EQ(take(pool), loan.offset);
}

TEST(PoolDeathTest, UseOfASegmentGivenBackIsSeen) {
    if (!kSeesUseAfterFree) GTEST_SKIP() << "needs AddressSanitizer";
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    memory::Pool pool(kSegment, kSegment, 2 * kSegment, plenty());
    auto const kept = take(pool);
    auto const given = take(pool);
    ASSERT_TRUE(kept && given);
    char volatile* const at = pool.base() + *given;
    *at = 1;
    pool.give(*given);
    EXPECT_DEATH((void)*at, "use-after-poison");
    std::memset(pool.base() + *kept, 1, kSegment);
}

}  // namespace
}  // namespace mgi::test
