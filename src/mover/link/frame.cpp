#include "mover/link/frame.hpp"

#include <cstddef>

#include "core/format.hpp"
#include "mover/link/checksum.hpp"

namespace mgi::mover::link {
namespace {

std::uint32_t sum_of(Header const& header) {
    return crc32c(0, &header, offsetof(Header, header_sum));
}

std::uint32_t most_bytes(FrameKind kind, std::uint32_t most) {
    switch (kind) {
        case FrameKind::Segment: return most;
        case FrameKind::Word:
        case FrameKind::Bye: return kMostText;
        case FrameKind::Report:
        case FrameKind::Ack: break;
    }
    return 0;
}

}  // namespace

void seal(Header& header) {
    header.header_sum = sum_of(header);
}

std::optional<std::string> what_is_wrong(Header const& header, std::uint32_t most) {
    if (header.header_sum != sum_of(header)) return "a frame's header is damaged";
    if (header.kind < FrameKind::Segment || header.kind > FrameKind::Bye) {
        return formatted("there is no frame of kind {}", unsigned(header.kind));
    }
    if (header.bytes > most_bytes(header.kind, most)) {
        return formatted("a frame of kind {} says it has {} bytes, at most {} are allowed",
                         unsigned(header.kind), header.bytes, most_bytes(header.kind, most));
    }
    if (header.codec == 0) return std::nullopt;
    // Its bytes are summed: what is decoded from damaged ones is anybody's guess.
    if (header.kind != FrameKind::Segment || header.summed == 0 || header.decoded > most ||
        header.bytes >= header.decoded) {
        return formatted(
            "a frame of kind {} says its {} bytes are {} by codec {}; only a summed segment has a "
            "codec, which makes it smaller, and {} bytes at most",
            unsigned(header.kind), header.bytes, header.decoded, header.codec, most);
    }
    return std::nullopt;
}

}  // namespace mgi::mover::link
