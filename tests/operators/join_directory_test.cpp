#include "operators/join_directory.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <vector>

#include "support/random.hpp"

namespace mgi::operators {
namespace {

// Fills a directory as a join's groups do and checks that every hash finds exactly its slot's rows,
// that no row is given out twice, and that tags exclude no hash that is there.
void check(std::vector<u32> const& hashes, u32 parts) {
    JoinDirectory directory;
    directory.allocate(hashes.size(), parts);
    u64 first = 0;
    std::vector<u64> starts;
    for (u32 p = 0; p < parts; ++p) {
        JoinDirectory::Part part(directory, p);
        auto const each = [&](auto const& use) {
            for (u32 const hash : hashes) {
                if (part.has(directory.slot_of(hash))) use(directory.slot_of(hash), hash);
            }
        };
        each([&](u64 slot, u32 hash) { part.count(slot, hash); });
        if (part.overflows()) each([&](u64 slot, u32) { part.count_again(slot); });
        starts.push_back(first);
        first += part.rows();
    }
    ASSERT_EQ(first, hashes.size());
    std::map<u64, std::vector<u64>> placed;  // rows by slot
    for (u32 p = 0; p < parts; ++p) {
        JoinDirectory::Part part(directory, p);
        part.lay_out(starts[p]);
        for (u32 const hash : hashes) {
            u64 const slot = directory.slot_of(hash);
            if (part.has(slot)) placed[slot].push_back(part.next(slot));
        }
    }
    std::vector<bool> taken(hashes.size(), false);
    for (u32 const hash : hashes) {
        JoinDirectory::Rows const rows = directory.find(hash);
        EXPECT_TRUE(directory.may_have(hash));
        auto const& expected = placed[directory.slot_of(hash)];
        ASSERT_EQ(rows.last - rows.first, expected.size());
        EXPECT_EQ(rows.first, expected.front());
        EXPECT_EQ(rows.last, expected.back() + 1);
        for (u64 row = rows.first; row < rows.last; ++row) taken[row] = true;
    }
    EXPECT_EQ(std::count(taken.begin(), taken.end(), true), std::ptrdiff_t(hashes.size()));
}

std::vector<u32> random_hashes(u32 count, test::Random& random) {
    std::vector<u32> hashes(count);
    for (u32& hash : hashes) hash = u32(random.next());
    return hashes;
}

TEST(JoinDirectory, FindsWhatWasPlaced) {
    test::Random random(1);
    for (u32 const rows : {0u, 1u, 63u, 1000u, 70000u}) {
        for (u32 const parts : {1u, 2u, 3u, 7u}) check(random_hashes(rows, random), parts);
    }
}

TEST(JoinDirectory, LinesWithMoreRowsThanTheyCount) {
    test::Random random(2);
    for (u32 const copies : {253u, 254u, 255u, 256u, 257u, 5000u}) {
        std::vector<u32> hashes = random_hashes(3000, random);
        // All in one slot, in two of a line, and at both ends of a line.
        for (u32 const slot : {0u, 17u, 18u, 32u, 47u}) {
            for (u32 i = 0; i < copies; ++i) hashes.push_back(slot << 19 | i % 8);
        }
        check(hashes, 2);
    }
}

TEST(JoinDirectory, HashesWithoutRowsFindNoneOfTheirs) {
    JoinDirectory directory;
    directory.allocate(1, 1);
    JoinDirectory::Part part(directory, 0);
    u32 const there = 0x80000001;
    part.count(directory.slot_of(there), there);
    EXPECT_FALSE(part.overflows());
    part.lay_out(0);
    EXPECT_EQ(part.next(directory.slot_of(there)), 0U);
    EXPECT_TRUE(directory.may_have(there));
    EXPECT_FALSE(directory.may_have(there + 1));
    EXPECT_FALSE(directory.may_have(0));
    JoinDirectory::Rows const elsewhere = directory.find(0xffffffff);
    EXPECT_EQ(elsewhere.first, elsewhere.last);
}

}  // namespace
}  // namespace mgi::operators
