/// \file
/// Nested values (lists, structs, maps, unions) as bytes: a column of them lies as Binary, a row's value
/// in one piece, so that channels carry it and operators compare it as they do any bytes.
///
/// A value's bytes are those of its body as one value. `n` values one behind another, of one part of it, are a *sequence*:
///
/// - validity: a byte 0 where all are valid; else a byte 1 and a bit for each, (n + 7) / 8 bytes, those beyond n 0. Null and union
///   types have none. What follows, the *body*, is of the m valid ones alone.
/// - bool: m bits. Fixed width: m values of as many bytes as Arrow stores.
/// - text and binary: m lengths of 4 bytes, then the bytes.
/// - lists of any kind, and maps: m lengths of 4 bytes, then the sequence of all their elements.
/// - struct: for each field the sequence of its m values.
/// - dictionaries and runs: as the values that they stand for, nulls among them as nulls.
/// - union: m bytes that say whose child's the value is, counted from 0; then for each the sequence of that one value.
///
/// Numbers are little-endian and nothing is aligned. So equal values have equal bytes, however Arrow stores them (which list or
/// text, which offsets, what lies below a null); but a float may be equal to another one of other bytes, and a
/// map's entries may come in any order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <mgi/arrow_abi.hpp>
#include <mgi/batch.hpp>

#include "core/arrow_field.hpp"
#include "core/arrow_room.hpp"

namespace mgi::arrow {

/// A nested value's type, or that of a part of it.
struct Nested {
    enum class Kind : std::uint8_t {
        Null,
        Bool,
        Fixed,
        Text,
        List,       ///< also maps
        FixedList,  ///< `width` elements
        Struct,
        SparseUnion,
        DenseUnion,
        Dictionary,
        Runs,
    };
    /// How lists and text find their elements.
    enum class Offsets : std::uint8_t { Narrow, Wide, Views, WideViews };

    Kind kind = Kind::Null;
    Offsets offsets = Offsets::Narrow;
    std::size_t width = 0;  ///< bytes of a fixed value, elements of a FixedList
    Type index = {};        ///< of a dictionary's indices, or of run ends
    bool nullable = false;
    std::vector<std::int8_t> codes = {};  ///< of a union's children
    std::vector<Nested> children = {};    ///< of dictionaries and runs: the values
    std::string text = {};                ///< as `nested_text` has it, of a column's own

    [[nodiscard]] bool is_union() const {
        return kind == Kind::SparseUnion || kind == Kind::DenseUnion;
    }
    [[nodiscard]] bool is_narrow() const {
        return offsets == Offsets::Narrow || offsets == Offsets::Views;
    }
    /// Whether values are told apart without a look into their parts.
    [[nodiscard]] bool is_flat() const {
        return kind == Kind::Bool || kind == Kind::Fixed || kind == Kind::Text;
    }
};

/// Whether a format is that of a list, struct, map or union, whose values lie as Binary.
bool is_nested(ArrowField const& field);
/// Throws Error(InvalidArgument) that says what is wrong, for `name`'s column.
Nested nested_of(ArrowField const& field, std::string const& name);
/// "list<int64>", "struct<a: string, b: list<bool>>": alike only where bytes are of the same values. As keys are
/// `compared`, zones are alike, and lists of a fixed size are lists.
std::string nested_text(ArrowField const& field, bool compared = false);
/// Whether equal values have equal bytes: not those with floats, maps or unions.
bool nested_is_key(ArrowField const& field);

/// Whether arrays of that kind have validity bits of their own.
inline bool nested_has_validity(Nested::Kind kind) {
    return kind != Nested::Kind::Null && kind != Nested::Kind::SparseUnion &&
           kind != Nested::Kind::DenseUnion && kind != Nested::Kind::Runs;
}
/// Throws Error(InvalidArgument) where an array, children aside, has not the shape that its schema says.
void check_nested_array(Nested const& type, std::string const& name, ArrowArray const& array);

/// Rows [skip, skip + rows) of an array as Binary views. Throws Error(InvalidArgument) that names the column where
/// the array contradicts its schema or itself, or a value has 2 GiB.
Column write_nested(Nested const& type, std::string const& name, ArrowArray const& array,
                    std::int64_t skip, std::int64_t rows, Room& room);

/// The way back. Throws Error(InvalidArgument) that names column and row for bytes that are no such value, TooManyRows where
/// elements are more than offsets or indices of the type count.
ArrowArray read_nested(Nested const& type, RecordBatch const& batch, std::size_t column);

}  // namespace mgi::arrow
