// Tables in GPU memory: made of what others hold there, and shared with them. All through the driver, so that who has
// no nvcc has them, too.
#include <mgi/arrow_device_abi.hpp>
#include <mgi/error.hpp>
#include <mgi/gpu_table.hpp>

#include <chrono>
#include <string>
#include <thread>
#include <utility>

#include "core/arrow_format.hpp"
#include "gpu/memory.hpp"

namespace mgi {
namespace {

[[noreturn]] void refuse_column(std::string const& name, std::string const& what) {
    throw Error(ErrorCode::InvalidArgument, "column '" + name + "' " + what);
}

void check_encoding(std::string const& name, Type const& type, Encoding encoding) {
    bool const offsets = encoding == Encoding::Offsets32 || encoding == Encoding::Offsets64;
    if (type.is_variable() == offsets && (offsets || encoding == Encoding::Plain)) return;
    refuse_column(name,
                  "is " + type.to_string() + " as Arrow's views" +
                      (type.is_variable() ? ", which on a GPU it cannot be: cast it to one by "
                                            "offsets (string, large_string) first"
                                          : ""));
}

void check_values(std::string const& name, Type const& type, GpuColumn const& column,
                  std::int64_t rows) {
    if (rows == 0) return;
    if (column.values == nullptr) refuse_column(name, "has no values");
    std::uint32_t width = type.row_width();
    if (type.is_variable()) width = column.encoding == Encoding::Offsets32 ? 4 : 8;
    // Bytes may lie anywhere.
    if (type.id == TypeId::FixedSizeBinary) width = 1;
    if (width != 0 && reinterpret_cast<std::uintptr_t>(column.values) % width != 0) {
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

std::vector<arrow::ColumnFormat> take_formats(ArrowSchema* from) {
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
    std::vector<arrow::ColumnFormat> formats;
    for (std::int64_t i = 0; i < from->n_children; ++i) {
        formats.push_back(arrow::read_format(*from->children[i]));
        Field const& field = formats.back().field;
        if (formats.back().stored != arrow::Stored::AsTyped) {
            refuse_column(field.name, "is stored on the GPU as Arrow format '" +
                                          std::string(from->children[i]->format) +
                                          "', which is converted in the host's memory only: "
                                          "copy it there, or cast it first");
        }
        check_encoding(field.name, field.type, formats.back().encoding);
    }
    return formats;
}

GpuColumn column_in(arrow::ColumnFormat const& format, ArrowArray const& array, std::int64_t skip,
                    std::int64_t rows) {
    Field const& field = format.field;
    std::int64_t const buffers = field.type.is_variable() ? 3 : 2;
    if (array.dictionary != nullptr || array.n_buffers != buffers || array.buffers == nullptr) {
        refuse_column(field.name, "lies otherwise than its Arrow schema says");
    }
    if (array.offset < 0 || array.length - skip < rows) {
        refuse_column(field.name, "has " + std::to_string(array.length) +
                                      " rows where the batch has " + std::to_string(skip + rows));
    }
    GpuColumn column;
    column.values = array.buffers[1];
    column.encoding = format.encoding;
    if (buffers == 3) column.bytes = static_cast<std::byte const*>(array.buffers[2]);
    column.offset = array.offset + skip;
    if (array.null_count != 0) column.validity = static_cast<std::uint8_t const*>(array.buffers[0]);
    check_values(field.name, field.type, column, rows);
    return column;
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
        std::uint32_t width = schema[c].type.row_width();
        if (schema[c].type.is_variable())
            width = columns[c].encoding == Encoding::Offsets32 ? 4 : 8;
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
        table.columns.push_back(
            {column.values, column.validity, column.offset, column.encoding, column.bytes});
        // Where there are no rows it does not matter how they lie.
        if (rows != 0 || !column.type.is_variable()) {
            check_encoding(column.name, column.type, column.encoding);
        }
        check_values(column.name, column.type, table.columns.back(), rows);
        if (column.offset < 0) refuse_column(column.name, "begins before its memory");
        fields.push_back({column.name, column.type, column.validity != nullptr});
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
    std::vector<arrow::ColumnFormat> const formats = take_formats(schema);
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
    if (array.n_children != std::int64_t(formats.size())) {
        throw Error(ErrorCode::InvalidArgument,
                    "the Arrow device array has " + std::to_string(array.n_children) +
                        " columns, its schema has " + std::to_string(formats.size()));
    }
    std::vector<Field> fields;
    for (std::size_t c = 0; c < formats.size(); ++c) {
        fields.push_back(formats[c].field);
        table.columns.push_back(
            column_in(formats[c], *array.children[c], array.offset, array.length));
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

namespace {

// The column as it lies: what Arrow says of it beyond that stays where it agrees.
Field as_it_lies(Field field, Encoding encoding) {
    if (field.type.arrow == nullptr) return field;
    // Of a dictionary's values, which lie here.
    while (ArrowField const* const values = arrow::values_of(*field.type.arrow)) {
        field.type.arrow = std::make_shared<ArrowField const>(ArrowField(*values));
    }
    arrow::ColumnFormat const format = arrow::format_of(field);
    if (format.stored == arrow::Stored::Nested) {
        refuse_column(field.name, "is " + field.type.to_string() +
                                      ", which lies on the GPU in MGI's own bytes: copy the table "
                                      "to the host and export it there");
    }
    if (format.stored != arrow::Stored::AsTyped) {
        field.type.arrow = nullptr;
    } else if (format.encoding != encoding) {
        auto arrow = std::make_shared<ArrowField>(*field.type.arrow);
        arrow->format = arrow::format_of(field, encoding);
        field.type.arrow = std::move(arrow);
    }
    return field;
}

// For what only looks at addresses.
RecordBatch as_batch(GpuTable const& table) {
    RecordBatch batch;
    std::vector<Field> fields;
    batch.rows = table.rows;
    batch.owner = table.owner;
    for (GpuColumn const& column : table.columns) {
        Column same;
        same.values = column.values;
        same.validity = column.validity;
        same.offset = column.offset;
        same.encoding = column.encoding;
        // One that nobody has filled may lie anyhow.
        bool const texts = table.schema[batch.columns.size()].type.is_variable();
        if (texts && same.encoding == Encoding::Plain) same.encoding = Encoding::Offsets32;
        same.bytes = column.bytes;
        fields.push_back(as_it_lies(table.schema[batch.columns.size()], same.encoding));
        batch.columns.push_back(std::move(same));
    }
    batch.schema = Schema(std::move(fields));
    return batch;
}

}  // namespace

void export_gpu_table(GpuTable const& table, ArrowDeviceArray* out) {
    *out = {};
    export_batch(as_batch(table), &out->array);
    out->device_id = table.gpu;
    out->device_type = ARROW_DEVICE_CUDA;
}

void export_schema(GpuTable const& table, ArrowSchema* out) {
    export_schema(as_batch(table), out);
}

}  // namespace mgi
