/// \file
/// What the web side shows.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace mgi::control {

/// Made anew for each request, or for several at a time. One thread calls the functions.
struct HttpContent {
    std::string_view page;                 ///< HTML; empty: there is none
    std::function<std::string()> status;   ///< JSON (docs/control.md)
    std::function<std::string()> metrics;  ///< in Prometheus' text format
};

}  // namespace mgi::control
