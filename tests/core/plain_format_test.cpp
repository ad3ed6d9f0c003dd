#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "core/plain_format.hpp"

namespace mgi::plain {
namespace {

TEST(PlainFormat, PutsAValueInPlaceOfEachPair) {
    EXPECT_EQ(formatted("nothing"), "nothing");
    EXPECT_EQ(formatted("{}", 7), "7");
    EXPECT_EQ(formatted("{} of {}, {}", std::uint64_t(1), -2, "words"), "1 of -2, words");
    EXPECT_EQ(formatted("a {}{} b", std::string("x"), std::string_view("yz")), "a xyz b");
    EXPECT_EQ(formatted("{} {}", true, 'c'), "true c");
}

TEST(PlainFormat, TakesValuesThatHaveNoPlaceAndPlacesWithoutAValue) {
    EXPECT_EQ(formatted("one: {}, two: {}", 1), "one: 1, two: {}");
    EXPECT_EQ(formatted("none", 1), "none1");
}

}  // namespace
}  // namespace mgi::plain
