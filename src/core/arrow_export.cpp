#include "core/arrow_export.hpp"

#include <memory>
#include <string>
#include <utility>

#include "core/arrow_holders.hpp"

namespace mgi {
namespace arrow {
namespace {

/// Offsets of no strings: Arrow wants one even of an empty column.
constexpr std::int64_t kNoOffsets[1] = {0};
constexpr std::byte kNoBytes[8] = {};

ArrowArray export_as_it_lies(RecordBatch const& batch, std::size_t c, Encoding encoding) {
    Column const& column = batch.columns[c];
    auto holder = std::make_unique<ArrayHolder>();
    holder->owner = batch.owner;
    bool const absent =
        batch.rows == 0 && (column.values == nullptr || column.encoding != encoding);
    bool const offsets = encoding == Encoding::Offsets32 || encoding == Encoding::Offsets64;
    holder->buffers.push_back(absent ? nullptr : column.validity);
    if (absent) {
        holder->buffers.push_back(offsets ? static_cast<void const*>(kNoOffsets) : kNoBytes);
    } else {
        holder->buffers.push_back(column.values);
    }
    if (offsets) holder->buffers.push_back(column.bytes != nullptr ? column.bytes : kNoBytes);
    if (encoding == Encoding::Views) {
        if (!absent) {
            holder->buffers.insert(holder->buffers.end(), column.buffers.begin(),
                                   column.buffers.end());
            holder->sizes = column.buffer_sizes;
        }
        holder->buffers.push_back(holder->sizes.empty() ? kNoOffsets : holder->sizes.data());
    }
    ArrowArray array = seal(std::move(holder));
    array.length = batch.rows;
    array.offset = absent ? 0 : column.offset;
    array.null_count = absent || column.validity == nullptr ? 0 : -1;
    return array;
}

ArrowSchema export_field(ArrowField const& field) {
    auto holder = std::make_unique<SchemaHolder>();
    holder->format = field.format;
    holder->name = field.name;
    holder->metadata = field.metadata;
    holder->flags = field.flags;
    make_children(*holder, field.children.size());
    for (std::size_t i = 0; i < field.children.size(); ++i) {
        holder->child_structs[i] = export_field(field.children[i]);
    }
    if (field.dictionary != nullptr) holder->dictionary = export_field(*field.dictionary);
    return seal(std::move(holder));
}

/// Dictionaries in it get their values in the order in which they come.
void drop_orders(ArrowField& field) {
    field.flags &= ~std::int64_t(ARROW_FLAG_DICTIONARY_ORDERED);
    for (ArrowField& child : field.children) drop_orders(child);
    if (field.dictionary == nullptr) return;
    auto values = std::make_shared<ArrowField>(*field.dictionary);
    drop_orders(*values);
    field.dictionary = std::move(values);
}

ArrowField field_of(Field const& field, Encoding encoding) {
    ArrowField arrow;
    if (field.type.arrow != nullptr) {
        arrow = *field.type.arrow;
    } else {
        arrow.format = format_of(field, encoding);
    }
    arrow.name = field.name;
    // An order of categories that nobody knows is none.
    bool const knows = arrow.categories != nullptr;
    std::int64_t const ordered = knows ? arrow.flags & ARROW_FLAG_DICTIONARY_ORDERED : 0;
    drop_orders(arrow);
    arrow.flags |= ordered;
    if (field.nullable) arrow.flags |= ARROW_FLAG_NULLABLE;
    return arrow;
}

void check(RecordBatch const& batch) {
    if (batch.columns.size() != batch.schema.size()) {
        throw Error(ErrorCode::InvalidArgument,
                    "a batch of " + std::to_string(batch.columns.size()) +
                        " columns has a schema of " + std::to_string(batch.schema.size()));
    }
    for (std::size_t c = 0; c < batch.columns.size(); ++c) {
        Column const& column = batch.columns[c];
        static_cast<void>(format_of(batch.schema[c], column.encoding));
        if (column.buffers.size() != column.buffer_sizes.size()) {
            throw Error(
                ErrorCode::InvalidArgument,
                "column '" + batch.schema[c].name + "' has data buffers whose sizes are missing");
        }
    }
}

}  // namespace

std::vector<ColumnFormat> formats_of(RecordBatch const& batch) {
    check(batch);
    std::vector<ColumnFormat> formats;
    for (std::size_t c = 0; c < batch.columns.size(); ++c) {
        formats.push_back(format_of(batch.schema[c]));
        if (batch.schema[c].type.arrow == nullptr) {
            formats.back().encoding = batch.columns[c].encoding;
        }
    }
    return formats;
}

void export_schema_as(Schema const& schema, std::vector<ColumnFormat> const& formats,
                      ArrowSchema* out) {
    ArrowField table;
    table.format = "+s";
    table.metadata = schema.metadata();
    for (std::size_t c = 0; c < schema.size(); ++c) {
        table.children.push_back(field_of(schema[c], formats[c].encoding));
    }
    *out = export_field(table);
}

ArrowArray export_column(RecordBatch const& batch, std::size_t column, ColumnFormat const& format,
                         Dictionary& dictionary) {
    bool const as_it_lies = batch.rows == 0 || batch.columns[column].encoding == format.encoding;
    if (format.stored != Stored::AsTyped || !as_it_lies) {
        return export_converted(batch, column, format, dictionary);
    }
    return export_as_it_lies(batch, column, format.encoding);
}

ArrowArray export_column(RecordBatch const& batch, std::size_t column, ColumnFormat const& format) {
    Dictionary lone;
    return export_column(batch, column, format, lone);
}

void export_batch_as(RecordBatch const& batch, std::vector<ColumnFormat> const& formats,
                     std::vector<Dictionary>& dictionaries, std::vector<ArrowArray>& ahead,
                     ArrowArray* out) {
    auto holder = std::make_unique<ArrayHolder>();
    holder->buffers.push_back(nullptr);  // no row is null as a whole
    make_children(*holder, batch.columns.size());
    for (std::size_t c = 0; c < batch.columns.size(); ++c) {
        bool const made = !ahead.empty() && ahead[c].release != nullptr;
        holder->child_structs[c] = made ? std::exchange(ahead[c], {})
                                        : export_column(batch, c, formats[c], dictionaries[c]);
    }
    *out = seal(std::move(holder));
    out->length = batch.rows;
}

}  // namespace arrow

void export_schema(Schema const& schema, ArrowSchema* out) {
    std::vector<arrow::ColumnFormat> formats;
    for (Field const& field : schema.fields()) formats.push_back(arrow::format_of(field));
    arrow::export_schema_as(schema, formats, out);
}

void export_schema(RecordBatch const& batch, ArrowSchema* out) {
    arrow::export_schema_as(batch.schema, arrow::formats_of(batch), out);
}

void export_batch(RecordBatch const& batch, ArrowArray* out) {
    std::vector<arrow::Dictionary> dictionaries(batch.columns.size());
    std::vector<ArrowArray> none;
    arrow::export_batch_as(batch, arrow::formats_of(batch), dictionaries, none, out);
}

}  // namespace mgi
