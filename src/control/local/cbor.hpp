// The messages of the application's socket (docs/control.md): CBOR maps behind a length. Both ends of it
// read what the other one wrote through here, and trust nothing.
#pragma once

#include <nlohmann/json.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mgi::control {

using Json = nlohmann::json;

/// Of the socket's messages; another one is refused by name.
inline constexpr std::uint32_t kSocketProtocol = 2;
/// A channel has at most so many sources, and so many destinations.
inline constexpr std::uint64_t kMostEndpoints = 1u << 20;
inline constexpr std::size_t kMostRequestBytes = 1u << 20;
/// Answers and notices; and a hello, which names what the application holds.
inline constexpr std::size_t kMostAnswerBytes = 64u << 20;
/// Of a message, at all levels: one of a byte takes 16 bytes and more once it is decoded.
inline constexpr std::size_t kMostItems = 1u << 22;

/// A message with its length in front.
std::string frame_of(Json const& message);

/// One CBOR map. Throws Error(InvalidArgument) that says at which byte and what was expected: for what is
/// no CBOR, is cut off, has something behind it, nests deeper than 16, has more than kMostItems, has text
/// that is not UTF-8, or uses what no message of ours does (tags, indefinite lengths).
Json message_from(std::string_view cbor);

/// Messages out of a stream of bytes that comes in any pieces.
class FrameReader {
public:
    explicit FrameReader(std::size_t most) : most_(most) {}
    void limit(std::size_t most) { most_ = most; }
    void add(char const* bytes, std::size_t count);
    /// The next whole message. Throws Error(InvalidArgument), as message_from does, and for a length of 0
    /// or beyond the limit; the stream is of no use then.
    std::optional<Json> next();
    /// Bytes of a message that has begun.
    [[nodiscard]] std::size_t held() const { return buffer_.size() - start_; }

private:
    std::size_t most_;
    std::string buffer_;
    std::size_t start_ = 0;  // of the next message
};

/// Fields of a message; each throws Error(InvalidArgument) that names the field and what was expected.
std::uint64_t number_in(Json const& message, char const* field, std::uint64_t most);
/// The same of at most 32 bits.
std::uint32_t number32_in(Json const& message, char const* field);
std::string text_in(Json const& message, char const* field, std::size_t most = 4096);
std::string bytes_in(Json const& message, char const* field);
/// Empty where it is not there.
std::string bytes_or_none_in(Json const& message, char const* field);
bool flag_in(Json const& message, char const* field);
/// Whether it is there and not null.
bool has(Json const& message, char const* field);
Json bytes_value(std::string const& bytes);

/// Ids as runs [first, count, first, count, ...], in their order: those of an application mostly follow each
/// other.
Json runs_of(std::vector<std::uint32_t> const& ids);
std::vector<std::uint32_t> ids_in(Json const& message, char const* field);

}  // namespace mgi::control
