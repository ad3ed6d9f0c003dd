#include "core/text.hpp"

#include <gtest/gtest.h>

#include <string>

namespace mgi {
namespace {

TEST(PlainText, IsTheSameWhoeverWroteIt) {
    std::string const plain = "one\ntwo\n\nthree";
    EXPECT_EQ(plain_text(plain), plain);
    EXPECT_EQ(plain_text("\xEF\xBB\xBFone\r\ntwo\r\n\r\nthree"), plain);
    EXPECT_EQ(plain_text("one\rtwo\r\rthree"), plain);
    EXPECT_EQ(plain_text("\xEF\xBB\xBF"), "");
    EXPECT_EQ(plain_text("\r"), "\n");
    EXPECT_EQ(plain_text("one \xEF\xBB\xBF"), "one \xEF\xBB\xBF") << "only the first is a mark";
}

}  // namespace
}  // namespace mgi
