#include "memory/segment_layout.hpp"

#include <mgi/device/assert.hpp>
#include <mgi/error.hpp>

#include "core/key_kind.hpp"

namespace mgi::memory {

namespace {

constexpr std::uint64_t kAlignment = 64;  // a cache line; also what Arrow recommends

std::uint64_t aligned(std::uint64_t offset) {
    return (offset + kAlignment - 1) / kAlignment * kAlignment;
}

device::Storage storage_of(Type const& type) {
    if (type.is_variable()) return device::Storage::Views;
    return type.id == TypeId::Bool ? device::Storage::Bits : device::Storage::Fixed;
}

}  // namespace

ChannelLayout::ChannelLayout(Schema const& schema, Layout form, std::uint32_t rows,
                             std::uint32_t text_bytes)
    : columns_(schema.size()) {
    auto const row_offsets = schema.row_offsets();
    for (std::size_t c = 0; c < schema.size(); ++c) {
        columns_[c].storage = storage_of(schema[c].type);
        columns_[c].key = key_kind(schema[c].type);
        columns_[c].width = schema[c].type.row_width();
        columns_[c].row_offset = row_offsets[c];
        layout_.has_views |= columns_[c].storage == device::Storage::Views;
    }
    layout_.columns = columns_.data();
    layout_.column_count = static_cast<std::uint32_t>(columns_.size());
    layout_.rows = rows;
    if (!layout_.has_views) text_bytes = 0;  // hence lanes without long strings have no units
    layout_.unit_shift = device::Ticket::unit_shift_of(text_bytes);
    layout_.units = text_bytes >> layout_.unit_shift;
    layout_.row_bytes = schema.row_bytes();
    layout_.rows_together = form == Layout::Rows;
    std::uint64_t end = 0;
    if (layout_.rows_together) {
        place_rows(schema, end);
    } else {
        place_columns(schema, end);
    }
    layout_.bytes_offset = static_cast<std::uint32_t>(aligned(end));
    end = aligned(aligned(end) + text_bytes);
    if (end > UINT32_MAX) {
        throw Error(ErrorCode::InvalidArgument,
                    "a segment of " + std::to_string(rows) + " rows of (" + schema.to_string() +
                        ") would take " + std::to_string(end) +
                        " bytes, more than 4 GiB; choose fewer segment_rows");
    }
    layout_.size = static_cast<std::uint32_t>(end);
    MGI_ASSERT(layout_.bit_bytes <= layout_.bytes_offset &&
                   std::uint64_t{layout_.bytes_offset} + text_bytes <= layout_.size &&
                   layout_.size % kAlignment == 0,
               layout_.bit_bytes, layout_.bytes_offset, text_bytes, layout_.size);
}

void ChannelLayout::place_columns(Schema const& schema, std::uint64_t& end) {
    std::uint64_t const bit_region = (std::uint64_t{layout_.rows} + 63) / 64 * 8;
    for (std::size_t c = 0; c < columns_.size(); ++c) {
        if (columns_[c].storage == device::Storage::Bits) {
            columns_[c].offset = static_cast<std::uint32_t>(end);
            end += bit_region;
        }
        if (schema[c].nullable) {
            columns_[c].validity = static_cast<std::uint32_t>(end);
            end += bit_region;
        }
    }
    layout_.bit_bytes = static_cast<std::uint32_t>(end);
    for (auto& column : columns_) {
        if (column.storage == device::Storage::Bits) continue;
        end = aligned(end);
        column.offset = static_cast<std::uint32_t>(end);
        column.stride = column.width;
        end += std::uint64_t{column.width} * layout_.rows;
    }
}

void ChannelLayout::place_rows(Schema const& schema, std::uint64_t& end) {
    for (std::size_t c = 0; c < columns_.size(); ++c) {
        if (columns_[c].storage != device::Storage::Fixed || schema[c].nullable) {
            throw Error(ErrorCode::InvalidArgument,
                        "Layout::Rows holds fixed-width columns that are not nullable; column '" +
                            schema[c].name + "' is " + schema[c].type.to_string() +
                            (schema[c].nullable ? " and nullable" : "") + "; use Layout::Columns");
        }
        columns_[c].offset = columns_[c].row_offset;
        columns_[c].stride = layout_.row_bytes;
    }
    end = std::uint64_t{layout_.row_bytes} * layout_.rows;
}

}  // namespace mgi::memory
