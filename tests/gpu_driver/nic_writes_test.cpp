// What NICs write into a GPU's memory, as the made-up driver has it.
#include "gpu/nic_writes.hpp"

#include <gtest/gtest.h>

#include <string>

#include "support/expect_error.hpp"
#include "support/fake_driver.hpp"

namespace mgi::gpu {
namespace {

using test::FakeDriver;

constexpr char const* kFlush = "cuFlushGPUDirectRDMAWrites";

TEST(NicWrites, NoNicReachesAGpuWhoseDriverDoesNotLetIt) {
    FakeDriver const none;
    EXPECT_NE(why_no_nic(0).find("cuda:0's driver lets no NIC reach"), std::string::npos);
}

TEST(NicWrites, NorOneThatTheMachineIsNotSetUpFor) {
    FakeDriver const able{{"NICS", "no module"}};
    EXPECT_NE(why_no_nic(0).find("load nvidia-peermem"), std::string::npos);
}

TEST(NicWrites, AreOfNoUseWhereNothingMakesThemVisible) {
    FakeDriver const unseen{{"NICS", "unseen"}};
    EXPECT_NE(why_no_nic(0).find("cannot say when its kernels see"), std::string::npos);
}

TEST(NicWrites, AreFlushedWhereTheGpuDoesNotOrderThem) {
    FakeDriver const gpus{{"DEVICES", "2"}, {"NICS", "flushed"}};
    EXPECT_EQ(why_no_nic(1), "");
    NicWrites const writes(1);
    EXPECT_EQ(gpus.calls(kFlush), 0U);
    writes.settle();
    writes.settle();
    EXPECT_EQ(gpus.calls(kFlush), 2U);
    gpus.fail(std::string(kFlush) + ":1:700");
    test::expect_error(ErrorCode::GroupFailed, {"cuda:1", "see what NICs have written"},
                       [&] { writes.settle(); });
}

TEST(NicWrites, NeedNoFlushWhereItDoes) {
    FakeDriver const gpus{{"NICS", "ordered"}};
    EXPECT_EQ(why_no_nic(0), "");
    NicWrites(0).settle();
    EXPECT_EQ(gpus.calls(kFlush), 0U);
}

}  // namespace
}  // namespace mgi::gpu
