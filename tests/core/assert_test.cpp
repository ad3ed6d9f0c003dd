// Assertions: what a build that has them says of a broken invariant, and that one without evaluates nothing.
#include <gtest/gtest.h>

#include <array>
#include <string_view>

#include <mgi/device/assert.hpp>
#include <mgi/device/lane.hpp>

namespace mgi::test {
namespace {

enum class Kind : std::uint8_t { First, Second };

int evaluated = 0;
[[maybe_unused]] int counted(int value) {
    ++evaluated;
    return value;
}

class Assertions : public testing::Test {
protected:
    // Other tests' threads may run: a child that is a process of its own.
    Assertions() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

TEST_F(Assertions, OfWhatHoldsSayNothing) {
    int const taken = 16;
    MGI_ASSERT(taken <= 16, taken);
    MGI_ASSERT(taken != 0);
}

#if MGI_ASSERTIONS_ACTIVE

TEST_F(Assertions, NameThePlaceAndTheValues) {
    unsigned const taken = 17;
    unsigned const capacity = 16;
    EXPECT_DEATH(MGI_ASSERT(taken <= capacity, taken, capacity),
                 "mgi: invariant broken at tests/core/assert_test.cpp:[0-9]+: "
                 "taken <= capacity \\(taken = 17, capacity = 16\\)");
}

TEST_F(Assertions, PrintEachKindOfValue) {
    auto const at_most = [](int a, int b) { return a < b ? a : b; };
    Kind const kind = Kind::Second;
    std::string_view const text = "lane";
    void const* const nothing = nullptr;
    EXPECT_DEATH(MGI_ASSERT(kind == Kind::First, kind, text, at_most(-3, 4), text.empty(), nothing),
                 "\\(kind = 1, text = lane, at_most\\(-3, 4\\) = -3, text.empty\\(\\) = false, "
                 "nothing = 0x0\\)");
}

TEST_F(Assertions, NeedNoValues) {
    bool const whole = false;
    EXPECT_DEATH(MGI_ASSERT(whole), "assert_test.cpp:[0-9]+: whole\n");
}

TEST_F(Assertions, EvaluateValuesOnlyOfWhatIsBroken) {
    evaluated = 0;
    MGI_ASSERT(counted(1) == 1, counted(2));
    EXPECT_EQ(evaluated, 1);
}

// A group that commits rows twice would have a slot published before all of it is written.
TEST_F(Assertions, SeeALaneThatCountsTooManyRows) {
    std::array<device::Slot<device::LibcuAtomics>, 2> slots;
    slots[1].sequence.store(1, device::relaxed);
    device::Lane<> lane;
    lane.slots = slots.data();
    lane.mask = 1;
    lane.capacity = 16;
    device::Claim const claim = lane.claim_now(10);
    ASSERT_FALSE(lane.commit(claim.slot, claim.rows, 0, 0));
    EXPECT_DEATH((void)lane.commit(claim.slot, claim.rows, 0, 0),
                 "include/mgi/device/lane.hpp:[0-9]+: .*all = 16");
}

#else

TEST_F(Assertions, EvaluateNothingWithoutThem) {
    evaluated = 0;
    MGI_ASSERT(counted(0) == 1, counted(2), counted(3));
    EXPECT_EQ(evaluated, 0);
}

#endif

}  // namespace
}  // namespace mgi::test
