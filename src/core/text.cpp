#include "core/text.hpp"

#include <algorithm>
#include <array>
#include <charconv>

namespace mgi {

std::string plain_text(std::string text) {
    if (text.starts_with("\xEF\xBB\xBF")) text.erase(0, 3);
    if (text.find('\r') == std::string::npos) return text;
    std::size_t end = 0;
    for (std::size_t at = 0; at < text.size(); ++at) {
        bool const pair = text[at] == '\r' && at + 1 < text.size() && text[at + 1] == '\n';
        if (pair) continue;  // the newline behind it stands for both
        text[end++] = text[at] == '\r' ? '\n' : text[at];
    }
    text.resize(end);
    return text;
}

std::string bytes_text(std::uint64_t bytes) {
    constexpr std::array<char const*, 6> kUnits{"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    if (bytes < 1024) return std::to_string(bytes) + (bytes == 1 ? " byte" : " bytes");
    std::size_t unit = 0;
    std::uint64_t size = 1024;
    while (unit + 1 < kUnits.size() && bytes / size >= 1024) {
        size *= 1024;
        ++unit;
    }
    std::uint64_t const tenths = (bytes % size) * 10 / size;
    std::string text = std::to_string(bytes / size);
    if (tenths != 0) text += "." + std::to_string(tenths);
    return text + " " + kUnits[unit];
}

std::string list_text(std::vector<std::uint32_t> const& numbers) {
    std::string text;
    for (std::uint32_t const number : numbers) {
        text += (text.empty() ? "" : ", ") + std::to_string(number);
    }
    return text;
}

std::string_view take_word(std::string_view& left, char mark) {
    std::string_view const word = left.substr(0, left.find(mark));
    left.remove_prefix(std::min(left.size(), word.size() + 1));
    return word;
}

std::string without_controls(std::string_view text) {
    auto const byte = [text](std::size_t i) {
        return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u;
    };
    std::string clean;
    clean.reserve(text.size());
    for (std::size_t i = 0; i < text.size(); ++i) {
        unsigned const first = byte(i);
        unsigned const second = byte(i + 1);
        unsigned const third = byte(i + 2);
        bool const c1 = first == 0xc2 && second >= 0x80 && second <= 0x9f;
        // U+061C; U+200E and U+200F, U+2028 to U+202E, U+2066 to U+2069.
        bool const letter_mark = first == 0xd8 && second == 0x9c;
        bool const marks = second == 0x80 && (third == 0x8e || third == 0x8f);
        bool const turns =
            first == 0xe2 && (marks || (second == 0x80 && third >= 0xa8 && third <= 0xae) ||
                              (second == 0x81 && third >= 0xa6 && third <= 0xa9));
        if (first >= 0x20 && first != 0x7f && !c1 && !letter_mark && !turns) {
            clean += text[i];
            continue;
        }
        clean += ' ';
        i += c1 || letter_mark ? 1 : turns ? 2 : 0;
    }
    return clean;
}

std::string lower_case(std::string_view text) {
    std::string made(text);
    for (char& c : made) {
        if (c >= 'A' && c <= 'Z') c = char(c - 'A' + 'a');
    }
    return made;
}

std::uint64_t text_hash(std::string_view text) {
    std::uint64_t hash = 0xcbf29ce484222325;
    for (char const c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
    return hash;
}

std::string hex_text(std::uint64_t number) {
    std::array<char, 16> digits{};
    auto const end = std::to_chars(digits.data(), digits.data() + digits.size(), number, 16).ptr;
    return {digits.data(), end};
}

}  // namespace mgi
