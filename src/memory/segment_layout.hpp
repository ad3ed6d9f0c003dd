// Where a schema's columns lie in a segment.
#pragma once

#include <cstdint>
#include <vector>

#include <mgi/channel.hpp>
#include <mgi/device/layout.hpp>
#include <mgi/schema.hpp>

namespace mgi::memory {

// A layout and the columns it points to. Not copyable: device code holds the pointer.
class ChannelLayout {
public:
    // Segments of `rows` rows with `text_bytes` (whole units) for the characters of long strings.
    ChannelLayout(Schema const& schema, Layout form, std::uint32_t rows, std::uint32_t text_bytes);
    ChannelLayout(ChannelLayout const&) = delete;
    ChannelLayout& operator=(ChannelLayout const&) = delete;

    [[nodiscard]] device::SegmentLayout const& get() const { return layout_; }

private:
    void place_columns(Schema const& schema, std::uint64_t& end);
    void place_rows(Schema const& schema, std::uint64_t& end);

    std::vector<device::ColumnLayout> columns_;
    device::SegmentLayout layout_;
};

// A run of bytes at the same place in two segments.
struct Range {
    std::uint32_t offset = 0;
    std::uint32_t bytes = 0;
};

// What of a segment holds data when `rows` rows and `units` of text are in it.
void used_ranges(device::SegmentLayout const& layout, std::uint32_t rows, std::uint32_t units,
                 std::vector<Range>& out);

// What of a segment with columns apart the rows [first, first + rows) need; `first` is a multiple of
// 64. Text lies in no order, so all of it.
void chunk_ranges(device::SegmentLayout const& layout, std::uint32_t first, std::uint32_t rows,
                  std::uint32_t units, std::vector<Range>& out);

}  // namespace mgi::memory
