// A channel's copies by a driver that is made up.
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "support/fake_driver.hpp"
#include "transport/gpu_copy.hpp"

namespace mgi::transport {
namespace {

constexpr std::uint32_t kBytes = 4096;

/// What a copy within one GPU fails with, where such copies have so much pinned memory; empty: it does not.
std::string failure(std::uint64_t bounce) {
    gpu::DeviceMemory const memory(0, 2 * kBytes);
    auto const memories = std::make_shared<GpuMemories>();
    memories->add({0, memory.data(), memory.bytes()});
    GpuCopy copies(memories, bounce);
    std::array const ranges{memory::Range{0, kBytes}};
    EXPECT_TRUE(copies.submit({7, memory.data(), memory.data() + kBytes, ranges}));
    std::vector<std::uint64_t> complete;
    std::vector<FailedCopy> failed;
    while (complete.empty() && failed.empty()) copies.poll(complete, failed);
    return failed.empty() ? "" : failed.front().error.what();
}

TEST(GpuCopies, WithinAGpuGoThroughPinnedMemory) {
    test::FakeDriver const fake;
    EXPECT_EQ(failure(kBytes), "");
    for (std::uint32_t const bounce : {0U, kBytes - 1}) {
        EXPECT_NE(failure(bounce).find("within cuda:0"), std::string::npos) << bounce;
    }
}

}  // namespace
}  // namespace mgi::transport
