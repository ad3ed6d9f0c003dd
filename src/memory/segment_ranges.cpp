#include "memory/segment_layout.hpp"

#include <mgi/device/lane.hpp>

namespace mgi::memory {

void used_ranges(device::SegmentLayout const& layout, std::uint32_t rows, std::uint32_t units,
                 std::vector<Range>& out) {
    MGI_ASSERT(rows <= layout.rows && units <= layout.units, rows, layout.rows, units,
               layout.units);
    out.clear();
    if (rows == 0) return;
    if (layout.rows_together) {
        out.push_back(
            {layout.columns[0].offset - layout.columns[0].row_offset, rows * layout.row_bytes});
        return;
    }
    chunk_ranges(layout, 0, rows, units, out);
}

void chunk_ranges(device::SegmentLayout const& layout, std::uint32_t first, std::uint32_t rows,
                  std::uint32_t units, std::vector<Range>& out) {
    MGI_ASSERT(std::uint64_t{first} + rows <= layout.rows && units <= layout.units, first, rows,
               layout.rows, units, layout.units);
    out.clear();
    if (layout.bit_bytes != 0) out.push_back({0, layout.bit_bytes});
    for (std::uint32_t c = 0; c < layout.column_count; ++c) {
        auto const& column = layout.columns[c];
        if (column.storage == device::Storage::Bits) continue;
        out.push_back({column.offset + first * column.width, rows * column.width});
    }
    if (units != 0) out.push_back({layout.bytes_offset, std::uint32_t(layout.bytes_of(units))});
}

}  // namespace mgi::memory
