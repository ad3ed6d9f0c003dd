// What a channel must know of the texts that it is to carry.
#pragma once

#include <algorithm>
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

// What a segment holds at most, and what the smallest does.
inline constexpr u64 kLongestRow = u64{device::Ticket::kMaxUnits} * device::Ticket::kUnitBytes;
inline constexpr u64 kAnySegmentHolds = 2048;

// Throws Error(Refused).
inline void check_texts(std::string const& what, TextNeeds const& texts) {
    if (texts.longest_row <= kLongestRow) return;
    throw Error(ErrorCode::Refused,
                what + ": a row's texts take " + std::to_string(texts.longest_row) +
                    " bytes; a segment holds at most " + std::to_string(kLongestRow));
}

// Half of a segment for texts, and that large enough for the longest row.
inline void make_room(ChannelOptions& options, Schema const& schema, TextNeeds const& texts) {
    constexpr u32 kSegmentBytes = 256u << 10;
    u32 fixed = 0;
    for (Field const& field : schema.fields()) fixed += field.type.row_width();
    options.text_bytes_per_row = std::max(texts.bytes_per_row, fixed);
    options.segment_bytes = std::max(
        {kSegmentBytes, u32(texts.longest_row) * 2 + kSegmentBytes, options.segment_bytes * 2});
}

}  // namespace mgi::operators
