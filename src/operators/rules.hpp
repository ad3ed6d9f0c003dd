// What operators are asked for, and by which rules: the same on CPU devices and on GPUs.
#pragma once

#include <string>
#include <vector>

#include <mgi/device/config.hpp>
#include <mgi/operators.hpp>

namespace mgi::operators {

using device::u32;
using device::u64;

// Throws Error(InvalidArgument, "what: why").
[[noreturn]] void refuse(std::string const& what, std::string const& why);

// "sum"
char const* name_of(AggregateFunction function);
// Of a name, or another one that it has ("variance"). Throws Error(InvalidArgument) that lists what there is.
AggregateFunction function_named(std::string const& name);
inline bool is_variance(AggregateFunction function) {
    return function == AggregateFunction::Variance || function == AggregateFunction::StdDev;
}

// The columns of an operator's input, wherever its parts lie.
class InputColumns {
public:
    // `what` starts every message: "join: left".
    explicit InputColumns(std::string what) : what_(std::move(what)) {}

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
    // Joins columns in that `where` has; throws where they are others.
    void join_in(Schema const& schema, std::string const& where);
    // Once all were joined in: a column is nullable also where `has_nulls(c)` says so.
    template <class HasNulls>
    void finish(HasNulls const& has_nulls) {
        std::vector<Field> fields = schema_.fields();
        if (fields.empty()) refuse(what_, "no part has any columns");
        for (u32 c = 0; c < fields.size(); ++c) {
            fields[c].nullable = fields[c].nullable || has_nulls(c);
        }
        schema_ = Schema(std::move(fields));
    }

    std::string what_;
    Schema schema_;
    u64 rows_ = 0;
};

// All of these throw Error(InvalidArgument).

// Keys that can be routed by this hash.
void check_keys(InputColumns const& input, std::vector<u32> const& keys, Hash hash);
// Names that differ.
void check_result(std::string const& what, std::vector<Field> const& fields);
// A name for its result, and a column where the function wants one.
void check_aggregate(std::string const& what, Aggregate const& aggregate);
// The result of an aggregate of a column of this type; of rows there is none. Refuses what the function does not take.
Field aggregated(std::string const& what, Aggregate const& aggregate, Field const* column);

// "full"
char const* name_of(JoinKind kind);

// Rows of a side that a join gives alone, beside pairs or in place of them.
enum class Alone : std::uint8_t { None, Matched, Unmatched };

// What a join gives: pairs of rows that match, and rows alone.
struct JoinShape {
    bool pairs = true;
    Alone left = Alone::None;
    Alone right = Alone::None;

    // Whether a side's columns are null in some rows that have none of it.
    [[nodiscard]] bool extends(bool of_left) const {
        return pairs && (of_left ? right : left) != Alone::None;
    }
    // Whether rows whose keys are null come out.
    [[nodiscard]] bool keeps_null_keys(bool of_left) const {
        return (of_left ? left : right) == Alone::Unmatched;
    }
};
JoinShape shape_of(JoinKind kind);

// The same by what is done with the sides: the one with fewer rows is built into a table, the other's rows probe it.
struct JoinRoles {
    JoinRoles(JoinKind kind, u64 left_rows, u64 right_rows);

    bool build_left;
    bool pairs;
    Alone probe;
    Alone build;

    [[nodiscard]] bool only_pairs() const { return probe == Alone::None && build == Alone::None; }
    [[nodiscard]] char const* built() const { return build_left ? "left" : "right"; }
};

// The input columns of both sides that a join compares, pair by pair.
struct JoinKeys {
    JoinKeys(std::string const& what, InputColumns const& left, InputColumns const& right,
             JoinSpec const& spec, Hash hash);
    [[nodiscard]] std::vector<u32> const& of(bool left_side) const {
        return left_side ? left : right;
    }
    [[nodiscard]] bool has(bool left_side, u32 column) const;

    std::vector<u32> left;
    std::vector<u32> right;
};

// A column of a join's result.
struct JoinedColumn {
    static constexpr u32 kNone = ~u32{0};

    bool left = true;
    u32 column = 0;         // of that side's input
    Field field;            // as the result has it
    u32 right_key = kNone;  // of the right's input: what stands here in rows without a left one

    // Whether it has nulls; `has_nulls(left, column)` says so of the inputs' columns.
    template <class HasNulls>
    [[nodiscard]] bool has_null(JoinShape const& shape, JoinKeys const& keys,
                                HasNulls const& has_nulls) const {
        auto const brings = [&](bool of_left, u32 of) {
            return has_nulls(of_left, of) &&
                   (shape.keeps_null_keys(of_left) || !keys.has(of_left, of));
        };
        bool const otherwise = right_key == kNone ? shape.extends(left) : brings(false, right_key);
        return otherwise || brings(left, column);
    }
};
std::vector<JoinedColumn> joined_columns(std::string const& what, InputColumns const& left,
                                         InputColumns const& right, JoinSpec const& spec,
                                         JoinKeys const& keys);

// Whether one type of integers has a sign and the other has none.
bool signs_differ(Type const& a, Type const& b);

}  // namespace mgi::operators
