#include "control/local/cbor.hpp"

#include <array>

#include <mgi/error.hpp>

namespace mgi::control {

namespace {

constexpr std::size_t kDeepest = 16;
constexpr std::size_t kLengthBytes = 4;
constexpr std::size_t kKeptBytes = 1u << 20;

[[noreturn]] void refuse(std::string const& text) {
    throw Error(ErrorCode::InvalidArgument, text);
}

bool is_utf8(std::string_view text) {
    for (std::size_t i = 0; i < text.size();) {
        auto const lead = static_cast<unsigned char>(text[i++]);
        if (lead < 0x80) continue;
        int const more = lead >= 0xF0 ? 3 : lead >= 0xE0 ? 2 : 1;
        if (lead < 0xC2 || lead > 0xF4) return false;
        for (int k = 0; k < more; ++k, ++i) {
            if (i == text.size()) return false;
            auto const next = static_cast<unsigned char>(text[i]);
            if ((next & 0xC0) != 0x80) return false;
            // Overlong forms, surrogates, and what is beyond U+10FFFF.
            if (k == 0 && ((lead == 0xE0 && next < 0xA0) || (lead == 0xED && next > 0x9F) ||
                           (lead == 0xF0 && next < 0x90) || (lead == 0xF4 && next > 0x8F))) {
                return false;
            }
        }
    }
    return true;
}

// Walks over one CBOR item before it is decoded: the decoder recurses, also into strings in pieces, and
// lets any bytes be text.
class Walker {
public:
    explicit Walker(std::string_view bytes) : bytes_(bytes) {}

    void walk() {
        if (bytes_.empty() || (static_cast<unsigned char>(bytes_[0]) >> 5) != 5) {
            refuse("a message that is no CBOR map, as was expected");
        }
        // Items that are still to come at each level; a map has two for each pair.
        std::array<std::uint64_t, kDeepest> left{1};
        std::size_t depth = 1;
        while (depth > 0) {
            if (left[depth - 1] == 0) {
                --depth;
                continue;
            }
            --left[depth - 1];
            std::uint64_t const inside = item();
            if (inside == 0) continue;
            if (depth == kDeepest) fail("at most 16 levels");
            left[depth++] = inside;
        }
        if (at_ != bytes_.size()) fail("the end of the message");
    }

private:
    [[noreturn]] void fail(std::string const& expected) const {
        refuse("a message that is damaged at byte " + std::to_string(at_) + " of " +
               std::to_string(bytes_.size()) + ": expected " + expected);
    }

    std::string_view take(std::uint64_t count, char const* what) {
        if (count > bytes_.size() - at_) fail(what);
        auto const taken = bytes_.substr(at_, count);
        at_ += count;
        return taken;
    }

    std::uint64_t argument(unsigned low) {
        if (low < 24) return low;
        if (low > 27) fail("a definite length");
        std::uint64_t value = 0;
        for (char const byte : take(1u << (low - 24), "the rest of a number")) {
            value = value << 8 | static_cast<unsigned char>(byte);
        }
        return value;
    }

    // Steps over an item's own bytes; how many items are inside.
    std::uint64_t item() {
        auto const head = static_cast<unsigned char>(take(1, "one more item")[0]);
        unsigned const low = head & 31u;
        switch (head >> 5) {
            case 2: take(argument(low), "the rest of a byte string"); return 0;
            case 3:
                if (!is_utf8(take(argument(low), "the rest of a text"))) fail("UTF-8 before it");
                return 0;
            case 4: return contained(argument(low), 1);
            case 5: return contained(argument(low), 2);
            case 6: fail("no tag");
            case 7:
                // false, true, null, and floating point of two, four and eight bytes.
                if (low < 20 || low > 27 || low == 23 || low == 24) fail("a plain value");
                (void)argument(low);
                return 0;
            default: (void)argument(low); return 0;
        }
    }

    // Each item has a byte at least.
    std::uint64_t contained(std::uint64_t count, std::uint64_t each) {
        if (count > (bytes_.size() - at_) / each) fail("fewer items, or more bytes");
        if (count * each > kMostItems - items_) {
            fail("at most " + std::to_string(kMostItems) + " items");
        }
        items_ += count * each;
        return count * each;
    }

    std::string_view bytes_;
    std::size_t at_ = 0;
    std::size_t items_ = 0;  // of what has begun
};

Json const& at(Json const& message, char const* field, char const* expected) {
    auto const found = message.find(field);
    if (found == message.end() || found->is_null()) {
        refuse(std::string("field '") + field + "' is missing: expected " + expected);
    }
    return *found;
}

[[noreturn]] void refuse_field(char const* field, std::string const& expected) {
    refuse(std::string("field '") + field + "' is wrong: expected " + expected);
}

}  // namespace

std::string frame_of(Json const& message) {
    std::string frame(kLengthBytes, '\0');
    Json::to_cbor(message, nlohmann::detail::output_adapter<char>(frame));
    auto const length = static_cast<std::uint32_t>(frame.size() - kLengthBytes);
    for (std::size_t i = 0; i < kLengthBytes; ++i) frame[i] = static_cast<char>(length >> (8 * i));
    return frame;
}

Json message_from(std::string_view cbor) {
    Walker(cbor).walk();
    try {
        return Json::from_cbor(cbor.begin(), cbor.end());
    } catch (Json::exception const& error) {
        refuse(std::string("a message that is damaged: ") + error.what());
    }
}

void FrameReader::add(char const* bytes, std::size_t count) {
    if (start_ == buffer_.size() || start_ >= 1u << 16) {
        buffer_.erase(0, start_);
        start_ = 0;
    }
    buffer_.append(bytes, count);
}

std::optional<Json> FrameReader::next() {
    std::string_view const rest = std::string_view(buffer_).substr(start_);
    if (rest.size() < kLengthBytes) return std::nullopt;
    std::size_t length = 0;
    for (std::size_t i = 0; i < kLengthBytes; ++i) {
        length |= std::size_t(static_cast<unsigned char>(rest[i])) << (8 * i);
    }
    if (length == 0 || length > most_) {
        refuse("a message of " + std::to_string(length) + " bytes: expected 1 to " +
               std::to_string(most_));
    }
    if (rest.size() - kLengthBytes < length) return std::nullopt;
    Json message = message_from(rest.substr(kLengthBytes, length));
    start_ += kLengthBytes + length;
    // A long message, mostly the first one, keeps no room for as long as the connection lives.
    if (start_ == buffer_.size() && buffer_.capacity() > kKeptBytes) {
        buffer_ = std::string();
        start_ = 0;
    }
    return message;
}

std::uint64_t number_in(Json const& message, char const* field, std::uint64_t most) {
    std::string const expected = "a whole number from 0 to " + std::to_string(most);
    Json const& value = at(message, field, expected.c_str());
    if (!value.is_number_unsigned() || value.get<std::uint64_t>() > most) {
        refuse_field(field, expected);
    }
    return value.get<std::uint64_t>();
}

std::string text_in(Json const& message, char const* field, std::size_t most) {
    Json const& value = at(message, field, "a text");
    if (!value.is_string()) refuse_field(field, "a text");
    auto const& text = value.get_ref<std::string const&>();
    if (text.size() > most) refuse_field(field, "at most " + std::to_string(most) + " bytes");
    return text;
}

std::uint32_t number32_in(Json const& message, char const* field) {
    return static_cast<std::uint32_t>(number_in(message, field, UINT32_MAX));
}

std::string bytes_or_none_in(Json const& message, char const* field) {
    return has(message, field) ? bytes_in(message, field) : std::string();
}

std::string bytes_in(Json const& message, char const* field) {
    Json const& value = at(message, field, "a byte string");
    if (!value.is_binary()) refuse_field(field, "a byte string");
    auto const& bytes = value.get_binary();
    return {bytes.begin(), bytes.end()};
}

bool flag_in(Json const& message, char const* field) {
    Json const& value = at(message, field, "true or false");
    if (!value.is_boolean()) refuse_field(field, "true or false");
    return value.get<bool>();
}

bool has(Json const& message, char const* field) {
    auto const found = message.find(field);
    return found != message.end() && !found->is_null();
}

Json bytes_value(std::string const& bytes) {
    return Json::binary(std::vector<std::uint8_t>(bytes.begin(), bytes.end()));
}

Json runs_of(std::vector<std::uint32_t> const& ids) {
    Json runs = Json::array();
    for (std::size_t i = 0; i < ids.size();) {
        std::size_t end = i + 1;
        while (end < ids.size() && ids[end] == std::uint64_t(ids[i]) + (end - i)) ++end;
        runs.push_back(ids[i]);
        runs.push_back(end - i);
        i = end;
    }
    return runs;
}

std::vector<std::uint32_t> ids_in(Json const& message, char const* field) {
    constexpr char const* kExpected = "ids as runs [first, count, ...]";
    Json const& runs = at(message, field, kExpected);
    if (!runs.is_array() || runs.size() % 2 != 0) refuse_field(field, kExpected);
    std::vector<std::uint32_t> ids;
    for (std::size_t i = 0; i < runs.size(); i += 2) {
        if (!runs[i].is_number_unsigned() || !runs[i + 1].is_number_unsigned()) {
            refuse_field(field, kExpected);
        }
        auto const first = runs[i].get<std::uint64_t>();
        auto const count = runs[i + 1].get<std::uint64_t>();
        if (count > kMostEndpoints - ids.size()) {
            refuse_field(field, "at most " + std::to_string(kMostEndpoints) + " ids");
        }
        if (first > UINT32_MAX || first + count > std::uint64_t(UINT32_MAX) + 1) {
            refuse_field(field, "ids of 32 bits");
        }
        for (std::uint64_t k = 0; k < count; ++k) {
            ids.push_back(static_cast<std::uint32_t>(first + k));
        }
    }
    return ids;
}

}  // namespace mgi::control
