#include "operators/rules.hpp"

#include <algorithm>
#include <numeric>

namespace mgi::operators {

namespace {

bool is_unsigned(Type const& type) {
    return type.id >= TypeId::UInt8 && type.id <= TypeId::UInt64;
}

bool is_decimal(Type const& type) {
    return type.id == TypeId::Decimal128;
}

bool is_number(Type const& type) {
    return type.is_integer() || type.is_float() || is_decimal(type);
}

// Whether values of the types can be compared as they are.
bool comparable(Type const& a, Type const& b) {
    if (a.is_integer() && b.is_integer()) return true;
    if (a.is_float() && b.is_float()) return true;
    if (a.id == TypeId::Decimal128 && b.id == TypeId::Decimal128) return a.scale == b.scale;
    return a == b;
}

bool has_name(Schema const& schema, std::string const& name) {
    return std::any_of(schema.fields().begin(), schema.fields().end(),
                       [&](Field const& field) { return field.name == name; });
}

// Of a key that both sides call the same: the right's where a row has no left partner.
void take_either(std::string const& what, std::vector<JoinedColumn>& columns, Field const& left,
                 u32 left_key, Field const& right, u32 right_key) {
    for (JoinedColumn& column : columns) {
        if (!column.left || column.column != left_key) continue;
        if (left.type != right.type) {
            refuse(what, "key '" + right.name + "' is " + left.type.to_string() +
                             " on the left and " + right.type.to_string() +
                             " on the right, and rows without a left partner would hold the "
                             "right's; cast one of them, or name the right's columns");
        }
        column.right_key = right_key;
        column.field.nullable = left.nullable || right.nullable;
    }
}

}  // namespace

void refuse(std::string const& what, std::string const& why) {
    throw Error(ErrorCode::InvalidArgument, what + ": " + why);
}

char const* name_of(AggregateFunction function) {
    switch (function) {
        case AggregateFunction::Sum: return "sum";
        case AggregateFunction::Count: return "count";
        case AggregateFunction::Min: return "min";
        case AggregateFunction::Max: return "max";
        case AggregateFunction::Avg: return "avg";
        case AggregateFunction::Variance: return "var";
        case AggregateFunction::StdDev: return "std";
        case AggregateFunction::First: return "first";
        case AggregateFunction::CountDistinct: return "count_distinct";
    }
    return "?";
}

AggregateFunction function_named(std::string const& name) {
    using F = AggregateFunction;
    static constexpr F all[] = {F::Sum,      F::Count,  F::Min,   F::Max,          F::Avg,
                                F::Variance, F::StdDev, F::First, F::CountDistinct};
    static constexpr std::pair<char const*, F> others[] = {
        {"variance", F::Variance}, {"stddev", F::StdDev}, {"any_value", F::First}};
    std::string known;
    for (F const function : all) {
        if (name == name_of(function)) return function;
        known += (known.empty() ? "" : ", ") + std::string(name_of(function));
    }
    for (auto const& [other, function] : others) {
        if (name == other) return function;
    }
    throw Error(ErrorCode::InvalidArgument,
                "there is no aggregate '" + name + "'; there are: " + known);
}

u32 InputColumns::column(std::string const& name) const {
    std::string names;
    for (u32 c = 0; c < schema_.size(); ++c) {
        if (schema_[c].name == name) return c;
        names += (names.empty() ? "" : ", ") + schema_[c].name;
    }
    refuse(what_, "no column '" + name + "'; there are: " + names);
}

std::vector<u32> InputColumns::columns(std::vector<std::string> const& names) const {
    std::vector<u32> columns;
    columns.reserve(names.size());
    for (std::string const& name : names) columns.push_back(column(name));
    return columns;
}

std::vector<u32> InputColumns::columns_or_all(std::vector<std::string> const& names) const {
    if (!names.empty()) return columns(names);
    std::vector<u32> all(schema_.size());
    std::iota(all.begin(), all.end(), 0u);
    return all;
}

void InputColumns::check_parts(std::size_t parts, std::size_t endpoints) const {
    if (parts == endpoints) return;
    refuse(what_, std::to_string(parts) + " parts for " + std::to_string(endpoints) +
                      " endpoints; part i is what lies at endpoint i");
}

void InputColumns::join_in(Schema const& schema, std::string const& where) {
    if (schema.empty()) refuse(what_, where + " has no columns");
    if (schema_.empty()) {
        schema_ = schema;
        return;
    }
    if (schema == schema_) return;
    if (!schema.same_columns(schema_)) {
        refuse(what_, where + " has columns " + schema.to_string() + ", others have " +
                          schema_.to_string());
    }
    std::vector<Field> fields = schema_.fields();
    for (std::size_t c = 0; c < fields.size(); ++c) {
        fields[c].nullable = fields[c].nullable || schema[c].nullable;
    }
    schema_ = Schema(std::move(fields));
}

void check_keys(InputColumns const& input, std::vector<u32> const& keys, Hash hash) {
    if (keys.empty()) refuse(input.what(), "no key columns");
    for (auto key = keys.begin(); key != keys.end(); ++key) {
        if (std::find(keys.begin(), key, *key) == key) continue;
        refuse(input.what(), "key column '" + input.schema()[*key].name + "' is given twice");
    }
    if (hash != Hash::Modulo) return;
    if (keys.size() != 1) {
        refuse(input.what(), "Modulo takes one key, not " + std::to_string(keys.size()));
    }
    Field const& field = input.schema()[keys[0]];
    if (!field.type.is_integer()) {
        refuse(input.what(),
               "Modulo takes an integer key; '" + field.name + "' is " + field.type.to_string());
    }
}

void check_result(std::string const& what, std::vector<Field> const& fields) {
    for (std::size_t a = 0; a < fields.size(); ++a) {
        for (std::size_t b = 0; b < a; ++b) {
            if (fields[a].name != fields[b].name) continue;
            refuse(what, "two columns of the result are named '" + fields[a].name + "'");
        }
    }
}

void check_aggregate(std::string const& what, Aggregate const& aggregate) {
    std::string const function = name_of(aggregate.function);
    if (aggregate.name.empty()) {
        refuse(what, function + "(" + aggregate.column + ") has no name for its result");
    }
    if (aggregate.column.empty() && aggregate.function != AggregateFunction::Count) {
        refuse(what, function + " needs a column (result '" + aggregate.name + "')");
    }
}

Field aggregated(std::string const& what, Aggregate const& aggregate, Field const* column) {
    check_aggregate(what, aggregate);
    Field result{aggregate.name, int64(), false};
    bool numbers_only = false;
    switch (aggregate.function) {
        case AggregateFunction::Count:
        case AggregateFunction::CountDistinct: return result;
        case AggregateFunction::Min:
        case AggregateFunction::Max:
        case AggregateFunction::First: result.type = column->type; break;
        case AggregateFunction::Sum:
            numbers_only = true;
            if (column->type.is_float()) result.type = float64();
            if (is_decimal(column->type)) result.type = decimal128(38, column->type.scale);
            break;
        default: numbers_only = true; result.type = float64();
    }
    if (numbers_only && !is_number(column->type)) {
        refuse(what, std::string(name_of(aggregate.function)) + " of column '" + column->name +
                         "', which is " + column->type.to_string() +
                         "; it takes integers, floats and decimals");
    }
    // One value has no variance.
    result.nullable = column->nullable || is_variance(aggregate.function);
    return result;
}

char const* name_of(JoinKind kind) {
    switch (kind) {
        case JoinKind::Inner: return "inner";
        case JoinKind::Left: return "left";
        case JoinKind::Right: return "right";
        case JoinKind::Full: return "full";
        case JoinKind::Semi: return "semi";
        default: return "anti";
    }
}

JoinShape shape_of(JoinKind kind) {
    switch (kind) {
        case JoinKind::Inner: return {};
        case JoinKind::Left: return {true, Alone::Unmatched, Alone::None};
        case JoinKind::Right: return {true, Alone::None, Alone::Unmatched};
        case JoinKind::Full: return {true, Alone::Unmatched, Alone::Unmatched};
        case JoinKind::Semi: return {false, Alone::Matched, Alone::None};
        default: return {false, Alone::Unmatched, Alone::None};
    }
}

JoinRoles::JoinRoles(JoinKind kind, u64 left_rows, u64 right_rows)
    : build_left(left_rows < right_rows) {
    JoinShape const shape = shape_of(kind);
    pairs = shape.pairs;
    probe = build_left ? shape.right : shape.left;
    build = build_left ? shape.left : shape.right;
}

JoinKeys::JoinKeys(std::string const& what, InputColumns const& left_input,
                   InputColumns const& right_input, JoinSpec const& spec, Hash hash) {
    if (spec.left_keys.size() != spec.right_keys.size()) {
        refuse(what, std::to_string(spec.left_keys.size()) + " left keys and " +
                         std::to_string(spec.right_keys.size()) + " right keys");
    }
    left = left_input.columns(spec.left_keys);
    right = right_input.columns(spec.right_keys);
    check_keys(left_input, left, hash);
    check_keys(right_input, right, hash);
    for (std::size_t k = 0; k < left.size(); ++k) {
        Field const& a = left_input.schema()[left[k]];
        Field const& b = right_input.schema()[right[k]];
        if (comparable(a.type, b.type)) continue;
        refuse(what, "key '" + a.name + "' is " + a.type.to_string() + " on the left, '" + b.name +
                         "' is " + b.type.to_string() + " on the right; cast one of them");
    }
}

bool JoinKeys::has(bool left_side, u32 column) const {
    std::vector<u32> const& keys = of(left_side);
    return std::find(keys.begin(), keys.end(), column) != keys.end();
}

std::vector<JoinedColumn> joined_columns(std::string const& what, InputColumns const& left,
                                         InputColumns const& right, JoinSpec const& spec,
                                         JoinKeys const& keys) {
    JoinShape const shape = shape_of(spec.kind);
    if (!shape.pairs && !spec.right_columns.empty()) {
        refuse(what, std::string("a join of kind ") + name_of(spec.kind) +
                         " gives no column of the right, such as '" + spec.right_columns[0] +
                         "'; leave right_columns empty");
    }
    std::vector<JoinedColumn> columns;
    for (u32 const column : left.columns_or_all(spec.left_columns)) {
        Field field = left.schema()[column];
        field.nullable = field.nullable || shape.extends(true);
        columns.push_back({true, column, std::move(field)});
    }
    std::vector<u32> const of_right =
        shape.pairs ? right.columns_or_all(spec.right_columns) : std::vector<u32>();
    for (u32 const column : of_right) {
        Field field = right.schema()[column];
        std::size_t key = 0;
        while (key < keys.right.size() &&
               (keys.right[key] != column || left.schema()[keys.left[key]].name != field.name)) {
            ++key;
        }
        if (key != keys.right.size() && spec.right_columns.empty()) {
            if (shape.extends(true)) {
                u32 const left_key = keys.left[key];
                take_either(what, columns, left.schema()[left_key], left_key, field, column);
            }
            continue;
        }
        if (has_name(left.schema(), field.name)) field.name += "_right";
        field.nullable = field.nullable || shape.extends(false);
        columns.push_back({false, column, std::move(field)});
    }
    std::vector<Field> fields;
    for (JoinedColumn const& column : columns) fields.push_back(column.field);
    check_result(what, fields);
    if (columns.empty()) refuse(what, "the result has no columns");
    return columns;
}

bool signs_differ(Type const& a, Type const& b) {
    return a.is_integer() && b.is_integer() && is_unsigned(a) != is_unsigned(b);
}

}  // namespace mgi::operators
