/// \file
/// Ordered, typed, named columns: what a channel carries (paper section 3.1, "Schema"). Types and
/// their layout are Arrow's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace mgi {

struct ArrowField;

/// How a column's values lie.
enum class TypeId : std::uint8_t {
    Bool,  ///< one bit a row
    Int8,
    Int16,
    Int32,
    Int64,
    UInt8,
    UInt16,
    UInt32,
    UInt64,
    Float32,
    Float64,
    Date32,           ///< days since 1970-01-01
    Decimal128,       ///< 16 bytes, little-endian two's complement, with precision and scale
    FixedSizeBinary,  ///< `width` bytes a row
    String,           ///< UTF-8, variable length; Arrow string views inside a segment
    Binary,  ///< bytes, variable length; Arrow binary views inside a segment. Lists, structs,
             ///< maps and unions lie so, too: docs/types.md
};

/// A column's type. Value semantics; compare with ==, which asks what values mean: a timestamp is no
/// integer, and Arrow's string is its large_string.
struct Type {
    TypeId id = TypeId::Int64;
    std::int32_t width = 0;      ///< bytes a row, FixedSizeBinary only
    std::int32_t precision = 0;  ///< decimal digits, Decimal128 only
    std::int32_t scale = 0;      ///< digits behind the point, Decimal128 only

    /// What Arrow says of the column beyond that: a timestamp's unit and zone, an extension type's
    /// name, how strings lie, metadata. Results come out so. Null: nothing.
    std::shared_ptr<ArrowField const> arrow = nullptr;

    friend bool operator==(Type const& a, Type const& b) {
        return a.id == b.id && a.width == b.width && a.precision == b.precision &&
               a.scale == b.scale && (a.arrow == b.arrow || a.meaning() == b.meaning());
    }

    /// "timestamp[us, tz=UTC]" and the like; empty where values mean what `id` says.
    [[nodiscard]] std::string meaning() const;
    /// Whether these are numbers to add up: integers, floats and decimals that mean nothing else.
    [[nodiscard]] bool is_number() const;
    /// Whether one value can be less than another: not among intervals of days, nor among lists,
    /// structs, maps and unions.
    [[nodiscard]] bool has_order() const;
    /// Whether values can be keys: not maps, unions, or lists and structs with floats in them.
    [[nodiscard]] bool is_key() const;
    /// Whether values of both can be equal as keys: timestamps with zones whichever, a float16 and a
    /// float.
    [[nodiscard]] bool means_as(Type const& other) const;
    /// Whether a column of this type can hold the other's values: the types are equal, and a Polars Enum
    /// has only its own categories.
    [[nodiscard]] bool holds(Type const& other) const;
    /// Bytes of one row in a fixed-width region: 0 for Bool (bits), 16 for String and Binary
    /// (an Arrow view).
    [[nodiscard]] std::uint32_t row_width() const noexcept;
    [[nodiscard]] bool is_variable() const noexcept {
        return id == TypeId::String || id == TypeId::Binary;
    }
    /// Whether values lie as integers, whatever they mean.
    [[nodiscard]] bool is_integer() const noexcept {
        return id >= TypeId::Int8 && id <= TypeId::UInt64;
    }
    [[nodiscard]] bool is_float() const noexcept {
        return id == TypeId::Float32 || id == TypeId::Float64;
    }
    /// "int64", "decimal128(15, 2)", ... as Arrow prints it.
    [[nodiscard]] std::string to_string() const;
};

Type boolean();
Type int8();
Type int16();
Type int32();
Type int64();
Type uint8();
Type uint16();
Type uint32();
Type uint64();
Type float32();
Type float64();
Type date32();

/// What a time type counts.
enum class TimeUnit : std::uint8_t { Second, Milli, Micro, Nano };

/// Instants since 1970-01-01 in int64; without a zone what a clock on the wall shows.
Type timestamp(TimeUnit unit, std::string const& zone = "");
/// Time since midnight: in int32 for seconds and milliseconds, else in int64.
Type time_of_day(TimeUnit unit);
/// Time that passes, in int64.
Type duration(TimeUnit unit);
/// Milliseconds since 1970-01-01 in int64, of whole days.
Type date64();
/// 1 <= precision <= 38; throws Error(InvalidArgument).
Type decimal128(int precision, int scale);
/// 1 <= width <= 65536 bytes; throws Error(InvalidArgument).
Type fixed_size_binary(int width);
Type string();
Type binary();

/// A named column. `nullable` columns carry a validity bit per row.
struct Field {
    std::string name;
    Type type;
    bool nullable = false;

    friend bool operator==(Field const&, Field const&) = default;
};

/// The columns of a channel or of a batch, in order. Several may have one name, or none, and then have
/// no part in what names columns.
class Schema {
public:
    Schema() = default;
    /// Throws Error(InvalidArgument) for an impossible type, or a row of more than 16 MiB.
    Schema(std::vector<Field> fields);
    Schema(std::initializer_list<Field> fields) : Schema(std::vector<Field>(fields)) {}

    [[nodiscard]] std::vector<Field> const& fields() const noexcept { return fields_; }
    [[nodiscard]] Field const& operator[](std::size_t column) const { return fields_.at(column); }
    [[nodiscard]] std::size_t size() const noexcept { return fields_.size(); }
    [[nodiscard]] bool empty() const noexcept { return fields_.empty(); }

    /// Position of a column; throws Error(InvalidArgument) that lists the names there are, or says that
    /// several have this one.
    [[nodiscard]] std::size_t index_of(std::string_view name) const;
    /// Whether these columns can hold the other's rows: the same names and types in the same order,
    /// whatever the nullability.
    [[nodiscard]] bool holds(Schema const& other) const noexcept;
    /// "l_orderkey: int64, l_comment: string?" ('?' marks nullable columns).
    [[nodiscard]] std::string to_string() const;

    /// Bytes of one row as a packed C struct would hold it with natural alignment (validity left
    /// out): the stride of `send_rows`. Bool takes one byte, Decimal128 is aligned like `__int128`,
    /// FixedSizeBinary like `char`, String and Binary are a `RowBytes`.
    [[nodiscard]] std::uint32_t row_bytes() const noexcept;
    /// Offset of each column in such a struct.
    [[nodiscard]] std::vector<std::uint32_t> row_offsets() const;

    /// What Arrow keeps with a table (pandas' index, say), as its C data interface encodes it.
    [[nodiscard]] std::string const& metadata() const noexcept { return metadata_; }
    void set_metadata(std::string metadata) { metadata_ = std::move(metadata); }

    /// Whatever the metadata.
    friend bool operator==(Schema const& a, Schema const& b) { return a.fields_ == b.fields_; }

private:
    std::vector<Field> fields_;
    std::string metadata_;
};

}  // namespace mgi
