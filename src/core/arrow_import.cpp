#include <bit>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include <mgi/arrow_abi.hpp>
#include <mgi/batch.hpp>
#include <mgi/device/batch_view.hpp>
#include <mgi/error.hpp>

#include "core/arrow_format.hpp"

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
    std::vector<std::unique_ptr<std::byte[]>> copies;  ///< of buffers that were not aligned
};

[[noreturn]] void refuse(std::string const& what) {
    throw Error(ErrorCode::InvalidArgument, what);
}

/// More than any memory holds; with it no sum of rows and no size of a buffer overflows.
constexpr std::int64_t kMostRows = std::int64_t(1) << 46;

/// Whether the rows [offset, offset + rows) can be.
bool possible(std::int64_t offset, std::int64_t rows) {
    return offset >= 0 && offset <= kMostRows && rows >= 0 && rows <= kMostRows;
}

/// Column `i` of a schema or batch; the pointer to it may be missing.
template <class T>
T const& child_of(T const& table, std::int64_t i, char const* what) {
    if (table.children == nullptr || table.children[i] == nullptr) {
        refuse(std::string("the Arrow ") + what + " has no column " + std::to_string(i) +
               ", although it counts " + std::to_string(table.n_children));
    }
    return *table.children[i];
}

std::vector<ColumnFormat> read_columns(ArrowSchema const& schema) {
    std::string const format = schema.format != nullptr ? schema.format : "";
    if (format != "+s") {
        refuse("Arrow format '" + format +
               "' is not a table; a struct of columns ('+s') is needed");
    }
    if (schema.n_children < 0) {
        refuse("the Arrow schema has " + std::to_string(schema.n_children) + " columns");
    }
    std::vector<ColumnFormat> columns;
    for (std::int64_t i = 0; i < schema.n_children; ++i) {
        columns.push_back(arrow::read_format(child_of(schema, i, "schema")));
    }
    return columns;
}

Schema schema_of(std::vector<ColumnFormat> const& columns) {
    std::vector<Field> fields;
    fields.reserve(columns.size());
    for (ColumnFormat const& column : columns) fields.push_back(column.field);
    return Schema(std::move(fields));
}

/// Bits that are 0 in [first, first + count).
std::int64_t count_nulls(std::uint8_t const* bits, std::int64_t first, std::int64_t count) {
    std::int64_t set = 0;
    std::int64_t at = first;
    std::int64_t const end = first + count;
    for (; at < end && at % 8 != 0; ++at) set += device::bit_at(bits, std::uint64_t(at)) ? 1 : 0;
    for (; end - at >= 64; at += 64) {
        std::uint64_t word;
        std::memcpy(&word, bits + at / 8, sizeof(word));
        set += std::popcount(word);
    }
    for (; at < end; ++at) set += device::bit_at(bits, std::uint64_t(at)) ? 1 : 0;
    return count - set;
}

/// Nulls among `count` rows of an array, of which the first is `skip` behind its own first.
std::int64_t nulls_of(ArrowArray const& array, std::int64_t skip, std::int64_t count) {
    if (array.null_count == 0 || array.n_buffers == 0) return 0;
    if (array.buffers == nullptr || array.buffers[0] == nullptr) return 0;
    return count_nulls(static_cast<std::uint8_t const*>(array.buffers[0]), array.offset + skip,
                       count);
}

/// Reads one column's array.
class ColumnReader {
public:
    ColumnReader(ColumnFormat const& format, ArrowArray const& array, std::int64_t skip,
                 std::int64_t rows, Imported& owner)
        : format_(format), array_(array), skip_(skip), rows_(rows), owner_(owner) {}

    Column read() {
        check();
        column_.encoding = format_.encoding;
        column_.offset = array_.offset + skip_;
        read_validity();
        switch (format_.encoding) {
            case Encoding::Plain: read_plain(); break;
            case Encoding::Offsets32: read_offsets<std::int32_t>(); break;
            case Encoding::Offsets64: read_offsets<std::int64_t>(); break;
            case Encoding::Views: read_views(); break;
        }
        return std::move(column_);
    }

private:
    [[noreturn]] void malformed(std::string const& what) const {
        refuse("column '" + format_.field.name + "': the Arrow array " + what);
    }

    void check() const {
        if (array_.dictionary != nullptr) malformed("is dictionary-encoded, unlike its schema");
        if (array_.offset < 0 || array_.length < 0) malformed("has a negative offset or length");
        if (!possible(array_.offset, array_.length))
            malformed("has an impossible offset or length");
        if (array_.length - skip_ < rows_) {
            malformed("has " + std::to_string(array_.length) + " rows where the batch has " +
                      std::to_string(skip_ + rows_));
        }
        bool const views = format_.encoding == Encoding::Views;
        std::int64_t const least = format_.encoding == Encoding::Plain ? 2 : 3;
        if (views ? array_.n_buffers < least : array_.n_buffers != least) {
            malformed("has " + std::to_string(array_.n_buffers) + " buffers instead of " +
                      std::to_string(least));
        }
        if (array_.buffers == nullptr) malformed("has no buffers");
        if (rows_ > 0 && array_.buffers[1] == nullptr) malformed("has no values");
        if (array_.null_count > 0 && array_.buffers[0] == nullptr) {
            malformed("counts nulls but has no validity bits");
        }
    }

    void read_validity() {
        std::int64_t const nulls = nulls_of(array_, skip_, rows_);
        if (nulls == 0) return;
        if (!format_.field.nullable) {
            malformed("has " + std::to_string(nulls) + " nulls, but the column is not nullable");
        }
        column_.validity = static_cast<std::uint8_t const*>(array_.buffers[0]);
    }

    /// The values buffer, or a copy of it that is aligned. Arrow recommends alignment only.
    [[nodiscard]] void const* aligned(std::int64_t count, std::size_t width, std::size_t to) {
        void const* const values = array_.buffers[1];
        if (rows_ == 0 || reinterpret_cast<std::uintptr_t>(values) % to == 0) return values;
        std::size_t const bytes = std::size_t(count) * width;
        auto copy = std::make_unique<std::byte[]>(bytes);
        std::memcpy(copy.get(), values, bytes);
        owner_.copies.push_back(std::move(copy));
        return owner_.copies.back().get();
    }

    void read_plain() {
        Type const& type = format_.field.type;
        if (type.id == TypeId::Bool || type.id == TypeId::FixedSizeBinary) {
            column_.values = array_.buffers[1];
        } else {
            column_.values = aligned(column_.offset + rows_, type.row_width(), type.row_width());
        }
    }

    template <class Offset>
    void read_offsets() {
        column_.values = aligned(column_.offset + rows_ + 1, sizeof(Offset), sizeof(Offset));
        column_.bytes = static_cast<std::byte const*>(array_.buffers[2]);
        if (rows_ == 0) return;
        auto const* const offsets = static_cast<Offset const*>(column_.values) + column_.offset;
        if (offsets[0] < 0 || offsets[rows_] < offsets[0]) malformed("has offsets that decrease");
        if (column_.bytes == nullptr && offsets[rows_] != offsets[0])
            malformed("has no characters");
    }

    void read_views() {
        column_.values = aligned(column_.offset + rows_, sizeof(device::StringView16),
                                 alignof(device::StringView16));
        // Validity, views, any number of data buffers, and their sizes.
        std::size_t const buffers = std::size_t(array_.n_buffers) - 3;
        void const* const sizes = array_.buffers[array_.n_buffers - 1];
        if (buffers == 0) return;
        if (sizes == nullptr) malformed("has no sizes of its data buffers");
        column_.buffer_sizes.resize(buffers);
        std::memcpy(column_.buffer_sizes.data(), sizes, buffers * sizeof(std::int64_t));
        for (std::size_t i = 0; i < buffers; ++i) {
            void const* const data = array_.buffers[2 + i];
            std::int64_t const size = column_.buffer_sizes[i];
            if (size < 0 || (size > 0 && data == nullptr)) {
                malformed("says that its data buffer " + std::to_string(i) + " has " +
                          std::to_string(size) + " bytes" + (size > 0 ? ", but has none" : ""));
            }
            column_.buffers.push_back(static_cast<std::byte const*>(data));
        }
    }

    ColumnFormat const& format_;
    ArrowArray const& array_;
    std::int64_t const skip_;  ///< rows of the enclosing struct's own offset
    std::int64_t const rows_;
    Imported& owner_;
    Column column_;
};

RecordBatch read_batch(ArrowArray* from, Schema const& schema,
                       std::vector<ColumnFormat> const& columns) {
    auto owner = std::make_shared<Imported>(from);
    ArrowArray const& array = *owner->array;
    if (array.length < 0 || array.offset < 0) {
        refuse("the Arrow batch has a negative length or offset");
    }
    if (!possible(array.offset, array.length)) {
        refuse("the Arrow batch has an impossible length or offset");
    }
    if (array.n_children != std::int64_t(columns.size())) {
        refuse("the Arrow batch has " + std::to_string(array.n_children) +
               " columns, its schema has " + std::to_string(columns.size()));
    }
    if (std::int64_t const nulls = nulls_of(array, 0, array.length); nulls != 0) {
        refuse(std::to_string(nulls) +
               " rows of the Arrow batch are null as a whole; only columns can be null");
    }
    RecordBatch batch;
    batch.schema = schema;
    batch.rows = array.length;
    for (std::size_t i = 0; i < columns.size(); ++i) {
        ArrowArray const& column = child_of(array, std::int64_t(i), "batch");
        ColumnReader reader(columns[i], column, array.offset, array.length, *owner);
        batch.columns.push_back(reader.read());
    }
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
    return schema_of(read_columns(*owned));
}

RecordBatch import_batch(ArrowArray* array, ArrowSchema* schema) {
    ReleaseIfNotRead const release{array};
    Owned<ArrowSchema> owned(schema, "Arrow schema");
    auto const columns = read_columns(*owned);
    return read_batch(array, schema_of(columns), columns);
}

Table import_stream(ArrowArrayStream* from) {
    Owned<ArrowArrayStream> stream(from, "Arrow stream");
    ArrowSchema raw{};
    check_stream(stream, stream->get_schema(&*stream, &raw));
    Owned<ArrowSchema> schema(&raw, "Arrow stream's schema");
    auto const columns = read_columns(*schema);
    Table table;
    table.schema = schema_of(columns);
    for (;;) {
        ArrowArray array{};
        check_stream(stream, stream->get_next(&*stream, &array));
        ReleaseIfNotRead const release{&array};
        if (array.release == nullptr) return table;
        table.batches.push_back(read_batch(&array, table.schema, columns));
    }
}

}  // namespace mgi
