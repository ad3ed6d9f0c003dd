/// \file
/// Our types as the format strings of Arrow's C data interface, and back.
#pragma once

#include <string>
#include <vector>

#include <mgi/arrow_abi.hpp>
#include <mgi/batch.hpp>
#include <mgi/schema.hpp>

namespace mgi::arrow {

/// A column as an Arrow schema describes it.
struct ColumnFormat {
    Field field;
    Encoding encoding = Encoding::Plain;
};

/// Format string of a type whose values lie so ("l", "vu", "d:15,2").
/// Throws Error(InvalidArgument) for strings that are Plain, and the like.
std::string format_of(Field const& field, Encoding encoding);

/// The schema with each column's values lying so.
void export_schema_as(Schema const& schema, std::vector<Encoding> const& encodings,
                      ArrowSchema* out);

/// Reads one column's schema. Throws Error(InvalidArgument) that names the column, its format and
/// what that is where the type is not supported.
ColumnFormat read_format(ArrowSchema const& schema);

}  // namespace mgi::arrow
