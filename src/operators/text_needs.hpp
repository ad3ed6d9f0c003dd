// What a channel must know of the texts that it is to carry.
#pragma once

#include <algorithm>
#include <limits>
#include <string>

#include <mgi/channel.hpp>
#include <mgi/device/lane_words.hpp>
#include <mgi/error.hpp>

namespace mgi::operators {

using device::u32;
using device::u64;

// Characters of the texts that move: of a row, about, and of the one that has most.
struct TextNeeds {
    u32 bytes_per_row = 0;  // with some room to spare
    u64 longest_row = 0;

    static TextNeeds of(u64 bytes, u64 rows, u64 longest_row) {
        u64 const average = rows == 0 ? 0 : bytes / rows;
        bool const none = longest_row == 0;
        return {none ? 0 : u32(std::min<u64>(average + average / 4 + 1, u64{1} << 20)),
                longest_row};
    }
};

// What the smallest segment holds.
inline constexpr u64 kAnySegmentHolds = 2048;

// Whether segments are made large enough for each row of tables in host memory: lanes have several of them, so longer rows
// go in pieces.
inline bool fits_a_segment(TextNeeds const& texts) {
    constexpr u64 kLongestWhole = (u64{4} << 20) - 16;
    return texts.longest_row <= kLongestWhole;
}

// What any segment holds. Throws Error(Refused).
inline void check_texts(std::string const& what, TextNeeds const& texts) {
    if (texts.longest_row <= device::Ticket::kMaxText) return;
    throw Error(ErrorCode::Refused, what + ": a row's texts take " +
                                        std::to_string(texts.longest_row) +
                                        " bytes; between GPUs they may take " +
                                        std::to_string(device::Ticket::kMaxText) +
                                        " together: cut the row into several, or use endpoints on "
                                        "CPUs (docs/limits.md)");
}

// At least half of a segment for texts.
inline u32 with_half_for_texts(Schema const& schema, u32 bytes_per_row) {
    u32 fixed = 0;
    for (Field const& field : schema.fields()) fixed += field.type.row_width();
    return std::max(bytes_per_row, fixed);
}

// The characters of a row that segments are made for, of the size that the caller wants if it is not 0: some rows, since
// longer ones go in pieces. Where some have more than any segment holds, the average says nothing of the others.
inline u32 bytes_per_row(Schema const& schema, TextNeeds const& texts, u32 segment_bytes) {
    constexpr u32 kOfOthers = 256;
    if (segment_bytes != 0) return std::min(texts.bytes_per_row, segment_bytes / 8);
    if (fits_a_segment(texts)) return texts.bytes_per_row;
    return with_half_for_texts(schema, std::min(texts.bytes_per_row, kOfOthers));
}

// Half of a segment for texts, and that large enough for the longest row.
inline void make_room(ChannelOptions& options, Schema const& schema, TextNeeds const& texts) {
    constexpr u32 kSegmentBytes = 256u << 10;
    options.text_bytes_per_row = with_half_for_texts(schema, texts.bytes_per_row);
    u64 const wanted =
        std::max(texts.longest_row * 2 + kSegmentBytes, u64{options.segment_bytes} * 2);
    options.segment_bytes = u32(std::min<u64>(wanted, std::numeric_limits<u32>::max()));
}

}  // namespace mgi::operators
