// GPUs that are peers by the driver's word, some of which change bytes.
#include "gpu/peers.hpp"

#include <gtest/gtest.h>

#include <mgi/error.hpp>

#include "gpu/driver.hpp"
#include "support/fake_driver.hpp"

namespace mgi::gpu {
namespace {

using test::FakeDriver;

TEST(GpuPeers, AreConnectedOnceTheyWork) {
    FakeDriver const gpus({{"DEVICES", "2"}});
    EXPECT_TRUE(connect_peers(0, 1));
    std::uint64_t const opened = gpus.calls("cuCtxEnablePeerAccess");
    std::uint64_t const tried = gpus.calls("cuMemcpyDtoDAsync");
    EXPECT_EQ(opened, 2U);
    EXPECT_EQ(tried, 4U);  // written and read, by both
    EXPECT_TRUE(connect_peers(1, 0));
    EXPECT_EQ(gpus.calls("cuCtxEnablePeerAccess"), opened);
    EXPECT_EQ(gpus.calls("cuMemcpyDtoDAsync"), tried);
}

TEST(GpuPeers, AreNoneWhereTheDriverSaysSo) {
    FakeDriver const gpus({{"DEVICES", "2"}, {"PEERS", "none"}});
    EXPECT_FALSE(connect_peers(0, 1));
    EXPECT_EQ(gpus.calls("cuMemcpyDtoDAsync"), 0U);
}

TEST(GpuPeers, AreNoneWhereBytesArriveChanged) {
    FakeDriver const gpus({{"DEVICES", "3"}, {"BROKEN", "0-1"}});
    EXPECT_FALSE(connect_peers(0, 1));
    EXPECT_EQ(gpus.calls("cuCtxDisablePeerAccess"), 2U);
    EXPECT_FALSE(connect_peers(0, 1));
    EXPECT_TRUE(connect_peers(1, 2));
}

TEST(GpuPeers, AreTakenAtTheDriversWordWithoutMemoryToTry) {
    FakeDriver const gpus({{"DEVICES", "2"}, {"FAIL", "cuMemAlloc:1:2"}});
    EXPECT_TRUE(connect_peers(0, 1));
}

TEST(GpuPeers, GiveBackWhatTheyWereTriedWith) {
    FakeDriver const gpus({{"DEVICES", "2"}});
    std::size_t const memory = gpus.alive("memory");
    std::size_t const pinned = gpus.alive("pinned");
    std::size_t const streams = gpus.alive("streams");
    (void)connect_peers(0, 1);
    EXPECT_EQ(gpus.alive("memory"), memory);
    EXPECT_EQ(gpus.alive("pinned"), pinned);
    EXPECT_EQ(gpus.alive("streams"), streams);
}

TEST(GpuPeers, AreCheckedEachWithEachOther) {
    FakeDriver const gpus({{"DEVICES", "3"}, {"PEERS", "0-1,1-2"}, {"BROKEN", "1-2"}});
    std::vector<PeerCheck> const checks = check_peers(4096);
    ASSERT_EQ(checks.size(), 6U);
    for (PeerCheck const& check : checks) {
        bool const with_one = check.from == 1 || check.to == 1;
        bool const with_two = check.from == 2 || check.to == 2;
        EXPECT_EQ(check.reaches, with_one) << check.from << " " << check.to;
        EXPECT_EQ(check.right, with_one && !with_two) << check.from << " " << check.to;
        EXPECT_EQ(check.write_gbps > 0, with_one);
        EXPECT_EQ(check.read_gbps > 0, with_one);
    }
}

}  // namespace
}  // namespace mgi::gpu
