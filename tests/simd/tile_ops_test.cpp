// The tile's loops in every set of instructions this machine has, against the plainest ones.
#include "simd/tile_ops.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include <mgi/device/hash.hpp>

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
    if (simd::avx512_tile_ops() != nullptr) all.push_back({"avx512", simd::avx512_tile_ops()});
    return all;
}

class TileOpsTest : public testing::TestWithParam<Case> {
protected:
    TileOps const& ops() const { return *GetParam().ops; }
};

// Around the widths of vectors, and a few whole tiles.
std::vector<u32> const kRows{0, 1, 3, 7, 8, 9, 31, 32, 33, 63, 64, 65, 1000, 1024, 4096};
std::vector<u32> const kLanes{1, 2, 3, 4, 8, 16, 17, 64, 257};

TEST_P(TileOpsTest, RoutesByMurmur3AtAnyStride) {
    test::Random random(1);
    for (u32 const rows : kRows) {
        for (u32 const stride : {8u, 16u, 24u, 40u}) {
            std::vector<char> keys(u64(rows) * stride + 8);
            for (char& byte : keys) byte = char(random.next());
            for (u32 const lanes : kLanes) {
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

INSTANTIATE_TEST_SUITE_P(Instructions, TileOpsTest, testing::ValuesIn(cases()),
                         [](auto const& each) { return each.param.name; });

}  // namespace
}  // namespace mgi
