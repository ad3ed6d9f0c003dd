/// \file
/// Columns out of Arrow's C data interface.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <mgi/arrow_abi.hpp>
#include <mgi/batch.hpp>
#include <mgi/error.hpp>

#include "core/arrow_format.hpp"
#include "core/arrow_room.hpp"

namespace mgi::arrow {

/// More than any memory holds; with it no sum of rows and no size of a buffer overflows.
inline constexpr std::int64_t kMostRows = std::int64_t(1) << 46;

/// Whether the rows [offset, offset + rows) can be.
inline bool possible(std::int64_t offset, std::int64_t rows) {
    return offset >= 0 && offset <= kMostRows && rows >= 0 && rows <= kMostRows;
}

/// Column `i` of a schema or batch; the pointer to it may be missing.
template <class T>
T const& child_of(T const& table, std::int64_t i, char const* what) {
    if (table.children == nullptr || table.children[i] == nullptr) {
        throw Error(ErrorCode::InvalidArgument,
                    std::string("the Arrow ") + what + " has no column " + std::to_string(i) +
                        ", although it counts " + std::to_string(table.n_children));
    }
    return *table.children[i];
}

/// Nulls among `count` rows of an array, of which the first is `skip` behind its own first.
std::int64_t nulls_of(ArrowArray const& array, std::int64_t skip, std::int64_t count);

/// One of the integers of that type, indices or run ends, which lie at `integers`; of an unsigned type below 2^63.
std::int64_t integer_at(Type const& type, void const* integers, std::int64_t at);

/// Whether an array can be the run ends of so many values.
bool are_run_ends(ArrowArray const& ends, std::int64_t values);
/// The row behind a run's last one.
std::int64_t run_end(ArrowArray const& ends, Type const& type, std::int64_t run);
/// The first run that ends behind a row; as many as there are runs where none does.
std::int64_t run_behind(ArrowArray const& ends, Type const& type, std::int64_t row);

/// A dictionary's values, which many batches may share.
struct ReadDictionary {
    /// Where it lay: its buffers, which `owner` keeps, its offset and length.
    std::vector<void const*> buffers;
    std::int64_t offset = 0;
    std::int64_t length = -1;
    Column values;
    std::shared_ptr<void const> owner = nullptr;
    std::shared_ptr<RecordBatch const> texts = nullptr;  ///< the same, of text without nulls
};

/// Rows [skip, skip + rows) of an array. What lies otherwise than its buffers goes into the owner's
/// `room`; nothing else is copied. A dictionary is read where it is another than `last`, whose owner
/// then is `owner`. Throws Error(InvalidArgument) that names the column where the array contradicts its
/// schema or itself.
Column read_column(ColumnFormat const& format, ArrowArray const& array, std::int64_t skip,
                   std::int64_t rows, std::shared_ptr<void const> const& owner, Room& room,
                   ReadDictionary& last);

/// The bytes of the values of a column's dictionary in their order; null where they are many.
std::shared_ptr<std::vector<std::string> const> categories_of(ColumnFormat const& format,
                                                              ReadDictionary const& dictionary);

}  // namespace mgi::arrow
