// What operators are asked for, and by which rules: the same on CPU devices and on GPUs.
#pragma once

#include <string>
#include <vector>

#include <mgi/device/config.hpp>
#include <mgi/operators.hpp>

namespace mgi::operators {

using device::u32;
using device::u64;

// Most rows of a table at an endpoint on a GPU: kernels count them in 32 bits, and 0 is none.
inline constexpr u64 kMostGpuRows = 0xfffffffeu;

// Throws Error(InvalidArgument, "what: why").
[[noreturn]] void refuse(std::string const& what, std::string const& why);

// "sum"
char const* name_of(AggregateFunction function);
// Of a name, or another one that it has ("variance"). Throws Error(InvalidArgument) that lists what there is.
AggregateFunction function_named(std::string const& name);
inline bool is_variance(AggregateFunction function) {
    return function == AggregateFunction::Variance || function == AggregateFunction::StdDev;
}

// Whether a column is named so.
bool has_name(Schema const& schema, std::string const& name);

// The columns of an operator's input, wherever its parts lie.
class InputColumns {
public:
    // `what` starts every message: "join: left".
    explicit InputColumns(std::string what) : what_(std::move(what)) {}
    // Of rows that are not here.
    InputColumns(std::string what, Schema schema)
        : what_(std::move(what)), schema_(std::move(schema)) {}

    // Of all parts of all processes; a column is nullable if it is in any of them.
    [[nodiscard]] Schema const& schema() const { return schema_; }
    [[nodiscard]] std::string const& what() const { return what_; }
    // Of all parts of all processes.
    [[nodiscard]] u64 rows() const { return rows_; }
    // Throws Error(InvalidArgument) that lists the names there are.
    [[nodiscard]] u32 column(std::string const& name) const;
    [[nodiscard]] std::vector<u32> columns(std::vector<std::string> const& names) const;
    // All of them where none is named.
    [[nodiscard]] std::vector<u32> columns_or_all(std::vector<std::string> const& names) const;

protected:
    // Throws Error(InvalidArgument).
    void check_parts(std::size_t parts, std::size_t endpoints) const;
    // Joins columns in that `where` has; throws where they are others. With `nulls_fit` a column of Arrow's type null,
    // which has no value, takes the others' type.
    void join_in(Schema const& schema, std::string const& where, bool nulls_fit = false);
    // Once all were joined in: a column is nullable also where `has_nulls(c)` says so.
    template <class HasNulls>
    void finish(HasNulls const& has_nulls) {
        if (schema_.empty()) refuse(what_, "no part has any columns");
        allow_nulls(has_nulls);
    }
    // Also where `has_nulls(c)` says so.
    template <class HasNulls>
    void allow_nulls(HasNulls const& has_nulls) {
        std::vector<Field> fields = schema_.fields();
        for (u32 c = 0; c < fields.size(); ++c) {
            fields[c].nullable = fields[c].nullable || has_nulls(c);
        }
        set_fields(std::move(fields));
    }
    void set_fields(std::vector<Field> fields) {
        std::string metadata = schema_.metadata();
        schema_ = Schema(std::move(fields));
        schema_.set_metadata(std::move(metadata));
    }

    std::string what_;
    Schema schema_;
    u64 rows_ = 0;
};

// All of these throw Error(InvalidArgument).

// A column whose values can be told apart.
void check_key(std::string const& what, Field const& field);
// Keys that can be routed by this hash.
void check_keys(InputColumns const& input, std::vector<u32> const& keys, Hash hash);
// Names that differ.
void check_result(std::string const& what, std::vector<Field> const& fields);
// A name for its result, and a column where the function wants one.
void check_aggregate(std::string const& what, Aggregate const& aggregate);
// The result of an aggregate of a column of this type; of rows there is none. Refuses what the function does not take.
Field aggregated(std::string const& what, Aggregate const& aggregate, Field const* column);

// Whether it is Arrow's type null: no row has a value.
bool is_null_type(Type const& type);

// Whether one type of integers has a sign and the other has none.
bool signs_differ(Type const& a, Type const& b);

}  // namespace mgi::operators
