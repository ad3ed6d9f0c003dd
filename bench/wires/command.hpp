// The command lines of programs with several ends, such as `receive` and `send`.
#pragma once

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

#include <mgi/error.hpp>

#include "transport/wire/wire_thread.hpp"

namespace mgi::bench {

// The number behind an option, which `i` is moved on to.
inline std::size_t number_behind(int& i, int count, char** arguments) {
    std::string const option = arguments[i];
    if (++i == count) throw Error(ErrorCode::InvalidArgument, option + " needs a number");
    long const value = std::strtol(arguments[i], nullptr, 10);
    if (value <= 0) throw Error(ErrorCode::InvalidArgument, option + " needs a number above 0");
    return std::size_t(value);
}

// Of "LOCAL:0=ADDRESS:PORT".
inline transport::wire::Route route_of(std::string const& way) {
    std::size_t const equals = way.find('=');
    if (equals == std::string::npos) {
        throw Error(ErrorCode::InvalidArgument, way + " is no LOCAL:0=ADDRESS:PORT");
    }
    return {transport::wire::Address(way.substr(0, equals)),
            transport::wire::Address(way.substr(equals + 1))};
}

// Runs the end, of those with a name, that the first argument names; returns the exit status. `options_from`
// reads the others.
template <class Options>
int run_end(char const* program, char const* usage, int count, char** arguments,
            Options (*options_from)(int, char**),
            std::initializer_list<std::pair<std::string_view, int (*)(Options const&)>> ends) {
    try {
        std::string_view const wanted = count > 1 ? arguments[1] : "";
        for (auto const& [name, end] : ends) {
            if (name == wanted) return end(options_from(count, arguments));
        }
        std::fputs(usage, stderr);
        return 2;
    } catch (std::exception const& error) {
        std::fprintf(stderr, "%s: %s\n", program, error.what());
        return 1;
    }
}

}  // namespace mgi::bench
