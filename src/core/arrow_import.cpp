#include <cerrno>
#include <string>
#include <utility>

#include <mgi/arrow_abi.hpp>
#include <mgi/batch.hpp>
#include <mgi/error.hpp>

#include "core/arrow_format.hpp"
#include "core/arrow_read_column.hpp"
#include "core/arrow_room.hpp"

namespace mgi {
namespace {

using arrow::ColumnFormat;

/// One of Arrow's structs, taken over from the caller and released at the end.
template <class T>
class Owned {
public:
    Owned() = default;
    Owned(T* from, char const* what) {
        if (from == nullptr || from->release == nullptr) {
            throw Error(ErrorCode::InvalidArgument,
                        std::string("the ") + what + " was released already");
        }
        value_ = *from;
        from->release = nullptr;
    }
    ~Owned() {
        if (value_.release != nullptr) value_.release(&value_);
    }
    Owned(Owned const&) = delete;
    Owned& operator=(Owned const&) = delete;

    T& operator*() { return value_; }
    T* operator->() { return &value_; }

private:
    T value_{};
};

/// What an imported batch's pointers point into.
struct Imported {
    explicit Imported(ArrowArray* from) : array(from, "Arrow array") {}
    Owned<ArrowArray> array;
    arrow::Room room;  ///< for what lies otherwise here
};

[[noreturn]] void refuse(std::string const& what) {
    throw Error(ErrorCode::InvalidArgument, what);
}

/// A table as an Arrow schema describes it.
struct TableFormat {
    std::vector<ColumnFormat> columns;
    Schema schema;
    std::vector<arrow::ReadDictionary> dictionaries;  ///< by column, the last that was read
};

TableFormat read_table(ArrowSchema const& schema) {
    std::string const format = schema.format != nullptr ? schema.format : "";
    if (format != "+s") {
        refuse("Arrow format '" + format +
               "' is not a table; a struct of columns ('+s') is needed");
    }
    if (schema.n_children < 0) {
        refuse("the Arrow schema has " + std::to_string(schema.n_children) + " columns");
    }
    TableFormat table;
    std::vector<Field> fields;
    for (std::int64_t i = 0; i < schema.n_children; ++i) {
        table.columns.push_back(arrow::read_format(arrow::child_of(schema, i, "schema")));
        fields.push_back(table.columns.back().field);
    }
    table.schema = Schema(std::move(fields));
    table.schema.set_metadata(arrow::copy_metadata(schema.metadata));
    table.dictionaries.resize(table.columns.size());
    return table;
}

/// Names a column's categories, where they are not known yet.
void set_categories(TableFormat& format, std::size_t column) {
    if (format.columns[column].stored != arrow::Stored::Dictionary) return;
    if (format.schema[column].type.arrow->categories != nullptr) return;
    auto categories = arrow::categories_of(format.columns[column], format.dictionaries[column]);
    if (categories == nullptr) return;
    std::vector<Field> fields = format.schema.fields();
    auto arrow = std::make_shared<ArrowField>(*fields[column].type.arrow);
    arrow->categories = std::move(categories);
    fields[column].type.arrow = std::move(arrow);
    std::string metadata = format.schema.metadata();
    format.schema = Schema(std::move(fields));
    format.schema.set_metadata(std::move(metadata));
}

/// The first batch's dictionaries become the table's categories.
RecordBatch read_batch(ArrowArray* from, TableFormat& format) {
    std::vector<ColumnFormat> const& columns = format.columns;
    auto owner = std::make_shared<Imported>(from);
    ArrowArray const& array = *owner->array;
    if (array.length < 0 || array.offset < 0) {
        refuse("the Arrow batch has a negative length or offset");
    }
    if (!arrow::possible(array.offset, array.length)) {
        refuse("the Arrow batch has an impossible length or offset");
    }
    if (array.n_children != std::int64_t(columns.size())) {
        refuse("the Arrow batch has " + std::to_string(array.n_children) +
               " columns, its schema has " + std::to_string(columns.size()));
    }
    if (std::int64_t const nulls = arrow::nulls_of(array, 0, array.length); nulls != 0) {
        refuse(std::to_string(nulls) +
               " rows of the Arrow batch are null as a whole; only columns can be null");
    }
    RecordBatch batch;
    batch.rows = array.length;
    for (std::size_t i = 0; i < columns.size(); ++i) {
        ArrowArray const& column = arrow::child_of(array, std::int64_t(i), "batch");
        batch.columns.push_back(arrow::read_column(columns[i], column, array.offset, array.length,
                                                   owner, owner->room, format.dictionaries[i]));
        set_categories(format, i);
    }
    batch.schema = format.schema;
    batch.owner = std::move(owner);
    return batch;
}

/// Releases an array that `read_batch` has not taken over.
struct ReleaseIfNotRead {
    ArrowArray* array;
    explicit ReleaseIfNotRead(ArrowArray* a) : array(a) {}
    ReleaseIfNotRead(ReleaseIfNotRead const&) = delete;
    ReleaseIfNotRead& operator=(ReleaseIfNotRead const&) = delete;
    ~ReleaseIfNotRead() {
        if (array != nullptr && array->release != nullptr) array->release(array);
    }
};

/// Turns a stream callback's result into an error.
void check_stream(Owned<ArrowArrayStream>& stream, int result) {
    if (result == 0) return;
    char const* const text = stream->get_last_error(&*stream);
    std::string const message = text != nullptr ? text : "errno " + std::to_string(result);
    throw Error(result == ENOMEM ? ErrorCode::OutOfMemory : ErrorCode::InvalidArgument,
                "the Arrow stream failed: " + message);
}

}  // namespace

Schema import_schema(ArrowSchema* schema) {
    Owned<ArrowSchema> owned(schema, "Arrow schema");
    return read_table(*owned).schema;
}

RecordBatch import_batch(ArrowArray* array, ArrowSchema* schema) {
    ReleaseIfNotRead const release{array};
    Owned<ArrowSchema> owned(schema, "Arrow schema");
    TableFormat format = read_table(*owned);
    return read_batch(array, format);
}

Table import_stream(ArrowArrayStream* from) {
    Owned<ArrowArrayStream> stream(from, "Arrow stream");
    ArrowSchema raw{};
    check_stream(stream, stream->get_schema(&*stream, &raw));
    Owned<ArrowSchema> schema(&raw, "Arrow stream's schema");
    TableFormat format = read_table(*schema);
    Table table;
    for (;;) {
        ArrowArray array{};
        check_stream(stream, stream->get_next(&*stream, &array));
        ReleaseIfNotRead const release{&array};
        if (array.release == nullptr) break;
        table.batches.push_back(read_batch(&array, format));
    }
    table.schema = format.schema;
    return table;
}

}  // namespace mgi
