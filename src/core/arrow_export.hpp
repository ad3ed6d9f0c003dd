/// \file
/// Columns as Arrow's C data interface has them.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <mgi/arrow_abi.hpp>
#include <mgi/batch.hpp>
#include <mgi/error.hpp>

#include "core/arrow_distinct.hpp"
#include "core/arrow_format.hpp"

namespace mgi::arrow {

/// So many rows cannot be exported at once: their characters or distinct values are more than offsets
/// or indices of that type count. Fewer rows can.
class TooManyRows : public Error {
public:
    explicit TooManyRows(std::string const& what) : Error(ErrorCode::InvalidArgument, what) {}
};

/// How each column of a batch is exported: as its type says, text as it lies where that says nothing.
std::vector<ColumnFormat> formats_of(RecordBatch const& batch);

void export_schema_as(Schema const& schema, std::vector<ColumnFormat> const& formats,
                      ArrowSchema* out);
/// `dictionaries`: by column, kept from one batch to the next, so that batches share them. `ahead`: by column, what was exported
/// already, and null otherwise; takes it. Without any it is empty.
void export_batch_as(RecordBatch const& batch, std::vector<ColumnFormat> const& formats,
                     std::vector<Dictionary>& dictionaries, std::vector<ArrowArray>& ahead,
                     ArrowArray* out);

/// A column that is not stored as it lies here, or whose text lies otherwise.
ArrowArray export_converted(RecordBatch const& batch, std::size_t column,
                            ColumnFormat const& format, Dictionary& dictionary);
/// Any column.
ArrowArray export_column(RecordBatch const& batch, std::size_t column, ColumnFormat const& format,
                         Dictionary& dictionary);
/// Any column, by itself.
ArrowArray export_column(RecordBatch const& batch, std::size_t column, ColumnFormat const& format);

}  // namespace mgi::arrow
