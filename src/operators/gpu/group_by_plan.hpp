// What a group-by on GPUs keeps of each group, and how its results are made of that.
#pragma once

#include <bit>
#include <cmath>

#include "operators/gpu/facts.hpp"
#include "operators/gpu/group_by_kernels.hpp"
#include "operators/gpu/outputs.hpp"

namespace mgi::operators::on_gpu {

// A result that is asked for; columns are the input's.
struct Item {
    static constexpr u32 kNoColumn = ~0u;
    AggregateFunction function = AggregateFunction::Count;
    u32 column = kNoColumn;  // of Count: rows are counted
    Field field;             // of the result
    double unit = 1;         // what the column's digits are counted in
    // Of CountDistinct: which of the tables of pairs has the values; none of a key.
    u32 pairs = kNoColumn;
    // Of the first of two steps: which word of the moments, or of a decimal's sum, is the result.
    u32 word = kNoColumn;
    // Of the second: the column that says of how many values each is; and that `column` is the first of those with the words.
    u32 counts = kNoColumn;
    bool of_words = false;
    // Of the second, where it is for errors: the column that all this is made of.
    std::string source = {};
};

inline bool is_sum(Item const& item) {
    return item.function == AggregateFunction::Sum || item.function == AggregateFunction::Avg;
}

inline bool counts(AggregateFunction function) {
    return function == AggregateFunction::Count || function == AggregateFunction::CountDistinct;
}

// Of Min, Max and First: whether values of this type are never words, so that states name rows that have them.
inline bool always_names_rows(Item const& item, Type const& type) {
    bool const extreme =
        item.function == AggregateFunction::Min || item.function == AggregateFunction::Max;
    return extreme && (type.id == TypeId::FixedSizeBinary || type.is_variable());
}

// Where a column is among some.
inline u32 place_among(std::vector<u32> const& columns, u32 column) {
    return u32(std::find(columns.begin(), columns.end(), column) - columns.begin());
}

// All results of a group-by, and the columns whose different values it counts.
struct Items {
    // Throws Error(InvalidArgument).
    Items(InputColumns const& input, std::vector<u32> const& keys,
          std::vector<Aggregate> const& aggregates) {
        using F = AggregateFunction;
        for (Aggregate const& aggregate : aggregates) {
            Item item;
            item.function = aggregate.function;
            if (!aggregate.column.empty()) item.column = input.column(aggregate.column);
            bool const rows = item.column == Item::kNoColumn;
            item.field =
                aggregated(input.what(), aggregate, rows ? nullptr : &input.schema()[item.column]);
            Type const type = rows ? int64() : input.schema()[item.column].type;
            if (type.id == TypeId::Decimal128) item.unit = std::pow(10.0, type.scale);
            // The least one is a value like any other, and does not depend on the rows' order.
            if (item.function == F::First) item.function = F::Min;
            bool const key = place_among(keys, item.column) != keys.size();
            if (item.function == F::CountDistinct && !key) {
                item.pairs = place_among(distinct, item.column);
                if (item.pairs == distinct.size()) distinct.push_back(item.column);
            }
            all.push_back(item);
        }
    }
    // Whether rows say more than the pairs, in which all keys are.
    [[nodiscard]] bool want_rows() const {
        return distinct.empty() || std::any_of(all.begin(), all.end(), [](Item const& item) {
                   return item.function != AggregateFunction::CountDistinct;
               });
    }

    std::vector<Item> all;
    std::vector<u32> distinct;
};

// Tables of the pairs of keys and a column's value that differ, by endpoint: each is where its keys' group comes to be.
using Pairs = std::vector<GpuTable>;

// Integers whose size must be known: of sums.
inline std::vector<bool> magnitudes_wanted(Input const& input, std::vector<Item> const& items) {
    std::vector<bool> wanted(input.schema().size());
    for (Item const& item : items) {
        if (item.column == Item::kNoColumn) continue;
        Type const& type = input.schema()[item.column].type;
        bool const decimal = type.id == TypeId::Decimal128 && !counts(item.function);
        if (decimal || (is_sum(item) && type.is_integer())) {
            wanted[item.column] = true;
        }
    }
    return wanted;
}

class GroupPlan {
public:
    // `pairs`, by item's `pairs`, are made before groups are written.
    GroupPlan(Input const& input, std::vector<u32> const& keys, std::vector<Item> const& items,
              Facts const& facts, std::vector<Pairs> const* pairs = nullptr)
        : input_(input), facts_(facts), pairs_(pairs), keys_(keys) {
        std::vector<KeyPart> parts;
        for (u32 const key : keys) {
            Field const& field = input.schema()[key];
            u32 const part = u32(parts.size());
            add_key(input.what(), parts, column_of(key), field, facts.nulls[key]);
            ResultColumn result;
            result.make = Make::Key;
            result.part = part;
            result.value = kind_of(field.type);
            add(result, field, facts.nulls[key]);
        }
        code_ = code_of(parts);
        for (Item const& item : items) add_item(item);
        check_result(input.what(), fields_);
        schema_ = Schema(fields_);
    }

    // Of the input.
    [[nodiscard]] std::vector<u32> const& keys() const { return keys_; }
    // The columns of the input that rows have, in this order; keys come first.
    [[nodiscard]] std::vector<u32> const& columns() const { return columns_; }
    [[nodiscard]] KeyCode const& code() const { return code_; }
    [[nodiscard]] bool wide() const { return code_.words > 1; }
    [[nodiscard]] States const& states() const { return states_; }
    // Whether some states name rows, which then have to stay where they are until groups are written.
    [[nodiscard]] bool keeps_rows() const { return states_.kinds == StateKinds::Rows; }
    // The tables of pairs, and the place of the word that counts each one's values.
    [[nodiscard]] std::vector<Pairs> const& pairs() const { return *pairs_; }
    [[nodiscard]] std::vector<u32> const& pair_counts() const { return pair_counts_; }
    [[nodiscard]] std::vector<ResultColumn> const& results() const { return results_; }
    [[nodiscard]] Schema const& schema() const { return schema_; }
    [[nodiscard]] std::vector<bool> const& nulls() const { return nulls_; }
    // Whether all sums of integers fit 64 bits, so that parts of them do.
    [[nodiscard]] bool narrow() const { return narrow_; }
    // By result: the column that it sums up, for errors.
    [[nodiscard]] std::vector<std::string> const& sources() const { return sources_; }

    // Bytes of an entry: most lie in one sector of 32 bytes, which is what memory is read by.
    [[nodiscard]] u32 stride() const {
        u32 const bytes = value_offset() + 8 * states_.words;
        return bytes == 24 ? 32 : bytes <= 16 ? bytes : (bytes + 15) / 16 * 16;
    }
    [[nodiscard]] u32 value_offset() const { return 8 * (code_.words + (wide() ? 1 : 0)); }
    // What an entry without a key is, word by word.
    [[nodiscard]] std::vector<u64> pattern() const {
        std::vector<u64> words(stride() / 8);
        words[0] = wide() ? HashTable::kEmpty : kNoKey;
        for (u32 s = 0; s < states_.count; ++s) {
            State const& state = states_.all[s];
            for (u32 w = 0; w < words_of(state.fold); ++w) {
                words[value_offset() / 8 + state.place + w] = empty_word(state.fold, w);
            }
        }
        return words;
    }

private:
    u32 column_of(u32 input_column) {
        u32 const at = place_among(columns_, input_column);
        if (at == columns_.size()) columns_.push_back(input_column);
        return at;
    }

    void add(ResultColumn const& result, Field const& field, bool nulls,
             std::string const& source = "") {
        results_.push_back(result);
        fields_.push_back(field);
        nulls_.push_back(nulls);
        sources_.push_back(source);
    }

    // Of decimals whose upper words are that large: how many lower bits are left out for 32 to be left.
    static u32 shift_of(u64 upper) {
        return std::min(64 + u32(std::bit_width(upper)) + 1, 128u) - 32;
    }

    // A decimal is as good as an integer where all of the column's fit one.
    [[nodiscard]] bool is_long(u32 input_column) const {
        return facts_.magnitudes[input_column] == SurveyCounts::kLong &&
               input_.schema()[input_column].type.id == TypeId::Decimal128;
    }
    [[nodiscard]] ValueKind value_kind(u32 input_column) const {
        ValueKind kind = kind_of(input_.schema()[input_column].type);
        bool const decimal = input_.schema()[input_column].type.id == TypeId::Decimal128;
        if (decimal && !is_long(input_column)) kind.kind = KeyKind::Signed;
        return kind;
    }

    // Place of a state, which several results may share.
    u32 state(Fold fold, u32 input_column) {
        State wanted;
        wanted.fold = fold;
        if (fold != Fold::CountRows) {
            wanted.column = column_of(input_column);
            wanted.value = value_kind(input_column);
        }
        if (names_row(fold)) {
            wanted.bytes = input_.schema()[input_column].type.row_width();
            if (is_long(input_column)) wanted.shift = shift_of(facts_.uppers[input_column]);
        }
        for (u32 s = 0; s < states_.count; ++s) {
            State const& there = states_.all[s];
            if (there.fold == fold && there.column == wanted.column) return there.place;
        }
        if (states_.count == kMostStates) {
            refuse(input_.what(), "too many aggregates: on GPUs a group has at most " +
                                      std::to_string(kMostStates) + " sums, counts and extremes");
        }
        wanted.place = states_.words;
        states_.words += words_of(fold);
        bool const of_bytes = wanted.value.kind == KeyKind::Bytes;
        bool const rare =
            is_moments(fold) || is_long_sum(fold) || (fold == Fold::SumWide && of_bytes);
        states_.kinds = std::max(states_.kinds, names_row(fold) ? StateKinds::Rows
                                                : rare          ? StateKinds::Rare
                                                                : StateKinds::Common);
        states_.all[states_.count++] = wanted;
        return wanted.place;
    }
    u32 count_of(Item const& item) {
        if (item.counts != Item::kNoColumn) return state(Fold::Sum, item.counts);
        return facts_.nulls[item.column] ? state(Fold::CountValid, item.column)
                                         : state(Fold::CountRows, 0);
    }

    // The state of a sum, and how a result of this type is made of it.
    void add_sum(ResultColumn& result, Item const& item) {
        u32 const column = item.column;
        bool const average = item.function == AggregateFunction::Avg;
        Type const& type = input_.schema()[column].type;
        Fold fold = Fold::Sum;
        if (item.of_words) {
            // Their columns come one after the other: no other item names them.
            for (u32 w = 0; w < kLongSumWords; ++w) column_of(column + w);
            fold = Fold::SumLongOfMany;
            result.make = average ? Make::AvgLong : Make::LongDecimal;
        } else if (type.is_float()) {
            fold = Fold::SumFloat;
            result.make = average ? Make::AvgFloat : Make::Float;
        } else {
            u64 const most = (~u64{0} >> 1) / std::max<u64>(input_.rows(), 1);
            bool const fits = facts_.magnitudes[column] <= most;
            narrow_ = narrow_ && fits;
            fold = fits ? Fold::Sum : Fold::SumWide;
            result.make = fits ? (average ? Make::AvgWord : Make::Word)
                               : (average ? Make::AvgWide : Make::WideSum);
            bool const decimal = item.field.type.id == TypeId::Decimal128;
            if (decimal && result.make == Make::WideSum) result.make = Make::WideDecimal;
            if (is_long(column) && facts_.uppers[column] >= most) {
                fold = Fold::SumLong;
                result.make = average ? Make::AvgLong : Make::LongDecimal;
            }
        }
        result.place = state(fold, column);
        if (item.word == Item::kNoColumn) return;
        result.make = Make::SumWord;
        result.word = item.word;
        result.words = words_of(fold);
    }

    void add_item(Item const& item) {
        ResultColumn result;
        result.unit = item.unit;
        result.value = kind_of(item.field.type);
        bool nulls = item.column != Item::kNoColumn && facts_.nulls[item.column];
        switch (item.function) {
            case AggregateFunction::Count:
                nulls = false;
                result.place =
                    item.column == Item::kNoColumn ? state(Fold::CountRows, 0) : count_of(item);
                break;
            case AggregateFunction::Sum: add_sum(result, item); break;
            case AggregateFunction::Avg:
                add_sum(result, item);
                result.count = count_of(item);
                break;
            case AggregateFunction::Variance:
            case AggregateFunction::StdDev:
                nulls = item.word == Item::kNoColumn;
                add_moments(result, item);
                break;
            case AggregateFunction::CountDistinct:
                nulls = false;
                add_distinct(result, item);
                break;
            default: add_extreme(result, item);
        }
        // A state that names no row says so itself.
        bool const counted = nulls && result.make != Make::Row;
        if (counted && result.count == ResultColumn::kNone) result.count = count_of(item);
        std::string source = item.source;
        if (source.empty() && item.column != Item::kNoColumn) {
            source = input_.schema()[item.column].name;
        }
        add(result, item.field, nulls, source);
    }

    void add_extreme(ResultColumn& result, Item const& item) {
        bool const most = item.function == AggregateFunction::Max;
        if (always_names_rows(item, input_.schema()[item.column].type) || is_long(item.column)) {
            result.make = Make::Row;
            result.place = state(most ? Fold::MaxRow : Fold::MinRow, item.column);
            result.column = column_of(item.column);
        } else {
            result.make = Make::Extreme;
            result.place = state(most ? Fold::Max : Fold::Min, item.column);
        }
    }

    void add_moments(ResultColumn& result, Item const& item) {
        // Their four columns come one after the other: no other item names them.
        for (u32 w = 0; item.of_words && w < kMomentWords; ++w) column_of(item.column + w);
        result.place = state(item.of_words ? Fold::MomentsOfMany : Fold::Moments, item.column);
        if (item.word != Item::kNoColumn) {
            result.place += item.word;
            return;
        }
        bool const variance = item.function == AggregateFunction::Variance;
        result.make = variance ? Make::Variance : Make::Deviation;
        result.count = result.place;
        result.least = 2;
    }

    void add_distinct(ResultColumn& result, Item const& item) {
        if (item.pairs == Item::kNoColumn) {
            result.make = Make::KeyCount;
            result.part = results_[place_among(keys_, item.column)].part;  // keys come first
            return;
        }
        while (pair_counts_.size() <= item.pairs) pair_counts_.push_back(states_.words++);
        result.place = pair_counts_[item.pairs];
    }

    Input const& input_;
    Facts const& facts_;
    std::vector<Pairs> const* pairs_;
    std::vector<u32> const keys_;
    std::vector<u32> pair_counts_;
    std::vector<u32> columns_;
    KeyCode code_;
    States states_;
    std::vector<ResultColumn> results_;
    std::vector<Field> fields_;
    std::vector<bool> nulls_;
    std::vector<std::string> sources_;
    Schema schema_;
    bool narrow_ = true;
};

}  // namespace mgi::operators::on_gpu
