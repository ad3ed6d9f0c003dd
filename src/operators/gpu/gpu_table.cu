// Tables in GPU memory, shared with other libraries.
#include <cuda_runtime.h>

#include <mgi/arrow_device_abi.hpp>
#include <mgi/gpu_table.hpp>

#include "operators/gpu/gpu_place.hpp"
#include "operators/gpu/tables.hpp"

namespace mgi {

namespace on_gpu = operators::on_gpu;

namespace {

using on_gpu::check_cuda;
using on_gpu::refuse;

// An Arrow array whose memory a table uses, released at the end.
struct OwnedArray {
    explicit OwnedArray(ArrowDeviceArray* from) : array(*from) { from->array.release = nullptr; }
    ~OwnedArray() {
        if (array.array.release != nullptr) array.array.release(&array.array);
    }
    OwnedArray(OwnedArray const&) = delete;
    OwnedArray& operator=(OwnedArray const&) = delete;
    ArrowDeviceArray array;
};

std::uint64_t bytes_of_rows(Type const& type, std::int64_t rows) {
    auto const count = std::uint64_t(rows);
    return type.id == TypeId::Bool ? (count + 7) / 8 : count * type.row_width();
}

// Validity that says nothing is left out, so that nobody reads it.
std::uint8_t const* validity_of(ArrowArray const& column) {
    if (column.null_count == 0) return nullptr;
    return static_cast<std::uint8_t const*>(column.buffers[0]);
}

GpuColumn column_of(Field const& field, ArrowArray const& column, std::int64_t first,
                    std::int64_t rows) {
    std::string const name = "column '" + field.name + "'";
    // Before its buffers are looked at: a type that is not supported has others.
    on_gpu::check_column("import_gpu_table", field, {}, 0);
    if (column.n_buffers != 2 || column.buffers == nullptr || column.dictionary != nullptr) {
        refuse("import_gpu_table", name + " is no plain " + field.type.to_string() + " array");
    }
    if (column.offset < 0 || column.length - first < rows) {
        refuse("import_gpu_table", name + " has " + std::to_string(column.length) +
                                       " rows, its table has " + std::to_string(first + rows));
    }
    GpuColumn result{column.buffers[1], validity_of(column), column.offset + first};
    on_gpu::check_column("import_gpu_table", field, result, rows);
    return result;
}

// Private data of an exported table or column. A consumer may move a column out and release it later than
// the table, so each keeps the memory alive by itself.
struct ExportHolder {
    std::shared_ptr<void const> owner;
    void const* buffers[2] = {};
    std::vector<ArrowArray> columns;
    std::vector<ArrowArray*> children;

    ~ExportHolder() {
        for (ArrowArray& column : columns) {
            if (column.release != nullptr) column.release(&column);
        }
    }
};

void release_export(ArrowArray* array) {
    delete static_cast<ExportHolder*>(array->private_data);
    array->private_data = nullptr;
    array->release = nullptr;
}

ArrowArray seal(std::unique_ptr<ExportHolder> holder, std::int64_t rows, std::int64_t buffers) {
    ArrowArray array = {};
    array.length = rows;
    array.n_buffers = buffers;
    array.buffers = holder->buffers;
    array.n_children = std::int64_t(holder->children.size());
    array.children = holder->children.data();
    array.release = release_export;
    array.private_data = holder.release();
    return array;
}

}  // namespace

GpuTable GpuTable::slice(std::int64_t first, std::int64_t count) const {
    if (first < 0 || count < 0 || first > rows || count > rows - first) {
        refuse("slice", "rows [" + std::to_string(first) + ", " + std::to_string(first) + " + " +
                            std::to_string(count) + ") of " + std::to_string(rows));
    }
    GpuTable part = *this;
    part.rows = count;
    for (GpuColumn& column : part.columns) column.offset += first;
    return part;
}

std::int64_t GpuTable::bytes() const {
    std::uint64_t sum = 0;
    for (std::size_t c = 0; c < columns.size(); ++c) {
        sum += bytes_of_rows(schema[c].type, rows);
        if (columns[c].validity != nullptr) sum += bytes_of_rows(boolean(), rows);
    }
    return std::int64_t(sum);
}

GpuTable gpu_table(int gpu, std::int64_t rows, std::vector<GpuColumnSource> const& columns,
                   std::shared_ptr<void const> keep_alive) {
    GpuTable table;
    std::vector<Field> fields;
    for (GpuColumnSource const& column : columns) {
        fields.push_back({column.name, column.type, column.validity != nullptr});
        table.columns.push_back({column.values, column.validity, column.offset});
        on_gpu::check_column("gpu_table", fields.back(), table.columns.back(), rows);
        if (rows < 0 || column.offset < 0) {
            refuse("gpu_table", "column '" + column.name + "' has a negative offset or length");
        }
    }
    table.schema = Schema(std::move(fields));
    table.rows = rows;
    table.gpu = gpu;
    table.owner = std::move(keep_alive);
    return table;
}

void wait_for_gpu_stream(int gpu, void* stream) {
    GpuOfThread const here(gpu);
    check_cuda(cudaStreamSynchronize(static_cast<cudaStream_t>(stream)), gpu, "wait for a stream");
}

GpuTable import_gpu_table(ArrowDeviceArray* array, ArrowSchema* schema) {
    if (array == nullptr || array->array.release == nullptr) {
        if (schema != nullptr && schema->release != nullptr) schema->release(schema);
        refuse("import_gpu_table", "the Arrow array was released already");
    }
    auto const owned = std::make_shared<OwnedArray>(array);
    ArrowDeviceArray const& from = owned->array;
    GpuTable table;
    table.schema = import_schema(schema);
    if (from.device_type != ARROW_DEVICE_CUDA && from.device_type != ARROW_DEVICE_CUDA_MANAGED) {
        refuse("import_gpu_table", "the array is in memory of device type " +
                                       std::to_string(from.device_type) +
                                       ", not of a CUDA device (2); copy it there first");
    }
    table.gpu = int(from.device_id);
    table.rows = from.array.length;
    if (from.array.n_children != std::int64_t(table.schema.size()) || from.array.length < 0 ||
        from.array.offset < 0) {
        refuse("import_gpu_table", "the array does not fit its schema " + table.schema.to_string());
    }
    if (from.array.null_count > 0) {
        refuse("import_gpu_table", "rows of the array are null as a whole; only columns can be");
    }
    GpuOfThread const here(table.gpu);
    if (from.sync_event != nullptr) {
        check_cuda(cudaEventSynchronize(*static_cast<cudaEvent_t*>(from.sync_event)), table.gpu,
                   "wait for the array's event");
    }
    for (std::size_t c = 0; c < table.schema.size(); ++c) {
        table.columns.push_back(
            column_of(table.schema[c], *from.array.children[c], from.array.offset, table.rows));
    }
    table.owner = owned;
    return table;
}

void export_gpu_table(GpuTable const& table, ArrowDeviceArray* out) {
    auto holder = std::make_unique<ExportHolder>();
    holder->columns.resize(table.columns.size());
    for (ArrowArray& column : holder->columns) holder->children.push_back(&column);
    for (std::size_t c = 0; c < table.columns.size(); ++c) {
        auto column = std::make_unique<ExportHolder>();
        column->owner = table.owner;
        column->buffers[0] = table.columns[c].validity;
        column->buffers[1] = table.columns[c].values;
        holder->columns[c] = seal(std::move(column), table.rows, 2);
        holder->columns[c].offset = table.columns[c].offset;
        holder->columns[c].null_count = table.columns[c].validity == nullptr ? 0 : -1;
    }
    holder->owner = table.owner;
    *out = {};
    out->array = seal(std::move(holder), table.rows, 1);
    out->device_id = table.gpu;
    out->device_type = ARROW_DEVICE_CUDA;
}

GpuTable copy_to_gpu(RecordBatch const& batch, int gpu) {
    std::vector<bool> nulls;
    GpuTable table;
    table.schema = batch.schema;
    table.rows = batch.rows;
    table.gpu = gpu;
    auto const place = on_gpu::gpu_place(gpu, 0);
    auto keep = std::make_shared<std::vector<on_gpu::Memory>>();
    for (std::size_t c = 0; c < batch.columns.size(); ++c) {
        Field const& field = batch.schema[c];
        Column const& from = batch.columns[c];
        on_gpu::check_column("copy_to_gpu", field, {}, 0);
        // Bits begin within a byte: whole bytes are copied, from that one on.
        bool const bits = field.type.id == TypeId::Bool;
        std::int64_t const start = from.offset - from.offset % 8;
        std::int64_t const rows = from.offset - start + batch.rows;
        auto const bring = [&](void const* at, Type const& type) {
            std::uint64_t const bytes = bytes_of_rows(type, rows);
            keep->push_back(place->allocate(bytes + 8, "a column", true));
            place->copy_in(keep->back().get(),
                           static_cast<char const*>(at) + bytes_of_rows(type, start), bytes);
            return keep->back().get();
        };
        GpuColumn column;
        column.offset = from.offset - start;
        if (batch.rows != 0) {
            column.values = bring(from.values, bits ? boolean() : field.type);
            if (from.validity != nullptr) {
                column.validity = static_cast<std::uint8_t const*>(bring(from.validity, boolean()));
            }
        }
        table.columns.push_back(column);
    }
    place->wait();
    table.owner = keep;
    return table;
}

RecordBatch copy_to_host(GpuTable const& table) {
    RecordBatch batch;
    batch.schema = table.schema;
    batch.rows = table.rows;
    auto const place = on_gpu::gpu_place(table.gpu, 0);
    auto keep = std::make_shared<std::vector<std::vector<std::uint64_t>>>();
    for (std::size_t c = 0; c < table.columns.size(); ++c) {
        GpuColumn const& from = table.columns[c];
        std::int64_t const start = from.offset - from.offset % 8;
        std::int64_t const rows = from.offset - start + table.rows;
        auto const bring = [&](void const* at, Type const& type) {
            std::uint64_t const bytes = bytes_of_rows(type, rows);
            keep->emplace_back(bytes / 8 + 2);
            place->copy_out(keep->back().data(),
                            static_cast<char const*>(at) + bytes_of_rows(type, start), bytes);
            return keep->back().data();
        };
        Column column;
        column.offset = from.offset - start;
        bool const some = table.rows != 0;
        column.values = some ? bring(from.values, table.schema[c].type) : nullptr;
        if (some && from.validity != nullptr) {
            column.validity =
                reinterpret_cast<std::uint8_t const*>(bring(from.validity, boolean()));
        }
        batch.columns.push_back(column);
    }
    batch.owner = keep;
    return batch;
}

}  // namespace mgi
