#include "planner/sizes.hpp"

#include <algorithm>
#include <bit>
#include <limits>
#include <string>

#include <mgi/device/lane.hpp>
#include <mgi/error.hpp>

#include "core/text.hpp"

namespace mgi::planner {
namespace {

using device::Ticket;

constexpr std::uint64_t kAlignment = 64;

std::uint64_t round_up(std::uint64_t value, std::uint64_t to) {
    return (value + to - 1) / to * to;
}

/// a * b, or the largest number there is.
std::uint64_t times(std::uint64_t a, std::uint64_t b) {
    std::uint64_t const most = std::numeric_limits<std::uint64_t>::max();
    return b != 0 && a > most / b ? most : a * b;
}

std::uint64_t plus(std::uint64_t a, std::uint64_t b) {
    std::uint64_t const most = std::numeric_limits<std::uint64_t>::max();
    return a > most - b ? most : a + b;
}

/// Decides one channel's sizes; a class so that the steps share what they read.
class Sizing {
public:
    Sizing(Schema const& schema, ChannelOptions const& options, ChannelShape const& shape,
           std::string const& who, Plan& plan)
        : schema_(schema), options_(options), shape_(shape), who_(who), plan_(plan) {}

    void decide() {
        decide_text();
        decide_slots();
        decide_segment();
        decide_tile();
        decide_chunk();
        plan_.pool_bytes = plus(segment_bytes_in_all(), carry_bytes_in_all());
    }

private:
    [[noreturn]] void refuse(std::string const& what) const {
        throw Error(ErrorCode::InvalidArgument, who_ + ": " + what);
    }

    /// Bytes of text that segments of so many rows get.
    [[nodiscard]] std::uint64_t text_for(std::uint64_t rows) const {
        if (text_per_row_ == 0) return 0;
        std::uint64_t const wanted = std::max(times(rows, text_per_row_), least_text_);
        return Ticket::whole_units(std::min(wanted, most_text_));
    }
    [[nodiscard]] std::uint64_t size_for(std::uint64_t rows) const {
        return segment_size(schema_, options_.layout, rows, text_for(rows));
    }

    void decide_text() {
        std::uint64_t columns = 0;
        for (Field const& field : schema_.fields()) columns += field.type.is_variable() ? 1 : 0;
        if (columns == 0) return;
        if (options_.text_bytes_per_row > Ticket::kMaxText) {
            refuse("text_bytes_per_row " + std::to_string(options_.text_bytes_per_row) +
                   " is more than the " + std::to_string(Ticket::kMaxText) +
                   " bytes of text that a whole segment can hold");
        }
        bool const asked = options_.text_bytes_per_row != 0;
        text_per_row_ = asked ? options_.text_bytes_per_row : columns * kDefaultTextPerRow;
        least_text_ = asked ? 0 : kLeastText;
        if (options_.segment_rows == 0 && options_.segment_bytes != 0) {
            least_text_ = std::min<std::uint64_t>(least_text_, options_.segment_bytes / 2);
        }
        // As much as the options say, be it one row's.
        bool const by_rows = options_.segment_rows != 0;
        if (by_rows ? asked : options_.segment_bytes != 0) {
            most_text_ = Ticket::kMaxText;
        } else {
            most_text_ = std::max<std::uint64_t>(kMostDefaultText, text_per_row_);
        }
    }

    void decide_slots() {
        if (options_.slots > kMaxSlots) {
            refuse("slots " + std::to_string(options_.slots) + " is more than " +
                   std::to_string(kMaxSlots));
        }
        if (options_.credits > kMaxSlots) {
            refuse("credits " + std::to_string(options_.credits) + " is more than " +
                   std::to_string(kMaxSlots));
        }
        plan_.slots = std::bit_ceil(options_.slots != 0 ? options_.slots : kDefaultSlots);
        plan_.credits = options_.credits != 0 ? options_.credits : plan_.slots;
    }

    /// Segments that a source fills; receive pools come on top of them.
    [[nodiscard]] std::uint64_t lane_segments() const {
        return times(times(shape_.sources_here, shape_.lanes), plan_.slots);
    }
    [[nodiscard]] std::uint64_t segment_bytes_in_all() const {
        std::uint64_t count = lane_segments();
        if (shape_.by_copy) {
            count =
                plus(count, times(times(shape_.sources, shape_.destinations_here), plan_.credits));
        }
        return times(count, plan_.segment_bytes);
    }

    void decide_segment() {
        std::uint64_t const rows = options_.segment_rows != 0 ? rows_asked_for() : rows_by_bytes();
        std::uint64_t const size = size_for(rows);
        std::string const option = options_.segment_rows != 0
                                       ? "segment_rows " + std::to_string(options_.segment_rows)
                                       : "segment_bytes " + std::to_string(options_.segment_bytes);
        if (size > std::numeric_limits<std::uint32_t>::max()) {
            refuse(option + " makes segments of " + bytes_text(size) +
                   "; they must be smaller than 4 GiB");
        }
        bool const asked = options_.segment_rows != 0 || options_.segment_bytes != 0;
        if (asked && shape_.memory_limit != 0 && size > shape_.memory_limit) {
            refuse(option + " makes segments of " + bytes_text(size) +
                   ", beyond the memory limit of " + bytes_text(shape_.memory_limit));
        }
        plan_.segment_rows = std::uint32_t(rows);
        plan_.text_bytes = std::uint32_t(text_for(rows));
        plan_.segment_bytes = std::uint32_t(size);
    }

    [[nodiscard]] std::uint64_t rows_asked_for() const {
        if (options_.segment_rows > Ticket::kMaxRows) {
            refuse("segment_rows " + std::to_string(options_.segment_rows) + " is more than " +
                   std::to_string(Ticket::kMaxRows));
        }
        return options_.segment_rows;
    }

    [[nodiscard]] std::uint64_t rows_by_bytes() const {
        if (options_.segment_bytes == 0) {
            return std::max<std::uint64_t>(64, fitting(default_bytes(), 64));
        }
        std::uint64_t rows = fitting(options_.segment_bytes, 64);
        if (rows == 0) rows = fitting(options_.segment_bytes, 1);
        if (rows == 0) {
            refuse("segment_bytes " + std::to_string(options_.segment_bytes) +
                   " does not hold one row, which takes " + std::to_string(size_for(1)) +
                   " bytes in a segment of its own");
        }
        return rows;
    }

    [[nodiscard]] std::uint64_t default_bytes() const {
        std::uint64_t budget =
            std::max<std::uint64_t>(128u << 20, times(8u << 20, shape_.sources_here));
        budget = std::min(budget, shape_.memory_left / 4);
        std::uint64_t bytes = kDefaultSegmentBytes;
        while (bytes > kSmallestDefaultSegment && times(lane_segments(), bytes) > budget)
            bytes /= 2;
        return bytes;
    }

    /// Largest multiple of `step` rows that a segment of `bytes` holds; 0 if not even `step`.
    [[nodiscard]] std::uint64_t fitting(std::uint64_t bytes, std::uint64_t step) const {
        std::uint64_t low = 0;
        std::uint64_t high = Ticket::kMaxRows / step;
        while (low < high) {
            std::uint64_t const middle = (low + high + 1) / 2;
            if (size_for(middle * step) <= bytes) {
                low = middle;
            } else {
                high = middle - 1;
            }
        }
        return low * step;
    }

    [[nodiscard]] std::uint64_t carry_bytes_in_all() const {
        std::uint64_t const text =
            text_per_row_ == 0 ? 0 : carry_text_bytes(plan_.text_bytes, shape_.lanes);
        return times(times(shape_.sources_here, plan_.max_groups),
                     segment_size(schema_, options_.layout, plan_.tile_rows, text));
    }

    void decide_tile() {
        plan_.max_groups = options_.max_groups != 0 ? options_.max_groups
                                                    : std::max(kLeastMaxGroups, 2 * shape_.cores);
        // Sorters are groups of their source, too.
        plan_.max_groups = std::max(plan_.max_groups, options_.sorters);
        if (options_.tile_rows > kMaxTileRows) {
            refuse("tile_rows " + std::to_string(options_.tile_rows) + " is more than " +
                   std::to_string(kMaxTileRows));
        }
        if (options_.tile_rows != 0) {
            plan_.tile_rows = options_.tile_rows;
            return;
        }
        std::uint64_t const wanted = std::clamp<std::uint64_t>(
            std::bit_ceil(std::min<std::uint64_t>(shape_.lanes, kMaxLanes) * kTileRowsPerLane),
            kDefaultTileRows, kMostDefaultTileRows);
        plan_.tile_rows =
            std::uint32_t(std::min(wanted, round_up(times(plan_.segment_rows, shape_.lanes), 64)));
        std::uint64_t const most = std::min(shape_.memory_left / 4, segment_bytes_in_all());
        while (plan_.tile_rows > 64 && carry_bytes_in_all() > most) {
            plan_.tile_rows = std::max(64u, plan_.tile_rows / 2);
        }
    }

    void decide_chunk() {
        auto const whole = std::uint32_t(round_up(plan_.segment_rows, 64));
        if (options_.chunk_rows > whole) {
            refuse("chunk_rows " + std::to_string(options_.chunk_rows) +
                   " is more than a segment's " + std::to_string(plan_.segment_rows) + " rows");
        }
        // An ordered segment has one consumer; a detached one leaves its slot as a whole.
        bool const undivided = options_.receive_limit != 0 && options_.chunk_rows == 0;
        if (options_.ordered || undivided) {
            plan_.chunk_rows = whole;
        } else if (options_.chunk_rows != 0) {
            plan_.chunk_rows = std::uint32_t(round_up(options_.chunk_rows, 64));
        } else {
            std::uint64_t const least =
                times(plan_.segment_rows, kSmallestDefaultChunk) / plan_.segment_bytes;
            std::uint64_t const part = std::max<std::uint64_t>((plan_.segment_rows + 3) / 4, least);
            plan_.chunk_rows = std::uint32_t(std::min<std::uint64_t>(round_up(part, 64), whole));
        }
    }

    Schema const& schema_;
    ChannelOptions const& options_;
    ChannelShape const& shape_;
    std::string const& who_;
    Plan& plan_;
    std::uint64_t text_per_row_ = 0;
    std::uint64_t least_text_ = 0;
    std::uint64_t most_text_ = 0;
};

}  // namespace

std::uint64_t segment_size(Schema const& schema, Layout layout, std::uint64_t rows,
                           std::uint64_t text_bytes) {
    std::uint64_t end = 0;
    if (layout == Layout::Rows) {
        end = schema.row_bytes() * rows;
    } else {
        std::uint64_t const bits = (rows + 63) / 64 * 8;
        for (Field const& field : schema.fields()) {
            if (field.type.id == TypeId::Bool) end += bits;
            if (field.nullable) end += bits;
        }
        for (Field const& field : schema.fields()) {
            if (field.type.id == TypeId::Bool) continue;
            end = round_up(end, kAlignment) + field.type.row_width() * rows;
        }
    }
    return round_up(round_up(end, kAlignment) + text_bytes, kAlignment);
}

std::uint64_t carry_text_bytes(std::uint64_t text_bytes, std::uint64_t lanes) noexcept {
    return text_bytes + (lanes << Ticket::unit_shift_of(text_bytes));
}

void decide_sizes(Schema const& schema, ChannelOptions const& options, ChannelShape const& shape,
                  std::string const& who, Plan& plan) {
    Sizing(schema, options, shape, who, plan).decide();
}

}  // namespace mgi::planner
