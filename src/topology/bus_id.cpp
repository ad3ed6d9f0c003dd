#include "topology/bus_id.hpp"

#include <algorithm>
#include <cstddef>

namespace mgi::topology {
namespace {

char lower(char c) {
    return c >= 'A' && c <= 'Z' ? char(c - 'A' + 'a') : c;
}

bool is_hex(std::string_view text) {
    return std::all_of(text.begin(), text.end(), [](char c) {
        return (c >= '0' && c <= '9') || (lower(c) >= 'a' && lower(c) <= 'f');
    });
}

}  // namespace

std::optional<std::string> parse_bus_id(std::string_view text) {
    std::size_t const domain = text.find(':');
    if (domain == std::string_view::npos || domain < 4 || domain > 8) return std::nullopt;
    // ":bb:dd.f"
    std::string_view const rest = text.substr(domain);
    if (rest.size() != 8 || rest[3] != ':' || rest[6] != '.') return std::nullopt;
    if (!is_hex(text.substr(0, domain)) || !is_hex(rest.substr(1, 2)) ||
        !is_hex(rest.substr(4, 2)) || !is_hex(rest.substr(7))) {
        return std::nullopt;
    }
    std::size_t const padding = std::min(text.find_first_not_of('0'), domain - 4);
    std::string id(text.substr(padding));
    std::transform(id.begin(), id.end(), id.begin(), lower);
    return id;
}

std::string_view device_of(std::string_view bus_id) noexcept {
    return bus_id.substr(0, bus_id.rfind('.'));
}

bool is_hidden(std::string_view text) noexcept {
    std::string_view const domain = text.substr(0, text.find(':'));
    return domain.size() >= 7 && domain.size() < text.size() &&
           std::all_of(domain.begin(), domain.end(), [](char c) { return lower(c) == 'f'; });
}

}  // namespace mgi::topology
