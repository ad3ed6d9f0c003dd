/// \file
/// Expects an Error of one code whose text says certain things.
#pragma once

#include <gtest/gtest.h>

#include <initializer_list>
#include <string>

#include <mgi/error.hpp>

namespace mgi::test {

template <class Call>
void expect_error(ErrorCode code, std::initializer_list<char const*> texts, Call&& call) {
    try {
        call();
    } catch (Error const& error) {
        EXPECT_STREQ(to_string(error.code()), to_string(code));
        for (char const* const text : texts) {
            EXPECT_NE(std::string(error.what()).find(text), std::string::npos)
                << "\"" << error.what() << "\" does not say \"" << text << "\"";
        }
        return;
    }
    ADD_FAILURE() << "no error was thrown; expected " << to_string(code);
}

}  // namespace mgi::test
