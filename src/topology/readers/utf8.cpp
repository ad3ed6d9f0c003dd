#include "topology/readers/utf8.hpp"

#include <cstdint>

namespace mgi::topology {
namespace {

struct Lead {
    std::size_t length = 0;   ///< of the character; 0 where no character starts with this byte
    std::uint32_t bits = 0;   ///< that the byte gives
    std::uint32_t least = 0;  ///< the first character of this length: shorter ones must be shorter
};

Lead lead_of(unsigned char byte) noexcept {
    if (byte < 0x80) return {1, byte, 0};
    if ((byte & 0xe0) == 0xc0) return {2, byte & 0x1fu, 0x80};
    if ((byte & 0xf0) == 0xe0) return {3, byte & 0x0fu, 0x800};
    if ((byte & 0xf8) == 0xf0) return {4, byte & 0x07u, 0x10000};
    return {};
}

/// The character at the text's start in bytes, 0 where there is none.
std::size_t length_of_first(std::string_view text) noexcept {
    Lead const lead = lead_of(static_cast<unsigned char>(text.front()));
    if (lead.length == 0 || lead.length > text.size()) return 0;
    std::uint32_t character = lead.bits;
    for (std::size_t i = 1; i < lead.length; ++i) {
        auto const byte = static_cast<unsigned char>(text[i]);
        if ((byte & 0xc0) != 0x80) return 0;
        character = character << 6 | (byte & 0x3fu);
    }
    bool const surrogate = character >= 0xd800 && character < 0xe000;
    return character < lead.least || character > 0x10ffff || surrogate ? 0 : lead.length;
}

}  // namespace

std::size_t first_non_utf8(std::string_view text) noexcept {
    for (std::size_t at = 0; at < text.size();) {
        std::size_t const length = length_of_first(text.substr(at));
        if (length == 0) return at;
        at += length;
    }
    return std::string_view::npos;
}

}  // namespace mgi::topology
