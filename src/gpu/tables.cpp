// Tables in GPU memory: made of what others hold there, shared with them, and copied from and to the host. All
// through the driver, so that who has no nvcc has them, too.
#include <mgi/arrow_device_abi.hpp>
#include <mgi/error.hpp>
#include <mgi/gpu_table.hpp>

#include <algorithm>
#include <chrono>
#include <new>
#include <string>
#include <thread>
#include <utility>

#include "core/arrow_format.hpp"
#include "gpu/memory.hpp"

namespace mgi {
namespace {

constexpr std::size_t kAlignment = 64;  // of every column in memory of ours

[[noreturn]] void refuse_column(std::string const& name, std::string const& what) {
    throw Error(ErrorCode::InvalidArgument, "column '" + name + "' " + what);
}

void check_type(std::string const& name, Type const& type) {
    if (!type.is_variable()) return;
    refuse_column(name, "is " + type.to_string() +
                            ", which no column on a GPU can be; all types of fixed width can");
}

void check_values(std::string const& name, Type const& type, void const* values,
                  std::int64_t rows) {
    if (rows == 0) return;
    if (values == nullptr) refuse_column(name, "has no values");
    // Bytes may lie anywhere.
    std::uint32_t const width = type.id == TypeId::FixedSizeBinary ? 1 : type.row_width();
    if (width != 0 && reinterpret_cast<std::uintptr_t>(values) % width != 0) {
        refuse_column(name, "begins at an address that is no multiple of its width, " +
                                std::to_string(width) + " bytes: copy it first");
    }
}

/// Waits for a stream or an event, which `query` asks; never in a call that would hold up others.
template <class Query>
void poll(gpu::Driver const& driver, int gpu, char const* what, Query const& query) {
    for (int round = 0;; ++round) {
        gpu::Result const result = query();
        if (result == gpu::kSuccess) return;
        if (result != gpu::kNotReady) driver.check(result, what, gpu);
        if (round >= 64) std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
}

/// One of Arrow's arrays, taken over from the caller and released at the end.
struct TakenArray {
    explicit TakenArray(ArrowDeviceArray* from) : array(from->array) {
        from->array.release = nullptr;
    }
    ~TakenArray() {
        if (array.release != nullptr) array.release(&array);
    }
    TakenArray(TakenArray const&) = delete;
    TakenArray& operator=(TakenArray const&) = delete;
    ArrowArray array;
};

std::vector<Field> take_fields(ArrowSchema* from) {
    struct Release {
        ArrowSchema* schema;
        ~Release() {
            if (schema->release != nullptr) schema->release(schema);
        }
    } const release{from};
    if (from->format == nullptr || std::string(from->format) != "+s") {
        throw Error(ErrorCode::InvalidArgument,
                    "the Arrow device array is not a table; a struct of columns is needed");
    }
    std::vector<Field> fields;
    for (std::int64_t i = 0; i < from->n_children; ++i) {
        Field field = arrow::read_format(*from->children[i]).field;
        check_type(field.name, field.type);
        fields.push_back(std::move(field));
    }
    return fields;
}

GpuColumn column_in(Field const& field, ArrowArray const& array, std::int64_t skip,
                    std::int64_t rows) {
    if (array.dictionary != nullptr || array.n_buffers != 2 || array.buffers == nullptr) {
        refuse_column(field.name, "lies otherwise than its Arrow schema says");
    }
    if (array.offset < 0 || array.length - skip < rows) {
        refuse_column(field.name, "has " + std::to_string(array.length) +
                                      " rows where the batch has " + std::to_string(skip + rows));
    }
    GpuColumn column;
    column.values = array.buffers[1];
    column.offset = array.offset + skip;
    if (array.null_count != 0) column.validity = static_cast<std::uint8_t const*>(array.buffers[0]);
    check_values(field.name, field.type, column.values, rows);
    return column;
}

/// What of a column is copied, and where to in a block of memory. One offset counts in values and in bits, so
/// that the copy begins at the same bit of a byte as its source.
struct Placed {
    std::size_t values_from = 0;  ///< bytes behind the source's pointer
    std::size_t values_bytes = 0;
    std::size_t values_to = 0;
    std::size_t values_begin = 0;  ///< of the buffer that they are put into
    std::size_t validity_from = 0;
    std::size_t validity_bytes = 0;
    std::size_t validity_to = 0;
    std::int64_t offset = 0;  ///< of row 0 in the copy
};

/// Places columns behind each other in one block.
struct Blocks {
    std::size_t total = 0;

    std::size_t add(std::size_t bytes) {
        std::size_t const at = total;
        total += (bytes + kAlignment - 1) / kAlignment * kAlignment;
        return at;
    }
    Placed place(Type const& type, std::int64_t offset, std::int64_t rows, bool nullable) {
        std::size_t const width = type.row_width();
        std::size_t const first_bits = std::size_t(offset) / 8;
        std::size_t const bits = (std::size_t(offset) + std::size_t(rows) + 7) / 8 - first_bits;
        Placed placed;
        placed.offset = width == 0 || nullable ? offset % 8 : 0;
        std::size_t const gap = width * std::size_t(placed.offset);
        placed.values_from = width == 0 ? first_bits : std::size_t(offset) * width;
        placed.values_bytes = width == 0 ? bits : std::size_t(rows) * width;
        placed.values_begin = add(placed.values_bytes + gap);
        placed.values_to = placed.values_begin + gap;
        if (nullable) {
            placed.validity_from = first_bits;
            placed.validity_bytes = bits;
            placed.validity_to = add(bits);
        }
        return placed;
    }
};

template <class AnyTable>
std::vector<Placed> place_all(AnyTable const& table, Blocks& blocks) {
    std::vector<Placed> places;
    for (std::size_t c = 0; c < table.columns.size(); ++c) {
        check_type(table.schema[c].name, table.schema[c].type);
        auto const& column = table.columns[c];
        places.push_back(blocks.place(table.schema[c].type, column.offset, table.rows,
                                      column.validity != nullptr));
    }
    return places;
}

/// Calls `copy(driver, to, from, bytes, stream)` for each piece of memory, and waits for what it put into the stream.
template <class AnyTable, class Copy>
void copy_all(AnyTable const& table, std::vector<Placed> const& places, int gpu, char const* what,
              Copy const& copy) {
    gpu::Driver const& driver = gpu::Driver::get();
    gpu::OwnStream const stream(gpu);
    gpu::Current const here(driver, gpu);
    auto const piece = [&](std::size_t to, void const* source, std::size_t first,
                           std::size_t bytes) {
        if (bytes == 0) return;
        driver.check(
            copy(driver, to, static_cast<char const*>(source) + first, bytes, stream.get()), what,
            gpu);
    };
    for (std::size_t c = 0; c < table.columns.size(); ++c) {
        Placed const& at = places[c];
        piece(at.values_to, table.columns[c].values, at.values_from, at.values_bytes);
        piece(at.validity_to, table.columns[c].validity, at.validity_from, at.validity_bytes);
    }
    poll(driver, gpu, what, [&] { return driver.cuStreamQuery(stream.get()); });
}

std::shared_ptr<std::byte> host_block(std::size_t bytes) {
    constexpr std::align_val_t alignment{kAlignment};
    return {static_cast<std::byte*>(::operator new(std::max(bytes, kAlignment), alignment)),
            [](std::byte* at) { ::operator delete(at, std::align_val_t{kAlignment}); }};
}

}  // namespace

GpuTable GpuTable::slice(std::int64_t first, std::int64_t count) const {
    if (first < 0 || count < 0 || first > rows || count > rows - first) {
        throw Error(ErrorCode::InvalidArgument,
                    "rows [" + std::to_string(first) + ", " + std::to_string(first) + " + " +
                        std::to_string(count) + ") of a table of " + std::to_string(rows));
    }
    GpuTable part = *this;
    part.rows = count;
    for (GpuColumn& column : part.columns) column.offset += first;
    return part;
}

std::int64_t GpuTable::bytes() const {
    std::int64_t total = 0;
    for (std::size_t c = 0; c < columns.size(); ++c) {
        std::uint32_t const width = schema[c].type.row_width();
        total += width != 0 ? rows * std::int64_t(width) : (rows + 7) / 8;
        if (columns[c].validity != nullptr) total += (rows + 7) / 8;
    }
    return total;
}

GpuTable gpu_table(int gpu, std::int64_t rows, std::vector<GpuColumnSource> const& columns,
                   std::shared_ptr<void const> keep_alive) {
    GpuTable table;
    table.gpu = gpu;
    table.rows = rows;
    table.owner = std::move(keep_alive);
    if (rows < 0) {
        throw Error(ErrorCode::InvalidArgument, "a table of " + std::to_string(rows) + " rows");
    }
    std::vector<Field> fields;
    for (GpuColumnSource const& column : columns) {
        check_type(column.name, column.type);
        check_values(column.name, column.type, column.values, rows);
        if (column.offset < 0) refuse_column(column.name, "begins before its memory");
        fields.push_back({column.name, column.type, column.validity != nullptr});
        table.columns.push_back({column.values, column.validity, column.offset});
    }
    table.schema = Schema(std::move(fields));
    return table;
}

void wait_for_gpu_stream(int gpu, void* stream) {
    gpu::Driver const& driver = gpu::Driver::get();
    gpu::Current const here(driver, gpu);
    poll(driver, gpu, "wait for a stream",
         [&] { return driver.cuStreamQuery(static_cast<gpu::Stream>(stream)); });
}

GpuTable import_gpu_table(ArrowDeviceArray* from, ArrowSchema* schema) {
    auto const taken = std::make_shared<TakenArray>(from);
    std::vector<Field> fields = take_fields(schema);
    ArrowArray const& array = taken->array;
    if (array.release == nullptr) {
        throw Error(ErrorCode::InvalidArgument, "the Arrow device array was released already");
    }
    if (array.length < 0 || array.offset < 0 || array.null_count > 0) {
        throw Error(ErrorCode::InvalidArgument,
                    "the Arrow device array has rows that are null as a whole, or are not there");
    }
    if (from->device_type != ARROW_DEVICE_CUDA && from->device_type != ARROW_DEVICE_CUDA_MANAGED) {
        throw Error(ErrorCode::InvalidArgument, "the Arrow device array is on a device of type " +
                                                    std::to_string(from->device_type) +
                                                    ", which is no GPU's memory");
    }
    gpu::Driver const& driver = gpu::Driver::get();
    driver.check_gpu(from->device_id);
    GpuTable table;
    table.gpu = int(from->device_id);
    table.rows = array.length;
    if (array.n_children != std::int64_t(fields.size())) {
        throw Error(ErrorCode::InvalidArgument,
                    "the Arrow device array has " + std::to_string(array.n_children) +
                        " columns, its schema has " + std::to_string(fields.size()));
    }
    for (std::size_t c = 0; c < fields.size(); ++c) {
        table.columns.push_back(
            column_in(fields[c], *array.children[c], array.offset, array.length));
        fields[c].nullable = fields[c].nullable || table.columns[c].validity != nullptr;
    }
    table.schema = Schema(std::move(fields));
    if (from->sync_event != nullptr) {
        gpu::Current const here(driver, table.gpu);
        auto* const event = *static_cast<gpu::Event*>(from->sync_event);
        poll(driver, table.gpu, "wait for an Arrow device array",
             [&] { return driver.cuEventQuery(event); });
    }
    table.owner = taken;
    return table;
}

void export_gpu_table(GpuTable const& table, ArrowDeviceArray* out) {
    RecordBatch batch;
    batch.schema = table.schema;
    batch.rows = table.rows;
    batch.owner = table.owner;
    for (GpuColumn const& column : table.columns) {
        Column same;
        same.values = column.values;
        same.validity = column.validity;
        same.offset = column.offset;
        batch.columns.push_back(std::move(same));
    }
    *out = {};
    export_batch(batch, &out->array);
    out->device_id = table.gpu;
    out->device_type = ARROW_DEVICE_CUDA;
}

GpuTable copy_to_gpu(RecordBatch const& batch, int gpu) {
    Blocks blocks;
    std::vector<Placed> const places = place_all(batch, blocks);
    auto const memory = std::make_shared<gpu::DeviceMemory>(gpu, blocks.total + kAlignment);
    copy_all(batch, places, gpu, "copy a table to the GPU",
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
        table.columns.push_back({memory->data() + at.values_begin,
                                 at.validity_bytes == 0 ? nullptr
                                                        : reinterpret_cast<std::uint8_t const*>(
                                                              memory->data() + at.validity_to),
                                 at.offset});
    }
    table.owner = memory;
    return table;
}

RecordBatch copy_to_host(GpuTable const& table) {
    Blocks blocks;
    std::vector<Placed> const places = place_all(table, blocks);
    auto const memory = host_block(blocks.total);
    copy_all(table, places, table.gpu, "copy a table to the host",
             [&](gpu::Driver const& driver, std::size_t to, void const* from, std::size_t bytes,
                 gpu::Stream stream) {
                 return driver.cuMemcpyDtoHAsync(
                     memory.get() + to, reinterpret_cast<gpu::Address>(from), bytes, stream);
             });
    RecordBatch batch;
    batch.schema = table.schema;
    batch.rows = table.rows;
    for (Placed const& at : places) {
        Column column;
        column.values = memory.get() + at.values_begin;
        if (at.validity_bytes != 0) {
            column.validity = reinterpret_cast<std::uint8_t const*>(memory.get() + at.validity_to);
        }
        column.offset = at.offset;
        batch.columns.push_back(std::move(column));
    }
    batch.owner = memory;
    return batch;
}

}  // namespace mgi
