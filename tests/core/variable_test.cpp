// What the user says in variables of the environment.
#include "core/variable.hpp"

#include <gtest/gtest.h>

#include <cstdlib>

#include "support/expect_error.hpp"

namespace mgi::test {
namespace {

constexpr char const* kName = "MGI_TEST_OF_VARIABLES";

class Variable : public testing::Test {
protected:
    ~Variable() override { unsetenv(kName); }

    static std::size_t word() { return word_in_variable(kName, {"on", "plain", "off"}); }
};

TEST_F(Variable, UnsetAndEmptyOnesSayNothing) {
    EXPECT_EQ(variable(kName), "");
    EXPECT_EQ(word(), 0U);
    setenv(kName, "", 1);
    EXPECT_EQ(variable(kName), "");
    EXPECT_EQ(word(), 0U);
}

TEST_F(Variable, SaysOneOfTheWords) {
    setenv(kName, "off", 1);
    EXPECT_EQ(variable(kName), "off");
    EXPECT_EQ(word(), 2U);
    setenv(kName, "on", 1);
    EXPECT_EQ(word(), 0U);
}

TEST_F(Variable, AnyOtherWordIsRefusedWithThoseExpected) {
    setenv(kName, "OFF", 1);
    expect_error(ErrorCode::InvalidArgument,
                 {"MGI_TEST_OF_VARIABLES is 'OFF'", "expected on, plain or off"},
                 [] { (void)word(); });
    expect_error(ErrorCode::InvalidArgument, {"expected tcp or ucx"},
                 [] { (void)word_in_variable(kName, {"tcp", "ucx"}); });
}

}  // namespace
}  // namespace mgi::test
