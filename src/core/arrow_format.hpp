/// \file
/// Our types as the format strings of Arrow's C data interface, and back.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <mgi/arrow_abi.hpp>
#include <mgi/batch.hpp>
#include <mgi/schema.hpp>

#include "core/arrow_field.hpp"

namespace mgi::arrow {

/// How Arrow stores a column's values.
enum class Stored : std::uint8_t {
    AsTyped,    ///< as they lie here
    Null,       ///< not at all
    Bool8,      ///< a byte each
    Half,       ///< float16; here float32, which holds each of them
    Decimal32,  ///< and so on: narrower or wider than a Decimal128
    Decimal64,
    Decimal256,
    Dictionary,  ///< as indices of a dictionary's values
    Runs,        ///< run-end encoded
    Nested,      ///< as lists, structs, maps and unions; here their bytes (arrow_nested.hpp)
};

struct Nested;

/// A column as an Arrow schema describes it.
struct ColumnFormat {
    Field field;
    Encoding encoding = Encoding::Plain;  ///< of values that are stored as typed
    Stored stored = Stored::AsTyped;
    Type index;                                  ///< of a dictionary's indices, or of run ends
    std::shared_ptr<ColumnFormat const> values;  ///< of a dictionary, or of runs
    std::shared_ptr<Nested const> nested = nullptr;
};

/// The largest number that an integer type has.
std::uint64_t largest(Type const& integer);

/// How a type's values are stored where Arrow's schema says what `type` does.
ColumnFormat format_of(Field const& field);

/// What `arrow` says, of a column or of the values of one.
ColumnFormat format_of_values(ArrowField const& arrow, std::string const& name);

/// The numbers of a format string, between commas; none where there is anything else.
std::optional<std::vector<int>> numbers_in(std::string_view text);

/// An integer type. Throws Error(InvalidArgument) for another format.
Type index_type(std::string const& format, std::string const& name);

/// " of [one, two]": the categories of a Polars Enum, the first of many; empty of another type.
std::string categories_text(Type const& type);

/// What values of a format string that needs no more than itself mean when they are compared.
std::string compared_as(std::string const& format);

/// The type of a format string that needs no more than itself. Throws Error(InvalidArgument).
Type type_of_format(std::string const& format);

/// Throws Error(InvalidArgument) where `field.type.arrow`, as somebody else has told, contradicts the
/// rest of the type.
void check_arrow(Field const& field);

/// Format string of a type whose values lie so ("l", "vu", "d:15,2").
/// Throws Error(InvalidArgument) for strings that are Plain, and the like.
std::string format_of(Field const& field, Encoding encoding);

/// Reads one column's schema. Throws Error(InvalidArgument) that names the column, its format and
/// what that is where the type is not supported.
ColumnFormat read_format(ArrowSchema const& schema);

}  // namespace mgi::arrow
