#include "operators/join_plan.hpp"

#include <algorithm>

namespace mgi::operators {

namespace {

bool contains(std::vector<u32> const& columns, u32 column) {
    return std::find(columns.begin(), columns.end(), column) != columns.end();
}

}  // namespace

JoinPlan::JoinPlan(Input const& left, Input const& right, JoinSpec const& spec, Hash hash,
                   bool texts_in_place)
    : texts_in_place_(texts_in_place), keys_("join", left, right, spec, hash) {
    add_keys(left, right);
    for (JoinedColumn& column : joined_columns("join", left, right, spec, keys_)) {
        if (column.left) {
            add_left(left, column.column);
        } else {
            add_right(right, column.column, std::move(column.field));
        }
    }
    result_schema_ = Schema(fields_);
    finish_row();
}

void JoinPlan::add_keys(Input const& left, Input const& right) {
    std::vector<KeyColumn> left_columns;
    std::vector<KeyColumn> right_columns;
    std::vector<bool> drop_top_bit;
    for (std::size_t k = 0; k < keys_.left.size(); ++k) {
        Field const& a = left.schema()[keys_.left[k]];
        Field const& b = right.schema()[keys_.right[k]];
        u32 const from_left = add_column(left, left_, keys_.left[k], true);
        u32 const from_right = add_column(right, right_, keys_.right[k], true);
        left_columns.push_back({from_left, a.type, left_.nullable[from_left]});
        right_columns.push_back({from_right, b.type, right_.nullable[from_right]});
        drop_top_bit.push_back(signs_differ(a.type, b.type));
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
    result_valid_bits_.push_back(left_.nullable[source] && !contains(keys_.left, column));
}

void JoinPlan::add_right(Input const& right, u32 column, Field field) {
    for (std::size_t k = 0; k < keys_.right.size(); ++k) {
        u32 const source = left_.encoder->columns()[k].column;
        // Equal to the left key, which lies nearer at hand; floats may be equal and yet differ.
        if (keys_.right[k] == column && left_.schema[source].type == field.type &&
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
    value.nullable = right_.nullable[source] && !contains(keys_.right, column);
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
