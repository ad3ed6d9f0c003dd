/// \file
/// Asserts that a call throws mgi::Error with a code, and that its text names the offender.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <initializer_list>
#include <string>

#include <mgi/error.hpp>

namespace mgi::test {

/// `words` must all stand in the error's text.
inline void expect_error(ErrorCode code, std::initializer_list<std::string> words,
                         std::function<void()> const& call) {
    try {
        call();
    } catch (Error const& error) {
        EXPECT_STREQ(to_string(error.code()), to_string(code)) << error.what();
        for (std::string const& word : words) {
            EXPECT_NE(std::string(error.what()).find(word), std::string::npos)
                << "no '" << word << "' in: " << error.what();
        }
        return;
    } catch (std::exception const& error) {
        FAIL() << "threw something else: " << error.what();
    }
    FAIL() << "threw nothing";
}

}  // namespace mgi::test
