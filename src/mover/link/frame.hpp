// What travels on a wire: frames, a header of fixed size and, behind some, a body.
//
//     Segment   a segment's used bytes, for the target that its key names, as they lie or by a codec
//     Word      a small fact of a channel: a credit, an end, a failure
//     Report    how many numbered frames of a closed wire have arrived
//     Ack       how much of this wire has arrived
//     Bye       the link is over, and why
//
// Segments, words and reports are *numbered*: 1, 2, ... on their wire. An acknowledgement is of numbers
// of one wire, never of keys.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>

namespace mgi::mover::link {

static_assert(std::endian::native == std::endian::little, "frames are little-endian, as memory is");

enum class FrameKind : std::uint8_t { Segment = 1, Word, Report, Ack, Bye };

// As it lies on the wire.
struct Header {
    FrameKind kind = FrameKind::Ack;
    std::uint8_t summed = 0;    // 1: `body_sum` is the body's checksum
    std::uint16_t codec = 0;    // Segment: of its body; 0: the bytes as they lie
    std::uint32_t bytes = 0;    // of the body
    std::uint64_t number = 0;   // numbered: which one. Ack: of frames that have arrived
    std::uint64_t channel = 0;  // Report: the generation. Ack: bytes that have arrived
    std::uint32_t source = 0;   // Report: the slot
    std::uint32_t destination = 0;
    std::uint64_t sequence = 0;  // Word: the value. Report: of frames that have arrived
    std::uint64_t tag = 0;       // Segment: the owner's. Word: its kind. Bye: the error's code
    std::uint32_t decoded = 0;  // Segment by a codec: its bytes as they lie, more than the body has
    std::uint32_t unused = 0;
    std::uint32_t body_sum = 0;
    std::uint32_t header_sum = 0;
};
inline constexpr std::size_t kHeaderBytes = 64;
static_assert(sizeof(Header) == kHeaderBytes, "no padding travels");

inline constexpr std::uint32_t kMostText = 1024;  // the body of a word or a bye

[[nodiscard]] constexpr bool is_numbered(FrameKind kind) {
    return kind == FrameKind::Segment || kind == FrameKind::Word || kind == FrameKind::Report;
}

// Bytes of a segment where it belongs.
[[nodiscard]] constexpr std::uint32_t segment_bytes(Header const& header) {
    return header.codec == 0 ? header.bytes : header.decoded;
}

// Sets the header's own checksum.
void seal(Header& header);

// What is wrong with a header that arrived; nothing if it can be trusted as far as a checksum goes.
// `most` is the largest segment that may come.
[[nodiscard]] std::optional<std::string> what_is_wrong(Header const& header, std::uint32_t most);

}  // namespace mgi::mover::link
