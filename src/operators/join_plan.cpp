#include "operators/join_plan.hpp"

#include <algorithm>

namespace mgi::operators {

namespace {

[[noreturn]] void refuse(std::string const& why) {
    throw Error(ErrorCode::InvalidArgument, "join: " + why);
}

bool is_unsigned(Type const& type) {
    return type.id >= TypeId::UInt8 && type.id <= TypeId::UInt64;
}

// Whether values of the types can be compared as they are.
bool comparable(Type const& a, Type const& b) {
    if (a.is_integer() && b.is_integer()) return true;
    if (a.is_float() && b.is_float()) return true;
    if (a.id == TypeId::Decimal128 && b.id == TypeId::Decimal128) return a.scale == b.scale;
    return a == b;
}

bool contains(std::vector<u32> const& columns, u32 column) {
    return std::find(columns.begin(), columns.end(), column) != columns.end();
}

std::vector<u32> all_columns(Input const& input) {
    std::vector<u32> all(input.schema().size());
    for (u32 c = 0; c < all.size(); ++c) all[c] = c;
    return all;
}

}  // namespace

JoinPlan::JoinPlan(Input const& left, Input const& right, JoinSpec const& spec, Hash hash,
                   bool texts_in_place)
    : texts_in_place_(texts_in_place) {
    match_keys(left, right, spec);
    check_keys(left, left_keys_, hash);
    check_keys(right, right_keys_, hash);

    std::vector<u32> const from_left =
        spec.left_columns.empty() ? all_columns(left) : left.columns(spec.left_columns);
    for (u32 const column : from_left) add_left(left, column);
    bool const listed = !spec.right_columns.empty();
    std::vector<u32> const from_right =
        listed ? right.columns(spec.right_columns) : all_columns(right);
    for (u32 const column : from_right) {
        std::string const& name = right.schema()[column].name;
        bool same_key = false;
        for (std::size_t k = 0; k < right_keys_.size(); ++k) {
            same_key =
                same_key || (right_keys_[k] == column && left.schema()[left_keys_[k]].name == name);
        }
        if (same_key && !listed) continue;
        bool taken = false;
        for (Field const& field : left.schema().fields()) taken = taken || field.name == name;
        add_right(right, column, taken ? name + "_right" : name);
    }
    for (std::size_t a = 0; a < fields_.size(); ++a) {
        for (std::size_t b = 0; b < a; ++b) {
            if (fields_[a].name == fields_[b].name) {
                refuse("two columns of the result are named '" + fields_[a].name + "'");
            }
        }
    }
    if (fields_.empty()) refuse("the result has no columns");
    result_schema_ = Schema(fields_);
    finish_row();
}

void JoinPlan::match_keys(Input const& left, Input const& right, JoinSpec const& spec) {
    if (spec.left_keys.size() != spec.right_keys.size()) {
        refuse(std::to_string(spec.left_keys.size()) + " left keys and " +
               std::to_string(spec.right_keys.size()) + " right keys");
    }
    left_keys_ = left.columns(spec.left_keys);
    right_keys_ = right.columns(spec.right_keys);
    std::vector<KeyColumn> left_columns;
    std::vector<KeyColumn> right_columns;
    std::vector<bool> drop_top_bit;
    for (std::size_t k = 0; k < left_keys_.size(); ++k) {
        Field const& a = left.schema()[left_keys_[k]];
        Field const& b = right.schema()[right_keys_[k]];
        if (!comparable(a.type, b.type)) {
            refuse("key '" + a.name + "' is " + a.type.to_string() + " on the left, '" + b.name +
                   "' is " + b.type.to_string() + " on the right; cast one of them");
        }
        for (std::size_t other = 0; other < k; ++other) {
            if (left_keys_[other] == left_keys_[k] || right_keys_[other] == right_keys_[k]) {
                refuse("key column '" + (left_keys_[other] == left_keys_[k] ? a.name : b.name) +
                       "' is given twice");
            }
        }
        u32 const from_left = add_column(left, left_, left_keys_[k], true);
        u32 const from_right = add_column(right, right_, right_keys_[k], true);
        left_columns.push_back({from_left, a.type, left_.nullable[from_left]});
        right_columns.push_back({from_right, b.type, right_.nullable[from_right]});
        drop_top_bit.push_back(a.type.is_integer() && is_unsigned(a.type) != is_unsigned(b.type));
        left_.keys.push_back(a.name);
        right_.keys.push_back(b.name);
    }
    left_.encoder.emplace(std::move(left_columns), NullKeys::Drop, drop_top_bit);
    right_.encoder.emplace(std::move(right_columns), NullKeys::Drop, drop_top_bit);
}

u32 JoinPlan::add_column(Input const& input, JoinSide& side, u32 column, bool is_key) {
    auto const at = std::find(side.inputs.begin(), side.inputs.end(), column);
    if (at != side.inputs.end()) return static_cast<u32>(at - side.inputs.begin());
    side.inputs.push_back(column);
    side.nullable.push_back(input.has_nulls(column));
    side.in_place.push_back(texts_in_place_ && !is_key &&
                            input.schema()[column].type.is_variable());
    std::vector<Field> fields = side.schema.fields();
    fields.push_back(input.schema()[column]);
    fields.back().nullable = side.nullable.back();
    if (side.in_place.back()) fields.back().type = fixed_size_binary(sizeof(RowText));
    side.schema = Schema(std::move(fields));
    return static_cast<u32>(side.inputs.size() - 1);
}

void JoinPlan::add_left(Input const& left, u32 column) {
    u32 const source = add_column(left, left_, column);
    columns_.push_back({true, source});
    fields_.push_back(left.schema()[column]);
    // A row with a null key is not in the result.
    result_valid_bits_.push_back(left_.nullable[source] && !contains(left_keys_, column));
}

void JoinPlan::add_right(Input const& right, u32 column, std::string name) {
    Field field = right.schema()[column];
    field.name = std::move(name);
    for (std::size_t k = 0; k < right_keys_.size(); ++k) {
        u32 const source = left_.encoder->columns()[k].column;
        // Equal to the left key, which lies nearer at hand; floats may be equal and yet differ.
        if (right_keys_[k] == column && left_.schema[source].type == field.type &&
            !field.type.is_float()) {
            columns_.push_back({true, source});
            fields_.push_back(std::move(field));
            result_valid_bits_.push_back(false);
            return;
        }
    }
    u32 const source = add_column(right, right_, column);
    columns_.push_back({false, static_cast<u32>(built_.size())});
    BuiltValue value;
    value.column = source;
    value.type = field.type;
    value.nullable = right_.nullable[source] && !contains(right_keys_, column);
    value.in_place = right_.in_place[source];
    built_.push_back(value);
    built_has_texts_ = built_has_texts_ || (field.type.is_variable() && !value.in_place);
    result_valid_bits_.push_back(value.nullable);
    fields_.push_back(std::move(field));
}

std::vector<u32> JoinSide::moved_texts() const {
    std::vector<u32> moved;
    for (std::size_t c = 0; c < inputs.size(); ++c) {
        if (schema.fields()[c].type.is_variable()) moved.push_back(inputs[c]);
    }
    return moved;
}

// Lays a row out: words of the key, values by falling width so that none is split, bytes last.
void JoinPlan::finish_row() {
    row_bytes_ = right_.encoder->words() * 8;
    auto const width_of = [](BuiltValue const& value) {
        return value.type.id == TypeId::Bool ? 1u : value.type.row_width();
    };
    std::vector<BuiltValue*> order;
    for (BuiltValue& value : built_) order.push_back(&value);
    auto const alignment = [&](BuiltValue const& value) {
        u32 const width = width_of(value);
        return width % 8 == 0 ? 8u : width % 4 == 0 ? 4u : width % 2 == 0 ? 2u : 1u;
    };
    std::stable_sort(order.begin(), order.end(),
                     [&](BuiltValue* a, BuiltValue* b) { return alignment(*a) > alignment(*b); });
    for (BuiltValue* value : order) {
        value->offset = row_bytes_;
        row_bytes_ += width_of(*value);
    }
    for (BuiltValue* value : order) {
        if (value->nullable) value->validity = row_bytes_++;
    }
    row_bytes_ = (row_bytes_ + 7) / 8 * 8;
}

}  // namespace mgi::operators
