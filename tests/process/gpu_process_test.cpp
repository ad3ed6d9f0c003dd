// Processes that share the memory of a GPU that is made up, and one that is killed meanwhile.
#include <gtest/gtest.h>

#include <string>

#include "support/fake_driver.hpp"
#include "support/meeting.hpp"

namespace mgi::test {
namespace {

class GpuProcess : public testing::Test {
protected:
    /// By rank: how they have ended.
    static std::vector<std::string> hold(std::string const& what, std::uint32_t size,
                                         std::string const& how, std::string const& ipc) {
        Meeting meeting(size);
        for (std::uint32_t rank = 0; rank < size; ++rank) {
            meeting.start(
                {MGI_TEST_GPU_MEMBER, what, std::to_string(rank), std::to_string(size), how},
                {{"MGI_GPU_IPC", ipc}, {"MGI_LOG", "off"}});
        }
        std::vector<std::string> ended;
        for (std::uint32_t rank = 0; rank < size; ++rank) {
            ended.push_back(meeting.wait(rank, std::chrono::seconds(60)));
        }
        return ended;
    }

    FakeDriver const gpus_{{"DEVICES", "3"}, {"STREAMS", "threads"}};
    std::vector<std::string> const all_well_{"", ""};
};

TEST_F(GpuProcess, TwoCopyIntoEachOthersMappedMemory) {
    EXPECT_EQ(hold("exchange", 2, "copies", "on"), all_well_);
}

TEST_F(GpuProcess, ThreeReadInPlaceWhatTheOthersHaveForThem) {
    std::vector<std::string> const all_well{"", "", ""};
    EXPECT_EQ(hold("exchange", 3, "peers", "on"), all_well);
}

TEST_F(GpuProcess, TwoHaveLinks) {
    EXPECT_EQ(hold("exchange", 2, "links", "off"), all_well_);
}

// The driver that is made up hands plain memory to its own process alone.
TEST_F(GpuProcess, TwoHaveLinksWhereMemoryCannotBeShared) {
    EXPECT_EQ(hold("exchange", 2, "links", "plain"), all_well_);
}

TEST_F(GpuProcess, ThreeWriteIntoEachOthersWindows) {
    std::vector<std::string> const all_well{"", "", ""};
    EXPECT_EQ(hold("windows", 3, "peers", "on"), all_well);
}

// Nor where all are on one GPU, or other memory is wanted.
TEST_F(GpuProcess, SomeHaveNoWindows) {
    EXPECT_EQ(hold("windows", 2, "copies", "on"), all_well_);
    EXPECT_EQ(hold("windows", 2, "links", "plain"), all_well_);
    EXPECT_EQ(hold("windows", 2, "links", "off"), all_well_);
}

TEST_F(GpuProcess, OneIsKilledAndTheOthersGoOn) {
    std::vector<std::string> const ended{"", "ended by Killed", ""};
    EXPECT_EQ(hold("lose", 3, "copies", "on"), ended);
}

TEST_F(GpuProcess, TheOnlyPeerIsKilledAndTheOtherGoesOn) {
    std::vector<std::string> const ended{"", "ended by Killed"};
    EXPECT_EQ(hold("lose", 2, "peers", "on"), ended);
}

TEST_F(GpuProcess, APeerIsStoppedAndTheOthersGoOn) {
    std::vector<std::string> const all_well{"", "", ""};
    EXPECT_EQ(hold("stop", 3, "peers", "on"), all_well);
}

TEST_F(GpuProcess, APeerIsKilledAndTheOthersGoOn) {
    std::vector<std::string> const ended{"", "ended by Killed", ""};
    EXPECT_EQ(hold("lose", 3, "peers", "on"), ended);
}

}  // namespace
}  // namespace mgi::test
