#include "control/http/host.hpp"

#include <arpa/inet.h>
#include <unistd.h>

#include <algorithm>

#include "core/text.hpp"

namespace mgi::control {

namespace {

bool is_port(std::string_view text) {
    return text.size() <= 5 &&
           std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

/// Without a port; empty where it is no host.
std::string name_of(std::string_view host) {
    std::size_t const colon = host.rfind(':');
    std::size_t const bracket = host.rfind(']');
    if (colon != std::string_view::npos && (bracket == std::string_view::npos || colon > bracket)) {
        if (!is_port(host.substr(colon + 1))) return "";
        host = host.substr(0, colon);
    }
    return std::string(host);
}

bool is_number(std::string const& name) {
    in_addr four{};
    if (inet_pton(AF_INET, name.c_str(), &four) == 1) return true;
    if (!name.starts_with('[') || !name.ends_with(']')) return false;
    in6_addr six{};
    return inet_pton(AF_INET6, name.substr(1, name.size() - 2).c_str(), &six) == 1;
}

}  // namespace

OwnNames::OwnNames(std::string_view listened) : listened_(lower_case(listened)) {
    char name[256] = "";
    gethostname(name, sizeof name - 1);
    machine_ = lower_case(name);
}

bool OwnNames::has(std::string_view host) const {
    std::string const name = name_of(host);
    if (name.empty()) return false;
    return is_number(name) || name == "localhost" || name == listened_ || name == machine_;
}

}  // namespace mgi::control
