#include "operators/rules.hpp"

#include <algorithm>
#include <numeric>

#include "core/arrow_field.hpp"

namespace mgi::operators {

namespace {

bool is_unsigned(Type const& type) {
    return type.id >= TypeId::UInt8 && type.id <= TypeId::UInt64;
}

bool is_decimal(Type const& type) {
    return type.id == TypeId::Decimal128;
}

bool is_duration(Type const& type) {
    return type.meaning().substr(0, 9) == "duration[";
}

// Whether a dictionary's categories are known of one, and not of the other.
bool knows_more(Type const& one, Type const& other) {
    return one.arrow != nullptr && one.arrow->categories != nullptr && other.arrow != nullptr &&
           other.arrow->dictionary != nullptr && other.arrow->categories == nullptr;
}

bool knows_more(Schema const& one, Schema const& other) {
    for (std::size_t c = 0; c < one.size(); ++c) {
        if (knows_more(one[c].type, other[c].type)) return true;
    }
    return false;
}

// Of columns that are alike otherwise.
bool same_nulls(Schema const& one, Schema const& other) {
    for (std::size_t c = 0; c < one.size(); ++c) {
        if (one[c].nullable != other[c].nullable) return false;
    }
    return true;
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

bool has_name(Schema const& schema, std::string const& name) {
    return std::any_of(schema.fields().begin(), schema.fields().end(),
                       [&](Field const& field) { return field.name == name; });
}

u32 InputColumns::column(std::string const& name) const {
    try {
        return static_cast<u32>(schema_.index_of(name));
    } catch (Error const& error) {
        refuse(what_, error.what());
    }
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

bool is_null_type(Type const& type) {
    return type.arrow != nullptr && type.arrow->format == "n";
}

void InputColumns::join_in(Schema const& joined, std::string const& where, bool nulls_fit) {
    if (joined.empty()) refuse(what_, where + " has no columns");
    if (schema_.empty()) {
        schema_ = joined;
        return;
    }
    auto const fits = [&](Schema const& other) {
        return schema_.holds(other) && same_nulls(other, schema_) && !knows_more(other, schema_);
    };
    // As good as always.
    if (fits(joined)) return;
    Schema schema = joined;
    if (nulls_fit && joined.size() == schema_.size()) {
        std::vector<Field> own = schema_.fields();
        std::vector<Field> others = joined.fields();
        for (u32 c = 0; c < own.size(); ++c) {
            if (is_null_type(own[c].type)) own[c].type = others[c].type;
            if (is_null_type(others[c].type)) others[c].type = own[c].type;
        }
        set_fields(std::move(own));
        schema = Schema(std::move(others));
    }
    if (fits(schema)) return;
    if (!schema_.holds(schema)) {
        refuse(what_, where + " has columns " + schema.to_string() + ", others have " +
                          schema_.to_string());
    }
    std::vector<Field> fields = schema_.fields();
    for (u32 c = 0; c < fields.size(); ++c) {
        if (knows_more(schema[c].type, fields[c].type)) fields[c].type = schema[c].type;
    }
    set_fields(std::move(fields));
    allow_nulls([&](u32 c) { return schema[c].nullable; });
}

void check_key(std::string const& what, Field const& field) {
    if (field.type.is_key()) return;
    refuse(what,
           "column '" + field.name + "' is " + field.type.to_string() +
               "; maps, unions, and lists and structs of floats are no keys, since equal ones "
               "may have other bytes (docs/limits.md)");
}

void check_keys(InputColumns const& input, std::vector<u32> const& keys, Hash hash) {
    if (keys.empty()) refuse(input.what(), "no key columns");
    for (auto key = keys.begin(); key != keys.end(); ++key) {
        if (std::find(keys.begin(), key, *key) == key) continue;
        refuse(input.what(), "key column '" + input.schema()[*key].name + "' is given twice");
    }
    for (u32 const key : keys) check_key(input.what(), input.schema()[key]);
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
        case AggregateFunction::Count: return result;
        case AggregateFunction::CountDistinct: check_key(what, *column); return result;
        case AggregateFunction::Min:
        case AggregateFunction::Max:
            if (!column->type.has_order()) {
                refuse(what, std::string(name_of(aggregate.function)) + " of column '" +
                                 column->name + "', which is " + column->type.to_string() +
                                 ": its values have no order (docs/limits.md)");
            }
            result.type = column->type;
            break;
        case AggregateFunction::First: result.type = column->type; break;
        case AggregateFunction::Sum:
            if (is_duration(column->type)) {
                result.type = column->type;
                break;
            }
            numbers_only = true;
            if (column->type.is_float()) result.type = float64();
            if (is_decimal(column->type)) result.type = decimal128(38, column->type.scale);
            break;
        default: numbers_only = true; result.type = float64();
    }
    if (numbers_only && !column->type.is_number()) {
        refuse(what, std::string(name_of(aggregate.function)) + " of column '" + column->name +
                         "', which is " + column->type.to_string() +
                         "; it takes integers, floats and decimals");
    }
    // One value has no variance.
    result.nullable = column->nullable || is_variance(aggregate.function);
    return result;
}

bool signs_differ(Type const& a, Type const& b) {
    return a.is_integer() && b.is_integer() && is_unsigned(a) != is_unsigned(b);
}

}  // namespace mgi::operators
