// What a group-by on GPUs keeps of each group, and how its results are made of that.
#pragma once

#include "operators/gpu/facts.hpp"
#include "operators/gpu/group_by_kernels.hpp"
#include "operators/gpu/outputs.hpp"

namespace mgi::operators::on_gpu {

// A result that is asked for; columns are the input's.
struct Item {
    static constexpr u32 kNoColumn = ~0u;
    AggregateFunction function = AggregateFunction::Count;
    u32 column = kNoColumn;  // of Count: rows are counted
    u32 counts =
        kNoColumn;  // of parts that were folded before: the column that says of how many values each is
    std::string name;
};

inline bool is_sum(Item const& item) {
    return item.function == AggregateFunction::Sum || item.function == AggregateFunction::Avg;
}

// Throws Error(InvalidArgument).
inline std::vector<Item> items_of(Input const& input, std::vector<Aggregate> const& aggregates) {
    std::vector<Item> items;
    for (Aggregate const& aggregate : aggregates) {
        check_aggregate(input.what(), aggregate);
        Item item;
        item.function = aggregate.function;
        item.name = aggregate.name;
        if (!aggregate.column.empty()) {
            item.column = input.column(aggregate.column);
            Field const& field = input.schema()[item.column];
            if (is_sum(item) && !field.type.is_integer() && !field.type.is_float()) {
                refuse_type(input.what(), item.function, field,
                            "on GPUs it takes integers and floats");
            }
            if (item.function != AggregateFunction::Count &&
                (is_wide(field.type) || field.type.is_variable())) {
                refuse_type(input.what(), item.function, field,
                            "on GPUs it takes integers, floats, dates and bools");
            }
        }
        items.push_back(item);
    }
    return items;
}

// Integers whose size must be known: of sums.
inline std::vector<bool> magnitudes_wanted(Input const& input, std::vector<Item> const& items) {
    std::vector<bool> wanted(input.schema().size());
    for (Item const& item : items) {
        if (is_sum(item) && input.schema()[item.column].type.is_integer()) {
            wanted[item.column] = true;
        }
    }
    return wanted;
}

class GroupPlan {
public:
    GroupPlan(Input const& input, std::vector<u32> const& keys, std::vector<Item> const& items,
              Facts const& facts)
        : input_(input), facts_(facts) {
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

    // The columns of the input that rows have, in this order; keys come first.
    [[nodiscard]] std::vector<u32> const& columns() const { return columns_; }
    [[nodiscard]] KeyCode const& code() const { return code_; }
    [[nodiscard]] bool wide() const { return code_.words > 1; }
    [[nodiscard]] States const& states() const { return states_; }
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
            words[value_offset() / 8 + states_.all[s].place] = empty_word(states_.all[s].fold);
        }
        return words;
    }

private:
    u32 column_of(u32 input_column) {
        auto const at = std::find(columns_.begin(), columns_.end(), input_column);
        if (at == columns_.end()) {
            columns_.push_back(input_column);
            return u32(columns_.size() - 1);
        }
        return u32(at - columns_.begin());
    }

    void add(ResultColumn const& result, Field const& field, bool nulls,
             std::string const& source = "") {
        results_.push_back(result);
        fields_.push_back(field);
        nulls_.push_back(nulls);
        sources_.push_back(source);
    }

    // Place of a state, which several results may share.
    u32 state(Fold fold, u32 input_column) {
        State wanted;
        wanted.fold = fold;
        if (fold != Fold::CountRows) {
            wanted.column = column_of(input_column);
            wanted.value = kind_of(input_.schema()[input_column].type);
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
        states_.all[states_.count++] = wanted;
        return wanted.place;
    }
    u32 count_of(Item const& item) {
        if (item.counts != Item::kNoColumn) return state(Fold::Sum, item.counts);
        return facts_.nulls[item.column] ? state(Fold::CountValid, item.column)
                                         : state(Fold::CountRows, 0);
    }

    // The state of a sum, and how a result is made of it.
    void add_sum(ResultColumn& result, u32 column, bool average) {
        Type const& type = input_.schema()[column].type;
        Fold fold = Fold::Sum;
        if (type.is_float()) {
            fold = Fold::SumFloat;
            result.make = average ? Make::AvgFloat : Make::Float;
        } else {
            u64 const most = (~u64{0} >> 1) / std::max<u64>(input_.rows(), 1);
            bool const fits = facts_.magnitudes[column] <= most;
            narrow_ = narrow_ && fits;
            fold = fits ? Fold::Sum : Fold::SumWide;
            result.make = fits ? (average ? Make::AvgWord : Make::Word)
                               : (average ? Make::AvgWide : Make::WideSum);
        }
        result.place = state(fold, column);
    }

    void add_item(Item const& item) {
        ResultColumn result;
        Field field;
        field.name = item.name;
        field.type = int64();
        if (item.column == Item::kNoColumn) {
            result.place = state(Fold::CountRows, 0);
            return add(result, field, false);
        }
        Field const& source = input_.schema()[item.column];
        bool const nulls = facts_.nulls[item.column];
        if (item.function == AggregateFunction::Count) {
            result.place = count_of(item);
            return add(result, field, false);
        }
        field.nullable = source.nullable;
        if (item.function == AggregateFunction::Sum) {
            add_sum(result, item.column, false);
            if (source.type.is_float()) field.type = float64();
        } else if (item.function == AggregateFunction::Avg) {
            add_sum(result, item.column, true);
            field.type = float64();
            result.count = count_of(item);
        } else {
            bool const smallest = item.function == AggregateFunction::Min;
            result.make = Make::Extreme;
            result.place = state(smallest ? Fold::Min : Fold::Max, item.column);
            field.type = source.type;
        }
        if (nulls && result.count == ResultColumn::kNone) result.count = count_of(item);
        result.value = kind_of(field.type);
        add(result, field, nulls, source.name);
    }

    Input const& input_;
    Facts const& facts_;
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
