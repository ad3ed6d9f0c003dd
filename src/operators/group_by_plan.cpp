#include "operators/group_by_plan.hpp"

#include <algorithm>
#include <atomic>

namespace mgi::operators {

namespace {

// Digits that always fit 64 bits.
constexpr int kNarrowDigits = 18;

// Another odd number for each call: what one gives lies in the order of its scattered hashes, and may be the next one's input.
u32 next_scatter() {
    static std::atomic<u32> calls{0};
    u32 mixed = calls.fetch_add(1, std::memory_order_relaxed) * 0x9E3779B9;
    mixed = (mixed ^ mixed >> 16) * 0x85EBCA6B;
    mixed = (mixed ^ mixed >> 13) * 0xC2B2AE35;
    return (mixed ^ mixed >> 16) | 1;
}

bool is_narrow_decimal(Type const& type) {
    return type.id == TypeId::Decimal128 && type.precision <= kNarrowDigits;
}

}  // namespace

GroupByPlan::GroupByPlan(Input const& input, std::vector<std::string> const& keys,
                         std::vector<Aggregate> const& aggregates, bool wide)
    : input_(input), wide_(wide), scatter_(next_scatter()), nulls_(input.schema().size(), -1) {
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

std::vector<u32> GroupByPlan::partial_columns() const {
    std::vector<u32> columns;
    for (u32 key = 0; key < key_names_.size(); ++key) columns.push_back(raw_[key].input);
    for (State const& state : states_) {
        if (state_is_text(state.fold)) columns.push_back(raw_[state.column].input);
    }
    return columns;
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
    bool can_be_null = false;
    if (aggregate.column.empty()) {
        result_fields_.push_back(aggregated(input_.what(), aggregate, nullptr));
        result.state = add_state(Fold::CountRows, Order::Signed, 0, "");
    } else {
        u32 const column = input_.column(aggregate.column);
        result.source = input_.schema()[column].type;
        result_fields_.push_back(aggregated(input_.what(), aggregate, &input_.schema()[column]));
        add_state_of(result, column);
        bool const counts = aggregate.function == AggregateFunction::Count ||
                            aggregate.function == AggregateFunction::CountDistinct;
        can_be_null = is_variance(aggregate.function) || (!counts && has_nulls(column));
        if (can_be_null && !is_variance(aggregate.function)) result.count = count_of(column);
    }
    result_valid_bits_.push_back(can_be_null);
    results_.push_back(result);
}

void GroupByPlan::add_state_of(ResultColumn& result, u32 column) {
    switch (result.function) {
        case AggregateFunction::Count: result.state = count_of(column); break;
        case AggregateFunction::Sum: add_sum(result, column); break;
        case AggregateFunction::Avg:
            add_sum(result, column);
            result.count = count_of(column);
            break;
        case AggregateFunction::Max: add_extreme(result, column, false); break;
        case AggregateFunction::Min:
        // The least one is a value like any other, and does not depend on the rows' order.
        case AggregateFunction::First: add_extreme(result, column, true); break;
        case AggregateFunction::Variance:
        case AggregateFunction::StdDev:
            result.state = add_state(Fold::Moments, Order::Signed, add_raw(column, form_of(column)),
                                     input_.schema()[column].name);
            break;
        case AggregateFunction::CountDistinct: add_distinct(result, column); break;
    }
}

RawColumn::Form GroupByPlan::form_of(u32 column) const {
    bool const narrow = !wide_ && is_narrow_decimal(input_.schema()[column].type);
    return narrow ? RawColumn::Form::Narrow : RawColumn::Form::Whole;
}

void GroupByPlan::add_sum(ResultColumn& result, u32 column) {
    Field const& source = input_.schema()[column];
    RawColumn::Form const form = form_of(column);
    Fold fold = Fold::Sum64;
    if (source.type.is_float()) {
        fold = Fold::SumFloat;
    } else if (wide_) {
        fold = Fold::Sum192;
    } else if (source.type.id == TypeId::UInt64 ||
               (source.type.id == TypeId::Decimal128 && form == RawColumn::Form::Whole)) {
        fold = Fold::Sum128;
    }
    result.state = add_state(fold, Order::Signed, add_raw(column, form), source.name);
}

void GroupByPlan::add_extreme(ResultColumn& result, u32 column, bool minimum) {
    Field const& source = input_.schema()[column];
    Type const& type = source.type;
    RawColumn::Form const form = form_of(column);
    Fold fold = minimum ? Fold::Min64 : Fold::Max64;
    Order order = Order::Signed;
    if (type.is_variable()) {
        fold = minimum ? Fold::MinText : Fold::MaxText;
    } else if (type.id == TypeId::FixedSizeBinary) {
        fold = minimum ? Fold::MinBytes : Fold::MaxBytes;
    } else if (type.id == TypeId::Decimal128) {
        if (form == RawColumn::Form::Whole) fold = minimum ? Fold::Min128 : Fold::Max128;
    } else if (type.is_float()) {
        order = Order::Float;
    } else if (type.id == TypeId::UInt64) {
        order = Order::Unsigned;
    }
    result.state = add_state(fold, order, add_raw(column, form), source.name);
    states_[result.state].width = type.row_width();
}

void GroupByPlan::add_distinct(ResultColumn& result, u32 column) {
    u32 const keys = static_cast<u32>(encoder_->columns().size());
    for (u32 k = 0; k < keys; ++k) {
        if (raw_[k].input != column) continue;
        result.key = k;
        return;
    }
    u32 d = 0;
    while (d < distinct_.size() && distinct_[d].input != column) ++d;
    result.state = add_state(Fold::CountPairs, Order::Signed, d, input_.schema()[column].name);
    if (d != distinct_.size()) return;
    DistinctColumn distinct;
    distinct.input = column;
    distinct.state.fold = has_nulls(column) ? Fold::CountValid : Fold::CountRows;
    distinct.state.column = keys;
    distinct_.push_back(distinct);
}

void GroupByPlan::finish() {
    layout_.key_words = encoder_->words();
    layout_.text_words = encoder_->text_words();
    u32 const key_count = static_cast<u32>(encoder_->columns().size());
    for (State& state : states_) {
        state.offset = layout_.row_bytes();
        append_empty_state(state, layout_.states);
        if (state.fold == Fold::CountPairs) {
            distinct_[state.column].state.offset = state.offset;
            continue;
        }
        u32 const column = key_count + static_cast<u32>(partial_states_.size());
        raw_states_.push_back(state);
        partial_states_.push_back(travelling(state));
        partial_states_.back().column = column;
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
    for (State const& state : partial_states_) {
        bool const text = state_is_text(state.fold);
        partial.push_back({std::to_string(partial.size()) + ":" + state.name, state.type(), text});
        partial_valid_bits_.push_back(text);
    }
    raw_schema_ = Schema(std::move(raw));
    partial_schema_ = Schema(std::move(partial));
    check_result(input_.what(), result_fields_);
    result_schema_ = Schema(result_fields_);
}

}  // namespace mgi::operators
