/// \file
/// Columns in host memory: what host code sends, receives and hands to Arrow without a copy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include <mgi/schema.hpp>

struct ArrowSchema;
struct ArrowArray;
struct ArrowArrayStream;

namespace mgi {

/// How a column's values lie in memory.
enum class Encoding : std::uint8_t {
    Plain,      ///< fixed width, or bits for Bool
    Offsets32,  ///< String/Binary: int32 offsets (rows + 1) and bytes
    Offsets64,  ///< String/Binary: int64 offsets (rows + 1) and bytes
    Views,      ///< String/Binary: 16-byte Arrow views and their data buffers
};

struct RecordBatch;

/// Values of a column by their numbers in a dictionary.
struct Codes {
    void const* numbers = nullptr;  ///< integers without a sign, borrowed from the batch's owner
    std::uint8_t width = 4;         ///< bytes of a number: 1, 2, 4 or 8
    std::int64_t offset = 0;        ///< of the number of the column's row 0
    /// The dictionary: one column of text or binary, without nulls. A valid row's number is below its
    /// rows; a null's may be anything.
    std::shared_ptr<RecordBatch const> values;
};

/// One column of a batch. Pointers are borrowed from the batch's owner.
struct Column {
    Encoding encoding = Encoding::Plain;
    void const* values = nullptr;            ///< values, offsets or views
    std::uint8_t const* validity = nullptr;  ///< a bit a row; null where every row is valid
    std::byte const* bytes = nullptr;        ///< Offsets32/64: the characters
    std::vector<std::byte const*> buffers;   ///< Views: the data buffers
    std::vector<std::int64_t> buffer_sizes;  ///< Views: bytes in each of them
    std::int64_t offset = 0;                 ///< first row, in all of the above
    /// The same values once more, where they came as or go out as numbers; null where nobody knows them.
    /// The number of row `offset + i` is the one at `codes->offset + offset + i`.
    std::shared_ptr<Codes const> codes = nullptr;
};

/// Rows of a schema in host memory, immutable. Copies share the memory, which `owner` keeps alive.
/// Reading it from several threads is safe.
struct RecordBatch {
    Schema schema;
    std::int64_t rows = 0;
    std::vector<Column> columns;
    std::shared_ptr<void const> owner;

    /// Rows [first, first + count), without a copy.
    [[nodiscard]] RecordBatch slice(std::int64_t first, std::int64_t count) const;
    /// Payload bytes: fixed widths, the characters of strings, one bit a row for Bool and validity.
    [[nodiscard]] std::int64_t bytes() const;
    /// Values of a fixed-width column, first row first; throws Error(InvalidArgument) if sizeof(T) is
    /// not the column's width.
    template <class T>
    [[nodiscard]] T const* values(std::size_t column) const {
        return static_cast<T const*>(fixed_values(column, sizeof(T)));
    }
    [[nodiscard]] bool is_valid(std::size_t column, std::int64_t row) const;
    [[nodiscard]] bool bool_at(std::size_t column, std::int64_t row) const;
    /// Characters of one row of a String or Binary column.
    [[nodiscard]] std::string_view string_at(std::size_t column, std::int64_t row) const;

private:
    [[nodiscard]] void const* fixed_values(std::size_t column, std::size_t width) const;
};

/// Batches of one schema: a table, or one endpoint's part of it.
struct Table {
    Schema schema;
    std::vector<RecordBatch> batches;

    [[nodiscard]] std::int64_t rows() const;
    [[nodiscard]] std::int64_t bytes() const;
};

/// Arrow C data interface (https://arrow.apache.org/docs/format/CDataInterface.html); the structs are
/// in <mgi/arrow_abi.hpp>. Imports take ownership of what they are given, also when they throw;
/// exports fill in structs whose release callback may be called from any thread. Nothing is copied,
/// but for buffers that are not aligned to their values, and values that Arrow stores otherwise: those
/// of dictionaries and runs, float16, decimals that are no Decimal128; on the way out also String and
/// Binary where the type's `arrow` has offsets. Throws Error(InvalidArgument) that names the column and
/// its Arrow format where a type is not supported.
Schema import_schema(ArrowSchema* schema);
/// Takes the array and its schema, which says how its strings lie.
RecordBatch import_batch(ArrowArray* array, ArrowSchema* schema);
Table import_stream(ArrowArrayStream* stream);
/// String and Binary as Arrow's views, where the type's `arrow` does not say otherwise.
void export_schema(Schema const& schema, ArrowSchema* out);
/// Schema as this batch is exported: as the types' `arrow` says, else as the batch's columns lie. Throws
/// Error(InvalidArgument), as `export_batch` does, where text or distinct values are more than offsets
/// or indices of the type count.
void export_schema(RecordBatch const& batch, ArrowSchema* out);
void export_batch(RecordBatch const& batch, ArrowArray* out);
/// A stream has one schema: where batches lie differently and the type does not say how, strings are
/// exported as views. A batch that is too large for its offsets or indices is exported in several.
void export_stream(Table const& table, ArrowArrayStream* out);

}  // namespace mgi
