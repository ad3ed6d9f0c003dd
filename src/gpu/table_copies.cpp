// Tables copied between the host's memory and a GPU's.
#include <mgi/error.hpp>
#include <mgi/gpu_table.hpp>

#include <algorithm>
#include <cstring>
#include <limits>
#include <new>
#include <string>
#include <vector>

#include "gpu/memory.hpp"

namespace mgi {
namespace {

constexpr std::size_t kAlignment = 64;  // of every column in memory of ours

/// What of a column is copied, and where to in a block of memory. One offset counts in values and in bits, so
/// that the copy begins at the same bit of a byte as its source.
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

    template <class AnyColumn>
    Placed place(Values const& values, AnyColumn const& column, std::int64_t rows) {
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
template <class AnyColumn>
Values fixed_values(Type const& type, AnyColumn const& column) {
    std::size_t const width = type.row_width();
    return {static_cast<char const*>(column.values) + std::size_t(column.offset) * width, width};
}

/// Calls `copy(driver, to, from, bytes, stream)` for each piece of memory, and waits for what it put into the stream.
template <class Copy>
void copy_all(std::vector<Placed> const& places, int gpu, char const* what, Copy const& copy) {
    gpu::Driver const& driver = gpu::Driver::get();
    gpu::OwnStream const stream(gpu);
    gpu::Current const here(driver, gpu);
    auto const piece = [&](std::size_t to, void const* from, std::size_t bytes) {
        if (bytes == 0) return;
        driver.check(copy(driver, to, from, bytes, stream.get()), what, gpu);
    };
    for (Placed const& at : places) {
        piece(at.values_to, at.values_from, at.values_bytes);
        piece(at.validity_to, at.validity_from, at.validity_bytes);
        piece(at.text_to, at.text_from, at.text_bytes);
    }
    stream.wait(what);
}

std::shared_ptr<std::byte> host_block(std::size_t bytes) {
    constexpr std::align_val_t alignment{kAlignment};
    return {static_cast<std::byte*>(::operator new(std::max(bytes, kAlignment), alignment)),
            [](std::byte* at) { ::operator delete(at, std::align_val_t{kAlignment}); }};
}

/// A host's texts as they are copied to a GPU: by offsets that begin at 0.
struct HostTexts {
    std::vector<std::int32_t> narrow;
    std::vector<std::int64_t> wide;
    std::vector<char> characters;  ///< of views
    char const* begin = nullptr;
    std::size_t bytes = 0;

    HostTexts(RecordBatch const& batch, std::size_t c) {
        Column const& column = batch.columns[c];
        bool const views = column.encoding == Encoding::Views;
        wide.reserve(std::size_t(batch.rows) + 1);
        wide.push_back(0);
        for (std::int64_t row = 0; row < batch.rows; ++row) {
            std::string_view const text =
                batch.is_valid(c, row) || !views ? text_of(batch, c, row) : std::string_view();
            if (views) {
                characters.insert(characters.end(), text.begin(), text.end());
            } else if (row == 0) {
                begin = text.data();
            }
            wide.push_back(wide.back() + std::int64_t(text.size()));
        }
        if (views) begin = characters.data();
        bytes = std::size_t(wide.back());
        // Large ones stay so.
        bool const fits = bytes <= std::size_t(std::numeric_limits<std::int32_t>::max());
        if (column.encoding == Encoding::Offsets64 || !fits) return;
        narrow.assign(wide.begin(), wide.end());
        wide.clear();
    }
    [[nodiscard]] Values values() const {
        if (!narrow.empty()) return {narrow.data(), 4, 1, begin, bytes, Encoding::Offsets32};
        return {wide.data(), 8, 1, begin, bytes, Encoding::Offsets64};
    }

private:
    /// Also of a null, whose characters others lie behind.
    static std::string_view text_of(RecordBatch const& batch, std::size_t c, std::int64_t row) {
        Column const& column = batch.columns[c];
        auto const between = [&](auto const* offsets) {
            auto const* const at = offsets + column.offset + row;
            return std::string_view(reinterpret_cast<char const*>(column.bytes) + at[0],
                                    std::size_t(at[1] - at[0]));
        };
        if (column.encoding == Encoding::Views) return batch.string_at(c, row);
        if (column.encoding == Encoding::Offsets32) {
            return between(static_cast<std::int32_t const*>(column.values));
        }
        return between(static_cast<std::int64_t const*>(column.values));
    }
};

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
    gpu::Driver const& driver = gpu::Driver::get();
    gpu::OwnStream const stream(table.gpu);
    gpu::Current const here(driver, table.gpu);
    std::vector<char> ends(table.columns.size() * 16);
    for (std::size_t c = 0; c < table.columns.size(); ++c) {
        if (!table.schema[c].type.is_variable()) continue;
        GpuColumn const& column = table.columns[c];
        std::size_t const width = offset_width(column);
        auto const* const at =
            static_cast<char const*>(column.values) + std::size_t(column.offset) * width;
        for (std::size_t end : {0, 1}) {
            driver.check(driver.cuMemcpyDtoHAsync(&ends[16 * c + 8 * end],
                                                  reinterpret_cast<gpu::Address>(at) +
                                                      end * std::size_t(table.rows) * width,
                                                  width, stream.get()),
                         "copy a table to the host", table.gpu);
        }
    }
    stream.wait("copy a table to the host");
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
    std::vector<HostTexts> texts;
    texts.reserve(batch.columns.size());  // what is placed points into it
    Blocks blocks;
    std::vector<Placed> places;
    for (std::size_t c = 0; c < batch.columns.size(); ++c) {
        Type const& type = batch.schema[c].type;
        Column const& column = batch.columns[c];
        if (type.is_variable()) texts.emplace_back(batch, c);
        places.push_back(
            blocks.place(type.is_variable() ? texts.back().values() : fixed_values(type, column),
                         column, batch.rows));
    }
    auto const memory = std::make_shared<gpu::DeviceMemory>(gpu, blocks.total() + kAlignment);
    copy_all(places, gpu, "copy a table to the GPU",
             [&](gpu::Driver const& driver, std::size_t to, void const* from, std::size_t bytes,
                 gpu::Stream stream) {
                 auto const at = reinterpret_cast<gpu::Address>(memory->data() + to);
                 return driver.cuMemcpyHtoDAsync(at, from, bytes, stream);
             });
    GpuTable table;
    table.schema = batch.schema;
    table.rows = batch.rows;
    table.gpu = gpu;
    for (Placed const& at : places) {
        GpuColumn column;
        column.values = memory->data() + at.values_begin;
        if (at.validity_bytes != 0) {
            column.validity =
                reinterpret_cast<std::uint8_t const*>(memory->data() + at.validity_to);
        }
        column.offset = at.offset;
        column.encoding = at.encoding;
        if (at.encoding != Encoding::Plain) {
            column.bytes = reinterpret_cast<std::byte const*>(memory->data() + at.text_to);
        }
        table.columns.push_back(column);
    }
    table.owner = memory;
    return table;
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
    copy_all(places, table.gpu, "copy a table to the host",
             [&](gpu::Driver const& driver, std::size_t to, void const* from, std::size_t bytes,
                 gpu::Stream stream) {
                 return driver.cuMemcpyDtoHAsync(
                     memory.get() + to, reinterpret_cast<gpu::Address>(from), bytes, stream);
             });
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
            if (table.rows != 0) rebase(memory.get() + at.values_to, table.rows, texts[c].first);
        }
        batch.columns.push_back(std::move(column));
    }
    batch.owner = memory;
    return batch;
}

}  // namespace mgi
