#include "operators/group_by_plan.hpp"

#include <algorithm>

namespace mgi::operators {

namespace {

// Digits that always fit 64 bits.
constexpr int kNarrowDigits = 18;

bool is_narrow_decimal(Type const& type) {
    return type.id == TypeId::Decimal128 && type.precision <= kNarrowDigits;
}

Type sum_type(Type const& source) {
    if (source.is_float()) return float64();
    if (source.id == TypeId::Decimal128) return decimal128(38, source.scale);
    return int64();
}

}  // namespace

GroupByPlan::GroupByPlan(Input const& input, std::vector<std::string> const& keys,
                         std::vector<Aggregate> const& aggregates, bool wide)
    : input_(input), wide_(wide), nulls_(input.schema().size(), -1) {
    add_keys(keys);
    for (Aggregate const& aggregate : aggregates) add_result(aggregate);
    finish();
}

bool GroupByPlan::has_nulls(u32 column) {
    if (nulls_[column] < 0) nulls_[column] = input_.has_nulls(column) ? 1 : 0;
    return nulls_[column] == 1;
}

void GroupByPlan::add_keys(std::vector<std::string> const& keys) {
    std::vector<KeyColumn> columns;
    for (std::string const& name : keys) {
        u32 const column = input_.column(name);
        Field const& field = input_.schema()[column];
        u32 const raw = static_cast<u32>(raw_.size());
        add_raw(column, RawColumn::Form::Whole);
        columns.push_back({raw, field.type, raw_[raw].nullable});
        result_fields_.push_back(field);
        result_valid_bits_.push_back(raw_[raw].nullable);
    }
    encoder_.emplace(std::move(columns), NullKeys::Equal);
}

u32 GroupByPlan::add_raw(u32 column, RawColumn::Form form) {
    for (u32 r = 0; r < raw_.size(); ++r) {
        if (raw_[r].input == column && raw_[r].form == form) return r;
    }
    RawColumn raw;
    raw.input = column;
    raw.form = form;
    raw.type = form == RawColumn::Form::Whole    ? input_.schema()[column].type
               : form == RawColumn::Form::Narrow ? int64()
                                                 : boolean();
    raw.nullable = form != RawColumn::Form::Presence && has_nulls(column);
    raw_.push_back(raw);
    bool const seen =
        std::find(input_columns_.begin(), input_columns_.end(), column) != input_columns_.end();
    // Of a presence only a bit travels.
    if (!seen && form != RawColumn::Form::Presence) input_columns_.push_back(column);
    return static_cast<u32>(raw_.size() - 1);
}

u32 GroupByPlan::add_state(Fold fold, Order order, u32 raw, std::string const& name) {
    for (u32 s = 0; s < states_.size(); ++s) {
        bool const same_source = fold == Fold::CountRows || states_[s].column == raw;
        if (states_[s].fold == fold && same_source) return s;
    }
    State state;
    state.fold = fold;
    state.order = order;
    state.column = raw;
    state.name = name;
    states_.push_back(state);
    return static_cast<u32>(states_.size() - 1);
}

u32 GroupByPlan::count_of(u32 column) {
    if (!has_nulls(column)) return add_state(Fold::CountRows, Order::Signed, 0, "");
    // Where the values travel anyway, their validity does too.
    for (u32 r = 0; r < raw_.size(); ++r) {
        if (raw_[r].input == column && raw_[r].form != RawColumn::Form::Presence) {
            return add_state(Fold::CountValid, Order::Signed, r, "");
        }
    }
    return add_state(Fold::CountBits, Order::Signed, add_raw(column, RawColumn::Form::Presence),
                     "");
}

void GroupByPlan::add_result(Aggregate const& aggregate) {
    ResultColumn result;
    result.function = aggregate.function;
    result.name = aggregate.column;
    Field field;
    bool can_be_null = false;
    field.name = aggregate.name;
    check_aggregate(input_.what(), aggregate);
    if (aggregate.column.empty()) {
        result.state = add_state(Fold::CountRows, Order::Signed, 0, "");
        field.type = int64();
    } else {
        u32 const column = input_.column(aggregate.column);
        Field const& source = input_.schema()[column];
        result.source = source.type;
        field.nullable = source.nullable;
        switch (aggregate.function) {
            case AggregateFunction::Count:
                field.type = int64();
                field.nullable = false;
                result.state = count_of(column);
                break;
            case AggregateFunction::Sum:
                add_sum(result, column);
                field.type = sum_type(source.type);
                break;
            case AggregateFunction::Avg:
                add_sum(result, column);
                field.type = float64();
                result.count = count_of(column);
                break;
            default:
                add_extreme(result, column, aggregate.function == AggregateFunction::Min);
                field.type = source.type;
        }
        can_be_null = aggregate.function != AggregateFunction::Count && has_nulls(column);
        if (can_be_null) result.count = count_of(column);
    }
    result_valid_bits_.push_back(can_be_null);
    result_fields_.push_back(field);
    results_.push_back(result);
}

void GroupByPlan::add_sum(ResultColumn& result, u32 column) {
    Field const& source = input_.schema()[column];
    Type const& type = source.type;
    using Form = RawColumn::Form;
    if (type.is_float()) {
        result.state =
            add_state(Fold::SumFloat, Order::Signed, add_raw(column, Form::Whole), source.name);
    } else if (type.is_integer()) {
        Fold const fold = wide_ || type.id == TypeId::UInt64 ? Fold::Sum128 : Fold::Sum64;
        result.state = add_state(fold, Order::Signed, add_raw(column, Form::Whole), source.name);
    } else if (type.id == TypeId::Decimal128) {
        bool const narrow = !wide_ && is_narrow_decimal(type);
        result.state = add_state(narrow ? Fold::Sum64 : Fold::Sum128, Order::Signed,
                                 add_raw(column, narrow ? Form::Narrow : Form::Whole), source.name);
    } else {
        refuse_type(input_.what(), result.function, source,
                    "it takes integers, floats and decimals");
    }
}

void GroupByPlan::add_extreme(ResultColumn& result, u32 column, bool minimum) {
    Field const& source = input_.schema()[column];
    Type const& type = source.type;
    RawColumn::Form form = RawColumn::Form::Whole;
    Fold fold = minimum ? Fold::Min64 : Fold::Max64;
    Order order = Order::Signed;
    if (type.is_variable()) {
        fold = minimum ? Fold::MinText : Fold::MaxText;
    } else if (type.id == TypeId::FixedSizeBinary) {
        refuse_type(input_.what(), result.function, source, "cast it to binary first");
    } else if (type.id == TypeId::Decimal128) {
        if (!wide_ && is_narrow_decimal(type)) {
            form = RawColumn::Form::Narrow;
        } else {
            fold = minimum ? Fold::Min128 : Fold::Max128;
        }
    } else if (type.is_float()) {
        order = Order::Float;
    } else if (type.id == TypeId::UInt64) {
        order = Order::Unsigned;
    }
    result.state = add_state(fold, order, add_raw(column, form), source.name);
}

void GroupByPlan::finish() {
    layout_.key_words = encoder_->words();
    layout_.text_words = encoder_->text_words();
    u32 const key_count = static_cast<u32>(encoder_->columns().size());
    for (std::size_t s = 0; s < states_.size(); ++s) {
        states_[s].offset = layout_.row_bytes();
        append_empty_state(states_[s].fold, layout_.states);
        partial_states_.push_back(travelling(states_[s]));
        partial_states_.back().column = key_count + static_cast<u32>(s);
    }
    std::vector<Field> raw;
    std::vector<Field> partial;
    for (u32 r = 0; r < raw_.size(); ++r) {
        // Numbered, since a column may travel in several forms.
        std::string const name = std::to_string(r) + ":" + input_.schema()[raw_[r].input].name;
        raw.push_back({name, raw_[r].type, raw_[r].nullable});
        if (r >= key_count) continue;
        key_names_.push_back(name);
        partial.push_back(raw.back());
        partial_valid_bits_.push_back(raw_[r].nullable);
    }
    for (State const& state : states_) {
        bool const text = state_is_text(state.fold);
        partial.push_back(
            {std::to_string(partial.size()) + ":" + state.name, state_type(state.fold), text});
        partial_valid_bits_.push_back(text);
    }
    raw_schema_ = Schema(std::move(raw));
    partial_schema_ = Schema(std::move(partial));
    check_result(input_.what(), result_fields_);
    result_schema_ = Schema(result_fields_);
}

}  // namespace mgi::operators
