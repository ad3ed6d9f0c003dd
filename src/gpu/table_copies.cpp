// Tables copied between the host's memory and a GPU's.
#include <mgi/error.hpp>
#include <mgi/gpu_copies.hpp>
#include <mgi/gpu_table.hpp>

#include <algorithm>
#include <cstring>
#include <new>
#include <string>
#include <vector>

#include "core/block_cache.hpp"
#include "gpu/memory.hpp"
#include "gpu/pinned_copies.hpp"

namespace mgi {
namespace {

constexpr std::size_t kAlignment = 64;  // of every column in memory of ours

/// What of a column is copied to the host, and where to in a block of memory. One offset counts in values and in bits,
/// so that the copy begins at the same bit of a byte as its source.
struct Placed {
    void const* values_from = nullptr;
    std::size_t values_bytes = 0;
    std::size_t values_to = 0;
    std::size_t values_begin = 0;  ///< of the buffer that they are put into
    void const* validity_from = nullptr;
    std::size_t validity_bytes = 0;
    std::size_t validity_to = 0;
    void const* text_from = nullptr;  ///< characters
    std::size_t text_bytes = 0;
    std::size_t text_to = 0;
    std::int64_t offset = 0;  ///< of row 0 in the copy
    Encoding encoding = Encoding::Plain;
};

/// Where a column's values begin, how wide they are, and its characters.
struct Values {
    void const* from = nullptr;  ///< of row 0
    std::size_t width = 0;       ///< of offsets: theirs; 0: bits
    std::size_t more = 0;        ///< values behind the last row
    void const* text = nullptr;
    std::size_t text_bytes = 0;
    Encoding encoding = Encoding::Plain;
};

/// Places columns behind each other in one block.
class Blocks {
public:
    [[nodiscard]] std::size_t total() const { return total_; }

    Placed place(Values const& values, GpuColumn const& column, std::int64_t rows) {
        bool const nullable = column.validity != nullptr;
        std::size_t const first_bits = std::size_t(column.offset) / 8;
        std::size_t const bits =
            (std::size_t(column.offset) + std::size_t(rows) + 7) / 8 - first_bits;
        bool const is_bits = values.width == 0;
        Placed placed;
        placed.encoding = values.encoding;
        placed.offset = is_bits || nullable ? column.offset % 8 : 0;
        std::size_t const gap = values.width * std::size_t(placed.offset);
        placed.values_from =
            is_bits ? static_cast<char const*>(values.from) + first_bits : values.from;
        placed.values_bytes = is_bits ? bits : (std::size_t(rows) + values.more) * values.width;
        placed.values_begin = add(placed.values_bytes + gap);
        placed.values_to = placed.values_begin + gap;
        if (nullable) {
            placed.validity_from = column.validity + first_bits;
            placed.validity_bytes = bits;
            placed.validity_to = add(bits);
        }
        placed.text_from = values.text;
        placed.text_bytes = values.text_bytes;
        placed.text_to = add(values.text_bytes);
        return placed;
    }

private:
    std::size_t add(std::size_t bytes) {
        std::size_t const at = total_;
        total_ += (bytes + kAlignment - 1) / kAlignment * kAlignment;
        return at;
    }
    std::size_t total_ = 0;
};

/// Of a column of fixed width.
Values fixed_values(Type const& type, GpuColumn const& column) {
    std::size_t const width = type.row_width();
    return {static_cast<char const*>(column.values) + std::size_t(column.offset) * width, width};
}

/// Large ones in huge pages: to get each of the small ones for the first time takes longer than to copy it.
std::shared_ptr<std::byte> host_block(std::size_t bytes) {
    if (bytes >= BlockCache::kHugePage / 2) {
        BlockCache::Block block = BlockCache::shared().take(bytes);
        if (block.data == nullptr) throw std::bad_alloc();
        block.used = block.bytes;
        return {reinterpret_cast<std::byte*>(block.data),
                [block](std::byte*) { BlockCache::shared().give(block); }};
    }
    constexpr std::align_val_t alignment{kAlignment};
    return {static_cast<std::byte*>(::operator new(std::max(bytes, kAlignment), alignment)),
            [](std::byte* at) { ::operator delete(at, std::align_val_t{kAlignment}); }};
}

std::size_t offset_width(GpuColumn const& column) {
    return column.encoding == Encoding::Offsets32 ? 4 : 8;
}

/// What a GPU's texts are: their first and last offset.
struct GpuTexts {
    std::int64_t first = 0;
    std::int64_t last = 0;
};

std::int64_t read_offset(void const* from, std::size_t width) {
    if (width == 8) {
        std::int64_t value = 0;
        std::memcpy(&value, from, width);
        return value;
    }
    std::int32_t value = 0;
    std::memcpy(&value, from, width);
    return value;
}

std::vector<GpuTexts> texts_of(GpuTable const& table) {
    std::vector<GpuTexts> texts(table.columns.size());
    if (table.rows == 0) return texts;
    std::vector<char> ends(table.columns.size() * 16);
    std::vector<gpu::Reading> readings;
    for (std::size_t c = 0; c < table.columns.size(); ++c) {
        if (!table.schema[c].type.is_variable()) continue;
        GpuColumn const& column = table.columns[c];
        std::size_t const width = offset_width(column);
        auto const* const at =
            static_cast<char const*>(column.values) + std::size_t(column.offset) * width;
        readings.push_back({&ends[16 * c], at, width});
        readings.push_back({&ends[16 * c + 8], at + std::size_t(table.rows) * width, width});
    }
    gpu::read_pieces(table.gpu, readings);
    for (std::size_t c = 0; c < table.columns.size(); ++c) {
        if (!table.schema[c].type.is_variable()) continue;
        std::size_t const width = offset_width(table.columns[c]);
        texts[c] = {read_offset(&ends[16 * c], width), read_offset(&ends[16 * c + 8], width)};
    }
    return texts;
}

template <class T>
void begin_at_zero(std::byte* offsets, std::int64_t rows, std::int64_t first) {
    T* const at = reinterpret_cast<T*>(offsets);
    for (std::int64_t row = 0; row <= rows; ++row) at[row] = T(at[row] - first);
}

}  // namespace

GpuTable copy_to_gpu(RecordBatch const& batch, int gpu) {
    return copy_to_gpu(Table{batch.schema, {batch}}, gpu);
}

GpuTable copy_to_gpu(Table const& table, int gpu) {
    std::vector<HostRows> rows;
    std::vector<Field> fields = table.schema.fields();
    if (fields.empty() && !table.batches.empty()) fields = table.batches[0].schema.fields();
    for (RecordBatch const& batch : table.batches) {
        if (!Schema(fields).holds(batch.schema)) {
            throw Error(ErrorCode::InvalidArgument,
                        "copy a table to the GPU: a batch has columns " + batch.schema.to_string() +
                            ", others have " + Schema(fields).to_string());
        }
        for (std::size_t c = 0; c < fields.size(); ++c) {
            bool const bits = c < batch.columns.size() && batch.columns[c].validity != nullptr;
            fields[c].nullable = fields[c].nullable || batch.schema[c].nullable || bits;
        }
        rows.push_back({&batch, 0, batch.rows, nullptr});
    }
    CopyToGpu const copy(Schema(fields), std::move(rows));
    auto const memory = std::make_shared<gpu::DeviceMemory>(gpu, copy.bytes() + kAlignment);
    return copy.copy(gpu, std::shared_ptr<void>(memory, memory->data()));
}

RecordBatch copy_to_host(GpuTable const& table) {
    std::vector<GpuTexts> const texts = texts_of(table);
    Blocks blocks;
    std::vector<Placed> places;
    for (std::size_t c = 0; c < table.columns.size(); ++c) {
        Type const& type = table.schema[c].type;
        GpuColumn const& column = table.columns[c];
        Values values = fixed_values(type, column);
        if (type.is_variable()) {
            std::size_t const width = offset_width(column);
            values = {static_cast<char const*>(column.values) + std::size_t(column.offset) * width,
                      width,
                      std::size_t(table.rows != 0 ? 1 : 0),
                      column.bytes + texts[c].first,
                      std::size_t(texts[c].last - texts[c].first),
                      width == 4 ? Encoding::Offsets32 : Encoding::Offsets64};
        }
        places.push_back(blocks.place(values, column, table.rows));
    }
    auto const memory = host_block(blocks.total());
    std::vector<gpu::Reading> readings;
    auto const read = [&](std::size_t to, void const* from, std::size_t bytes) {
        readings.push_back({reinterpret_cast<char*>(memory.get() + to), from, bytes});
    };
    for (Placed const& at : places) {
        read(at.values_to, at.values_from, at.values_bytes);
        read(at.validity_to, at.validity_from, at.validity_bytes);
        read(at.text_to, at.text_from, at.text_bytes);
    }
    gpu::read_pieces(table.gpu, readings);
    RecordBatch batch;
    batch.schema = table.schema;
    batch.rows = table.rows;
    for (std::size_t c = 0; c < places.size(); ++c) {
        Placed const& at = places[c];
        Column column;
        column.values = memory.get() + at.values_begin;
        if (at.validity_bytes != 0) {
            column.validity = reinterpret_cast<std::uint8_t const*>(memory.get() + at.validity_to);
        }
        column.offset = at.offset;
        column.encoding = at.encoding;
        if (at.encoding != Encoding::Plain) {
            column.bytes = memory.get() + at.text_to;
            if (table.rows == 0) column.values = nullptr;
            auto const rebase = at.encoding == Encoding::Offsets32 ? begin_at_zero<std::int32_t>
                                                                   : begin_at_zero<std::int64_t>;
            bool const moved = table.rows != 0 && texts[c].first != 0;
            if (moved) rebase(memory.get() + at.values_to, table.rows, texts[c].first);
        }
        batch.columns.push_back(std::move(column));
    }
    batch.owner = memory;
    return batch;
}

}  // namespace mgi
