#include "operators/group_rows.hpp"

#include <bit>
#include <cmath>

namespace mgi::operators {

namespace {

u64 word_at(char const* row, u32 offset) {
    u64 word;
    std::memcpy(&word, row + offset, sizeof(word));
    return word;
}

template <class Sum>
Sum sum_at(char const* row, u32 offset) {
    Sum sum;
    std::memcpy(static_cast<void*>(&sum), row + offset, sizeof(sum));
    return sum;
}

// An integer sum of any state.
LongSum sum_of(State const& state, char const* row) {
    if (state.fold == Fold::Sum192) return sum_at<LongSum>(row, state.offset);
    LongSum sum;
    sum.add(state.fold == Fold::Sum64 ? i128{static_cast<i64>(word_at(row, state.offset))}
                                      : sum_at<i128>(row, state.offset));
    return sum;
}

// Words as values of a type of 1 to 8 bytes, after `turn`.
template <class T, class Turn>
void put_words(char const* const* rows, u32 count, u32 offset, char* to, Turn&& turn) {
    for (u32 i = 0; i < count; ++i) {
        T const value = static_cast<T>(turn(word_at(rows[i], offset)));
        std::memcpy(to + u64{i} * sizeof(T), &value, sizeof(T));
    }
}

template <class Turn>
void put_integers(Type const& type, char const* const* rows, u32 count, u32 offset, char* to,
                  Turn&& turn) {
    switch (type.row_width()) {
        case 1: return put_words<u8>(rows, count, offset, to, turn);
        case 2: return put_words<u16>(rows, count, offset, to, turn);
        case 4: return put_words<u32>(rows, count, offset, to, turn);
        default: return put_words<u64>(rows, count, offset, to, turn);
    }
}

void put_bytes(char const* const* rows, u32 count, u32 offset, u32 width, char* to) {
    for (u32 i = 0; i < count; ++i) std::memcpy(to + u64{i} * width, rows[i] + offset, width);
}

void put_bits(char const* const* rows, u32 count, u32 offset, u32 column, BatchBuilder& builder) {
    for (u32 i = 0; i < count; ++i) {
        if ((word_at(rows[i], offset) & 1) != 0) builder.set_bit(column, i);
    }
}

void append_key(KeyEncoder const& keys, u32 k, char const* const* rows, u32 count,
                BatchBuilder& builder) {
    KeyColumn const& key = keys.columns()[k];
    u32 const offset = keys.word_of(k) * 8;
    char* const to = builder.next(k);
    auto const same = [](u64 word) { return word; };
    if (key.type.is_variable()) {
        for (u32 i = 0; i < count; ++i) {
            builder.put_row_text(k, i, RowText::at(rows[i] + offset));
        }
    } else if (key.type.id == TypeId::Bool) {
        put_bits(rows, count, offset, k, builder);
    } else if (key.type.id == TypeId::Float64) {
        put_words<u64>(rows, count, offset, to, same);
    } else if (key.type.id == TypeId::Float32) {
        put_words<float>(rows, count, offset, to,
                         [](u64 word) { return std::bit_cast<double>(word); });
    } else if (key.type.row_width() > 8 || key.type.id == TypeId::FixedSizeBinary) {
        put_bytes(rows, count, offset, key.type.row_width(), to);
    } else {
        put_integers(key.type, rows, count, offset, to, same);
    }
    if (!builder.has_valid_bits(k)) return;
    for (u32 i = 0; i < count; ++i) {
        if (!keys.is_null(k, reinterpret_cast<u64 const*>(rows[i]))) builder.set_valid(k, i);
    }
}

// What a text state holds, nothing if there was no value.
void append_text(char const* const* rows, u32 count, u32 offset, u32 column,
                 BatchBuilder& builder) {
    for (u32 i = 0; i < count; ++i) {
        RowText const text = RowText::at(rows[i] + offset);
        bool const none = is_no_text(text);
        builder.put_row_text(column, i, none ? RowText() : text);
        if (!none && builder.has_valid_bits(column)) builder.set_valid(column, i);
    }
}

[[noreturn]] void too_large(ResultColumn const& result, Type const& type) {
    throw Error(ErrorCode::InvalidArgument,
                "group_by: a sum of column '" + result.name + "' does not fit " + type.to_string());
}

void append_sum(ResultColumn const& result, State const& state, Type const& type,
                char const* const* rows, u32 count, char* to) {
    if (state.fold == Fold::SumFloat) {
        for (u32 i = 0; i < count; ++i) {
            double const sum = sum_at<FloatSum>(rows[i], state.offset).value();
            std::memcpy(to + u64{i} * 8, &sum, 8);
        }
        return;
    }
    if (type.id == TypeId::Int64) {
        if (state.fold == Fold::Sum64) return put_bytes(rows, count, state.offset, 8, to);
        for (u32 i = 0; i < count; ++i) {
            LongSum const sum = sum_of(state, rows[i]);
            auto const value = static_cast<i64>(sum.low);
            if (!sum.fits_lower() || value != sum.lower()) too_large(result, type);
            std::memcpy(to + u64{i} * 8, &value, 8);
        }
        return;
    }
    i128 limit = 1;
    for (int digit = 0; digit < 38; ++digit) limit *= 10;
    for (u32 i = 0; i < count; ++i) {
        LongSum const sum = sum_of(state, rows[i]);
        i128 const value = sum.lower();
        if (!sum.fits_lower() || value >= limit || value <= -limit) too_large(result, type);
        std::memcpy(to + u64{i} * 16, &value, 16);
    }
}

void append_average(ResultColumn const& result, State const& sum, State const& number,
                    char const* const* rows, u32 count, char* to) {
    double const scale =
        result.source.id == TypeId::Decimal128 ? std::pow(10.0, result.source.scale) : 1.0;
    for (u32 i = 0; i < count; ++i) {
        double const total = sum.fold == Fold::SumFloat
                                 ? sum_at<FloatSum>(rows[i], sum.offset).value()
                                 : sum_of(sum, rows[i]).value();
        auto const values = static_cast<double>(word_at(rows[i], number.offset));
        double const average = values == 0 ? 0 : total / (values * scale);
        std::memcpy(to + u64{i} * 8, &average, 8);
    }
}

void append_variance(ResultColumn const& result, State const& state, char const* const* rows,
                     u32 count, u32 column, BatchBuilder& builder) {
    char* const to = builder.next(column);
    bool const deviation = result.function == AggregateFunction::StdDev;
    // Moments are of a decimal's digits.
    double const scale =
        result.source.id == TypeId::Decimal128 ? std::pow(10.0, 2 * result.source.scale) : 1.0;
    for (u32 i = 0; i < count; ++i) {
        Moments moments;
        std::memcpy(&moments, rows[i] + state.offset, sizeof(moments));
        bool const valid = moments.count > 1;
        double const variance = valid ? moments.variance() / scale : 0;
        double const value = deviation ? std::sqrt(variance) : variance;
        std::memcpy(to + u64{i} * 8, &value, 8);
        if (valid) builder.set_valid(column, i);
    }
}

// How many different values of a key column the group of each row has: one, or none where that is null.
void append_key_counts(KeyEncoder const& keys, u32 k, char const* const* rows, u32 count,
                       char* to) {
    for (u32 i = 0; i < count; ++i) {
        i64 const values = keys.is_null(k, reinterpret_cast<u64 const*>(rows[i])) ? 0 : 1;
        std::memcpy(to + u64{i} * 8, &values, 8);
    }
}

void append_extreme(State const& state, Type const& type, char const* const* rows, u32 count,
                    u32 column, BatchBuilder& builder) {
    char* const to = builder.next(column);
    u32 const offset = state.offset;
    if (state_is_text(state.fold)) return append_text(rows, count, offset, column, builder);
    if (state.fold == Fold::MinBytes || state.fold == Fold::MaxBytes) {
        return put_bytes(rows, count, offset, state.width, to);
    }
    if (state.bytes() == 16) return put_bytes(rows, count, offset, 16, to);
    auto const from_float = [](u64 word) { return from_ordered(static_cast<i64>(word)); };
    switch (type.id) {
        case TypeId::Bool: return put_bits(rows, count, offset, column, builder);
        case TypeId::Float32: return put_words<float>(rows, count, offset, to, from_float);
        case TypeId::Float64: return put_words<double>(rows, count, offset, to, from_float);
        case TypeId::UInt64:
            return put_words<u64>(rows, count, offset, to,
                                  [](u64 word) { return word ^ u64 { 1 } << 63; });
        case TypeId::Decimal128:
            for (u32 i = 0; i < count; ++i) {
                i128 const value = static_cast<i64>(word_at(rows[i], offset));
                std::memcpy(to + u64{i} * 16, &value, 16);
            }
            return;
        default: return put_integers(type, rows, count, offset, to, [](u64 word) { return word; });
    }
}

}  // namespace

void append_partials(GroupByPlan const& plan, char const* const* rows, u32 count,
                     BatchBuilder& builder) {
    u32 const keys = static_cast<u32>(plan.keys().columns().size());
    for (u32 k = 0; k < keys; ++k) append_key(plan.keys(), k, rows, count, builder);
    for (State const& state : plan.raw_states()) {
        u32 const column = keys + static_cast<u32>(&state - plan.raw_states().data());
        if (state_is_text(state.fold)) {
            append_text(rows, count, state.offset, column, builder);
        } else {
            put_bytes(rows, count, state.offset, state.bytes(), builder.next(column));
        }
    }
    builder.advance(count);
}

void append_results(GroupByPlan const& plan, char const* const* rows, u32 count,
                    BatchBuilder& builder) {
    u32 const keys = static_cast<u32>(plan.keys().columns().size());
    for (u32 k = 0; k < keys; ++k) append_key(plan.keys(), k, rows, count, builder);
    for (std::size_t r = 0; r < plan.results().size(); ++r) {
        ResultColumn const& result = plan.results()[r];
        u32 const column = keys + static_cast<u32>(r);
        if (result.key != ResultColumn::kNone) {
            append_key_counts(plan.keys(), result.key, rows, count, builder.next(column));
            continue;
        }
        State const& state = plan.states()[result.state];
        Type const& type = plan.result_schema()[column].type;
        char* const to = builder.next(column);
        switch (result.function) {
            case AggregateFunction::Count:
            case AggregateFunction::CountDistinct:
                put_bytes(rows, count, state.offset, 8, to);
                break;
            case AggregateFunction::Sum: append_sum(result, state, type, rows, count, to); break;
            case AggregateFunction::Avg:
                append_average(result, state, plan.states()[result.count], rows, count, to);
                break;
            case AggregateFunction::Variance:
            case AggregateFunction::StdDev:
                append_variance(result, state, rows, count, column, builder);
                break;
            default: append_extreme(state, type, rows, count, column, builder);
        }
        if (result.count == ResultColumn::kNone || !builder.has_valid_bits(column) ||
            state_is_text(state.fold)) {
            continue;
        }
        u32 const values = plan.states()[result.count].offset;
        for (u32 i = 0; i < count; ++i) {
            if (word_at(rows[i], values) != 0) builder.set_valid(column, i);
        }
    }
    builder.advance(count);
}

}  // namespace mgi::operators
