#include "operators/join_plan.hpp"

#include <algorithm>

namespace mgi::operators {

JoinPlan::JoinPlan(Input const& left, Input const& right, JoinSpec const& spec, Hash hash,
                   bool texts_in_place)
    : texts_in_place_(texts_in_place),
      rules_("join", left, right, spec, hash, left.parts(),
             // One process' endpoints read them where they are.
             [&](bool of_left, u32 column) {
                 Input const& input = of_left ? left : right;
                 return input.of_one_process() ? 0 : input.texts(column).bytes;
             }) {
    if (roles().build_left) {
        add_keys(right, left);
    } else {
        add_keys(left, right);
    }
    std::vector<Field> fields;
    for (JoinedColumn const& column : rules_.columns) {
        JoinColumn& to = columns_.emplace_back();
        find(to, column.left ? left : right, column.left, column.column);
        if (column.right_key != JoinedColumn::kNone) find(to, right, false, column.right_key);
        fields.push_back(column.field);
        result_valid_bits_.push_back(column.has_null(
            rules_.shape, rules_.keys,
            [&](bool of_left, u32 of) { return (of_left ? left : right).has_nulls(of); }));
    }
    result_schema_ = Schema(std::move(fields));
    result_schema_.set_metadata(left.schema().metadata());
    finish_row();
}

void JoinPlan::add_keys(Input const& probe, Input const& build) {
    std::vector<KeyColumn> probe_columns;
    std::vector<KeyColumn> build_columns;
    std::vector<bool> drop_top_bit;
    for (std::size_t k = 0; k < rules_.keys.left.size(); ++k) {
        ComparedKey const& a = rules_.keys.compared(!roles().build_left)[k];
        ComparedKey const& b = rules_.keys.compared(roles().build_left)[k];
        u32 const from_probe = add_key(probe, probe_, a);
        u32 const from_build = add_key(build, build_, b);
        probe_columns.push_back({from_probe, a.type, probe_.nullable[from_probe]});
        build_columns.push_back({from_build, b.type, build_.nullable[from_build]});
        drop_top_bit.push_back(signs_differ(a.type, b.type));
        probe_.keys.push_back(probe_.schema[from_probe].name);
        build_.keys.push_back(build_.schema[from_build].name);
    }
    probe_.encoder.emplace(std::move(probe_columns), NullKeys::Drop, drop_top_bit);
    build_.encoder.emplace(std::move(build_columns), NullKeys::Drop, drop_top_bit);
}

u32 JoinPlan::add_column(Input const& input, JoinSide& side, u32 column, bool is_key) {
    for (std::size_t c = 0; c < side.inputs.size(); ++c) {
        if (side.inputs[c] == column && !side.converted[c]) return u32(c);
    }
    Field field = input.schema()[column];
    field.nullable = input.has_nulls(column);
    // Rows that do not move are read where they lie.
    bool const in_place =
        texts_in_place_ && !roles().broadcast && !is_key && field.type.is_variable();
    if (in_place) field.type = fixed_size_binary(sizeof(RowText));
    return append(side, column, std::move(field), in_place, std::nullopt);
}

u32 JoinPlan::add_key(Input const& input, JoinSide& side, ComparedKey const& key) {
    if (!key.conversion) return add_column(input, side, key.column, true);
    Field field{input.schema()[key.column].name, key.type, true};
    // Keys are named, so no other column may have the name.
    while (has_name(input.schema(), field.name) || has_name(side.schema, field.name)) {
        field.name += '\'';
    }
    return append(side, key.column, std::move(field), false, key.conversion);
}

u32 JoinPlan::append(JoinSide& side, u32 column, Field field, bool in_place,
                     std::optional<KeyConversion> const& converted) {
    side.inputs.push_back(column);
    side.nullable.push_back(field.nullable);
    side.in_place.push_back(in_place);
    side.converted.push_back(converted);
    std::vector<Field> fields = side.schema.fields();
    fields.push_back(std::move(field));
    side.schema = Schema(std::move(fields));
    return static_cast<u32>(side.inputs.size() - 1);
}

void JoinPlan::find(JoinColumn& to, Input const& input, bool left, u32 column) {
    if (left != roles().build_left) {
        to.probe = add_column(input, probe_, column);
    } else if (u32 const same = same_in_probe(input.schema()[column].type, column);
               same != JoinColumn::kNone) {
        to.probe = same;
    } else {
        to.built = add_built(input, column);
    }
}

u32 JoinPlan::same_in_probe(Type const& type, u32 build_column) const {
    // Floats may be equal and yet differ.
    if (!roles().only_pairs() || type.is_float()) return JoinColumn::kNone;
    std::vector<u32> const& keys = rules_.keys.of(roles().build_left);
    for (std::size_t k = 0; k < keys.size(); ++k) {
        u32 const in_probe = probe_.encoder->columns()[k].column;
        if (keys[k] == build_column && probe_.schema[in_probe].type == type) return in_probe;
    }
    return JoinColumn::kNone;
}

u32 JoinPlan::add_built(Input const& input, u32 column) {
    BuiltValue value;
    value.column = add_column(input, build_, column);
    value.type = input.schema()[column].type;
    // A probing row without a partner is put beside a built row of nulls.
    bool const extends = roles().pairs && roles().probe == Alone::Unmatched;
    bool const null_keys = roles().build == Alone::Unmatched;
    value.nullable = extends || (build_.nullable[value.column] &&
                                 (null_keys || !rules_.keys.has(roles().build_left, column)));
    value.in_place = build_.in_place[value.column];
    built_.push_back(value);
    built_has_texts_ = built_has_texts_ || (value.type.is_variable() && !value.in_place);
    return static_cast<u32>(built_.size() - 1);
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
    row_bytes_ = build_.encoder->words() * 8;
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
    if (marks()) mark_ = row_bytes_++;
    row_bytes_ = (row_bytes_ + 7) / 8 * 8;
}

}  // namespace mgi::operators
