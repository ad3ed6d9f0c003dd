#include <memory>
#include <string>
#include <utility>

#include <mgi/arrow_abi.hpp>
#include <mgi/batch.hpp>
#include <mgi/error.hpp>

#include "core/arrow_format.hpp"

namespace mgi {
namespace {

/// Private data of an exported schema or column of one.
struct SchemaHolder {
    std::string format;
    std::string name;
    std::vector<ArrowSchema> child_structs;
    std::vector<ArrowSchema*> children;

    ~SchemaHolder() {
        for (ArrowSchema& child : child_structs) {
            if (child.release != nullptr) child.release(&child);
        }
    }
};

/// Private data of an exported batch or column. A consumer may move a column out and release it
/// later than the batch, so each keeps the memory alive by itself.
struct ArrayHolder {
    std::shared_ptr<void const> owner;
    std::vector<void const*> buffers;
    std::vector<std::int64_t> sizes;
    std::vector<ArrowArray> child_structs;
    std::vector<ArrowArray*> children;

    ~ArrayHolder() {
        for (ArrowArray& child : child_structs) {
            if (child.release != nullptr) child.release(&child);
        }
    }
};

template <class Struct, class Holder>
void release(Struct* released) {
    delete static_cast<Holder*>(released->private_data);
    released->private_data = nullptr;
    released->release = nullptr;
}

/// Lays out room for children, all of them released until they are filled in.
template <class Holder>
void make_children(Holder& holder, std::size_t count) {
    holder.child_structs.resize(count);
    for (auto& child : holder.child_structs) holder.children.push_back(&child);
}

ArrowSchema seal(std::unique_ptr<SchemaHolder> holder, bool nullable) {
    ArrowSchema schema{};
    schema.format = holder->format.c_str();
    schema.name = holder->name.c_str();
    schema.flags = nullable ? ARROW_FLAG_NULLABLE : 0;
    schema.n_children = std::int64_t(holder->children.size());
    schema.children = holder->children.data();
    schema.release = &release<ArrowSchema, SchemaHolder>;
    schema.private_data = holder.release();
    return schema;
}

ArrowArray seal(std::unique_ptr<ArrayHolder> holder) {
    ArrowArray array{};
    array.n_buffers = std::int64_t(holder->buffers.size());
    array.buffers = holder->buffers.data();
    array.n_children = std::int64_t(holder->children.size());
    array.children = holder->children.data();
    array.release = &release<ArrowArray, ArrayHolder>;
    array.private_data = holder.release();
    return array;
}

/// Offsets of no strings: Arrow wants one even of an empty column.
constexpr std::int64_t kNoOffsets[1] = {0};
constexpr std::byte kNoBytes[8] = {};

ArrowArray export_column(RecordBatch const& batch, std::size_t c) {
    Column const& column = batch.columns[c];
    auto holder = std::make_unique<ArrayHolder>();
    holder->owner = batch.owner;
    bool const absent = batch.rows == 0 && column.values == nullptr;
    bool const offsets =
        column.encoding == Encoding::Offsets32 || column.encoding == Encoding::Offsets64;
    holder->buffers.push_back(column.validity);
    if (absent) {
        holder->buffers.push_back(offsets ? static_cast<void const*>(kNoOffsets) : kNoBytes);
    } else {
        holder->buffers.push_back(column.values);
    }
    if (offsets) holder->buffers.push_back(column.bytes != nullptr ? column.bytes : kNoBytes);
    if (column.encoding == Encoding::Views) {
        holder->buffers.insert(holder->buffers.end(), column.buffers.begin(), column.buffers.end());
        holder->sizes = column.buffer_sizes;
        holder->buffers.push_back(holder->sizes.empty() ? kNoOffsets : holder->sizes.data());
    }
    ArrowArray array = seal(std::move(holder));
    array.length = batch.rows;
    array.offset = absent ? 0 : column.offset;
    array.null_count = column.validity == nullptr ? 0 : -1;
    return array;
}

void check(RecordBatch const& batch) {
    if (batch.columns.size() != batch.schema.size()) {
        throw Error(ErrorCode::InvalidArgument,
                    "a batch of " + std::to_string(batch.columns.size()) +
                        " columns has a schema of " + std::to_string(batch.schema.size()));
    }
    for (std::size_t c = 0; c < batch.columns.size(); ++c) {
        Column const& column = batch.columns[c];
        static_cast<void>(arrow::format_of(batch.schema[c], column.encoding));
        if (column.buffers.size() != column.buffer_sizes.size()) {
            throw Error(
                ErrorCode::InvalidArgument,
                "column '" + batch.schema[c].name + "' has data buffers whose sizes are missing");
        }
    }
}

}  // namespace

namespace arrow {

void export_schema_as(Schema const& schema, std::vector<Encoding> const& encodings,
                      ArrowSchema* out) {
    auto holder = std::make_unique<SchemaHolder>();
    holder->format = "+s";
    make_children(*holder, schema.size());
    for (std::size_t c = 0; c < schema.size(); ++c) {
        auto column = std::make_unique<SchemaHolder>();
        column->format = format_of(schema[c], encodings[c]);
        column->name = schema[c].name;
        holder->child_structs[c] = seal(std::move(column), schema[c].nullable);
    }
    *out = seal(std::move(holder), false);
}

}  // namespace arrow

void export_schema(Schema const& schema, ArrowSchema* out) {
    std::vector<Encoding> encodings;
    encodings.reserve(schema.size());
    for (Field const& field : schema.fields()) {
        encodings.push_back(field.type.is_variable() ? Encoding::Views : Encoding::Plain);
    }
    arrow::export_schema_as(schema, encodings, out);
}

void export_schema(RecordBatch const& batch, ArrowSchema* out) {
    check(batch);
    std::vector<Encoding> encodings;
    encodings.reserve(batch.columns.size());
    for (Column const& column : batch.columns) encodings.push_back(column.encoding);
    arrow::export_schema_as(batch.schema, encodings, out);
}

void export_batch(RecordBatch const& batch, ArrowArray* out) {
    check(batch);
    auto holder = std::make_unique<ArrayHolder>();
    holder->buffers.push_back(nullptr);  // no row is null as a whole
    make_children(*holder, batch.columns.size());
    for (std::size_t c = 0; c < batch.columns.size(); ++c) {
        holder->child_structs[c] = export_column(batch, c);
    }
    *out = seal(std::move(holder));
    out->length = batch.rows;
}

}  // namespace mgi
