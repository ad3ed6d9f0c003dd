/// \file
/// The trivial reference: a table is a vector of rows, a row a vector of cells, a cell its raw bytes
/// or null. Made at random, turned into batches, read back from batches, compared as multisets.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include <mgi/batch.hpp>
#include <mgi/device.hpp>
#include <mgi/schema.hpp>

#include "support/random.hpp"

namespace mgi::test {

/// Raw little-endian bytes of a value (one byte for Bool, the characters of a text), or null.
using Cell = std::optional<std::string>;
using Row = std::vector<Cell>;

template <class T>
Cell cell(T const& value) {
    std::string bytes(sizeof(T), '\0');
    std::memcpy(bytes.data(), &value, sizeof(T));
    return bytes;
}

/// How keys are spread.
enum class Keys { Uniform, Few, Skewed, One };

struct DataShape {
    Keys keys = Keys::Uniform;  ///< of the first column
    std::uint64_t nulls = 5;    ///< one in so many cells of nullable columns; 0: none
    std::uint32_t longest_text = 60;
};

/// 1 to `most` columns of any type; `plain`: fixed width, no Bool, not nullable.
Schema random_schema(Random& random, std::size_t most, bool plain = false);
Cell random_cell(Field const& field, Random& random, DataShape const& shape);
std::vector<Row> random_rows(Schema const& schema, std::size_t count, Random& random,
                             DataShape const& shape = {});
/// Rows (key, value) with `keys` different int64 keys; values count up from `first`.
std::vector<Row> numbered_rows(std::size_t count, std::int64_t keys, std::int64_t first = 0);
Schema numbered_schema();
/// One of its rows, as a struct.
struct KeyValue {
    std::int64_t key = 0;
    std::int64_t value = 0;
};

/// A batch that owns its memory. Text encodings and the first row's offset are taken at random.
RecordBatch make_batch(Schema const& schema, std::vector<Row> const& rows, Random& random);
/// The same with plain offsets, no surprise.
RecordBatch make_batch(Schema const& schema, std::vector<Row> const& rows);

/// A row as one string: equal if and only if the rows are.
std::string encode(Row const& row);
std::string encode_row(RecordBatch const& batch, std::int64_t row);
std::string encode_row(device::ReceivedBatch const& batch, Schema const& schema, std::uint32_t row);
std::vector<std::string> encode_all(std::vector<Row> const& rows);
Row decode(std::string const& encoded);

/// Whether both are the same multiset; says which rows are lost and which are too many.
::testing::AssertionResult same_rows(std::vector<std::string> got,
                                     std::vector<std::string> expected);

/// A batch as kernels offer it. Keeps what the view points to.
class DeviceBatch {
public:
    explicit DeviceBatch(RecordBatch batch);
    /// Rows [first, first + count).
    [[nodiscard]] device::Batch slice(std::uint64_t first, std::uint64_t count);
    [[nodiscard]] std::uint64_t rows() const { return static_cast<std::uint64_t>(batch_.rows); }

private:
    RecordBatch batch_;
    std::vector<std::vector<char const*>> buffers_;
    std::vector<device::ColumnView> columns_;  ///< from row 0
    std::vector<device::ColumnView> sliced_;
};

/// Rows as an array of C structs with the schema's layout; cells must not be null.
class RowStructs {
public:
    RowStructs(Schema const& schema, std::vector<Row> const& rows);
    [[nodiscard]] device::Batch slice(std::uint64_t first, std::uint64_t count) const;
    [[nodiscard]] std::uint64_t rows() const { return count_; }

private:
    std::vector<Row> rows_;  ///< texts point here
    std::uint32_t stride_;
    std::uint64_t count_;
    std::vector<char> bytes_;
};

}  // namespace mgi::test
