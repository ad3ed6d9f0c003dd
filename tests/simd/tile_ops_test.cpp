// The tile's loops in every set of instructions this machine has, against the plainest ones.
#include "simd/tile_ops.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include <mgi/device/hash.hpp>

#include "support/cases.hpp"
#include "support/random.hpp"

namespace mgi {
namespace {

using device::TileOps;
using device::u16;
using device::u32;
using device::u64;

struct Case {
    char const* name;
    TileOps const* ops;
};

std::vector<Case> cases() {
    std::vector<Case> all{{"portable", &simd::portable_tile_ops()}, {"chosen", &simd::tile_ops()}};
    if (simd::avx2_tile_ops() != nullptr) all.push_back({"avx2", simd::avx2_tile_ops()});
    if (simd::avx512_tile_ops() != nullptr) all.push_back({"avx512", simd::avx512_tile_ops()});
    return all;
}

class TileOpsTest : public testing::TestWithParam<Case> {
protected:
    TileOps const& ops() const { return *GetParam().ops; }
};

// Around the widths of vectors, and a few whole tiles.
std::vector<u32> const kRows{0,  1,  3,  5,  6,  7,  8,   9,   15,   16,   17,   31,  32,
                             33, 47, 63, 64, 65, 95, 223, 999, 1000, 1024, 2053, 4096};
// Around the numbers from which on another way of sorting is taken.
std::vector<u32> const kLanes{1,  2,  3,  4,  5,  8,   10,  11,  12,  13,  15,  16,
                              17, 31, 63, 64, 65, 127, 128, 129, 255, 256, 257, 1000};

TEST_P(TileOpsTest, RoutesByMurmur3AtAnyStride) {
    test::Random random(1);
    for (u32 const rows : kRows) {
        for (u32 const stride : {8u, 16u, 24u, 40u}) {
            std::vector<char> keys(u64(rows) * stride + 8);
            for (char& byte : keys) byte = char(random.next());
            for (u32 const lanes : {1u, 2u, 3u, 7u, 64u, 257u, 65535u}) {
                std::vector<u16> lane(rows + TileOps::kSlack);
                ops().route(keys.data(), stride, rows, lanes, lane.data());
                for (u32 i = 0; i < rows; ++i) {
                    u64 key;
                    std::memcpy(&key, keys.data() + u64(i) * stride, 8);
                    ASSERT_EQ(lane[i], device::destination_of_hash(device::murmur3_mix(key), lanes))
                        << rows << " rows, stride " << stride << ", " << lanes << " lanes";
                }
            }
        }
    }
}

TEST_P(TileOpsTest, SortsStably) {
    test::Random random(1);
    for (u32 const rows : kRows) {
        for (u32 const lanes : kLanes) {
            for (bool const skewed : {false, true}) {
                // What lies in the slack looks like a lane, too.
                std::vector<u16> lane(rows + TileOps::kSlack);
                for (u16& l : lane) l = u16(skewed ? lanes - 1 : random.below(lanes));
                std::vector<u16> order(rows + TileOps::kSlack);
                std::vector<u32> next(lanes);
                std::vector<u32> end(lanes);
                ops().sort(lane.data(), rows, lanes, order.data(), next.data(), end.data());
                u32 at = 0;
                for (u32 d = 0; d < lanes; ++d) {
                    ASSERT_EQ(next[d], at);
                    for (u32 i = 0; i < rows; ++i) {
                        if (lane[i] == d) {
                            ASSERT_EQ(order[at++], i) << rows << " rows, " << lanes << " lanes";
                        }
                    }
                    ASSERT_EQ(end[d], at);
                }
                ASSERT_EQ(at, rows);
            }
        }
    }
}

TEST_P(TileOpsTest, GathersEveryWidthAndNoByteMore) {
    test::Random random(1);
    constexpr char kUntouched = 0x5a;
    for (u32 log = 0; log < TileOps::kWidths; ++log) {
        u32 const width = 1u << log;
        for (u32 const rows : kRows) {
            std::vector<char> from(u64(rows) * width);
            for (char& byte : from) byte = char(random.next());
            std::vector<u16> order(rows + TileOps::kSlack);
            for (u32 k = 0; k < rows; ++k) order[k] = u16(random.below(rows));
            std::vector<char> to(u64(rows) * width + 64, kUntouched);
            ops().gather[log](to.data(), from.data(), order.data(), rows,
                              from.data() + from.size());
            for (u32 k = 0; k < rows; ++k) {
                ASSERT_EQ(std::memcmp(to.data() + u64(k) * width,
                                      from.data() + u64(order[k]) * width, width),
                          0)
                    << width << " bytes, row " << k << " of " << rows;
            }
            for (u64 b = u64(rows) * width; b < to.size(); ++b) ASSERT_EQ(to[b], kUntouched);
        }
    }
}

// Arrays begin anywhere, and something else lies behind their slack.
TEST_P(TileOpsTest, DoesWhatThePortableOnesDoWhereverItsArraysLie) {
    test::Random random(2);
    TileOps const& plain = simd::portable_tile_ops();
    constexpr u16 kUntouched = 0x5a5a;
    constexpr u32 kBehind = 16;
    for (u32 round = 0; round < test::cases(500u); ++round) {
        u32 const rows = u32(random.below(1500));
        u32 const lanes = 1 + u32(random.below(u64(2) << random.below(9)));
        u32 const offset = u32(random.below(16));
        u32 const stride = 8 + 8 * u32(random.below(5));
        std::vector<char> keys(offset + u64(rows) * stride + 8);
        for (char& byte : keys) byte = char(random.next());
        auto const filled = [&] {
            return std::vector<u16>(offset + rows + TileOps::kSlack + kBehind, kUntouched);
        };
        auto const untouched_behind = [&](std::vector<u16> const& array) {
            return std::all_of(array.end() - kBehind, array.end(),
                               [](u16 word) { return word == kUntouched; });
        };
        struct Result {
            std::vector<u16> lane, order;
            std::vector<u32> next, end;
        };
        auto const run = [&](TileOps const& ops) {
            Result got{filled(), filled(), std::vector<u32>(lanes), std::vector<u32>(lanes)};
            ops.route(keys.data() + offset, stride, rows, lanes, got.lane.data() + offset);
            ops.sort(got.lane.data() + offset, rows, lanes, got.order.data() + offset,
                     got.next.data(), got.end.data());
            EXPECT_TRUE(untouched_behind(got.lane) && untouched_behind(got.order));
            got.lane.resize(offset + rows);
            got.order.resize(offset + rows);
            return got;
        };
        Result const got = run(ops());
        Result const expected = run(plain);
        std::string const what =
            std::to_string(rows) + " rows, " + std::to_string(lanes) + " lanes";
        ASSERT_EQ(got.lane, expected.lane) << what;
        ASSERT_EQ(got.order, expected.order) << what;
        ASSERT_EQ(got.next, expected.next) << what;
        ASSERT_EQ(got.end, expected.end) << what;
        // Of each lane, as segments are written: no value of the next lane's is touched.
        for (u32 log = 0; log < TileOps::kWidths; ++log) {
            u32 const width = 1u << log;
            std::vector<char> from(offset + u64(rows) * width);
            for (char& byte : from) byte = char(random.next());
            u32 const lane = u32(random.below(lanes));
            u32 const first = got.next[lane];
            auto const gathered = [&](TileOps const& ops) {
                std::vector<char> to(offset + u64(rows) * width + 64, 0x5a);
                ops.gather[log](to.data() + offset, from.data() + offset,
                                got.order.data() + offset + first, got.end[lane] - first,
                                from.data());
                return to;
            };
            ASSERT_EQ(gathered(ops()), gathered(plain)) << what << ", " << width << " bytes";
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Instructions, TileOpsTest, testing::ValuesIn(cases()),
                         [](auto const& each) { return each.param.name; });

TEST(TileOps, AreWhatIsAskedForWhereTheMachineHasIt) {
    TileOps const* const portable = &simd::portable_tile_ops();
    TileOps const* const avx2 = simd::avx2_tile_ops();
    TileOps const* const avx512 = simd::avx512_tile_ops();
    TileOps const* const narrow = avx2 != nullptr ? avx2 : portable;
    TileOps const* const widest = avx512 != nullptr ? avx512 : narrow;
    EXPECT_EQ(&simd::tile_ops_for("portable"), portable);
    EXPECT_EQ(&simd::tile_ops_for("avx2"), narrow);
    EXPECT_EQ(&simd::tile_ops_for(nullptr), widest);
    EXPECT_EQ(&simd::tile_ops_for(""), widest);
    EXPECT_EQ(&simd::tile_ops_for("sse"), widest);
}

}  // namespace
}  // namespace mgi
