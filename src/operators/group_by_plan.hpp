// What a group-by does, decided before the first row moves: which columns travel, the states of a
// group, and what becomes of them.
#pragma once

#include <optional>

#include "operators/aggregates.hpp"
#include "operators/group_table.hpp"
#include "operators/input.hpp"

namespace mgi::operators {

// A column of the channel that carries rows as they are.
struct RawColumn {
    enum class Form : u8 {
        Whole,     // the input column itself
        Narrow,    // a decimal of at most 18 digits, as int64
        Presence,  // only whether there is a value, as bool
    };
    u32 input = 0;
    Form form = Form::Whole;
    Type type;
    bool nullable = false;
};

// A column of the result, made of states.
struct ResultColumn {
    static constexpr u32 kNone = 0xffffffffu;

    AggregateFunction function = AggregateFunction::Count;
    Type source;        // of the input column
    std::string name;   // of the input column, for errors
    u32 state = 0;      // sum, count, moments, minimum or maximum
    u32 count = kNone;  // state that counts the values, where there may be none
    u32 key =
        kNone;  // no state: the key whose values are counted, of which a group has one or a null
};

// An input column whose different values are counted. Those of each group are in a table of pairs: the keys, and a
// value or a null.
struct DistinctColumn {
    u32 input = 0;
    State state;  // as it is folded from the table
};

// Two channels carry rows to their groups' endpoints: the raw one as they are, where rows hardly share
// groups, and the partial one as states that a sender has folded them into. Keys come first in both.
//
// Sums start with 64 bits, or 128, where that is likely to do. When one does not, NarrowOverflow ends the run
// and it starts again with `wide`, in 192 bits, which no rows leave; so the outcome never depends on the order of the rows.
//
// Different values are counted in tables of pairs, which group-bys before this one have made, at the endpoints
// that own the keys: nothing travels for them here.
class GroupByPlan {
public:
    // Throws Error(InvalidArgument) naming the column, aggregate or result that cannot be.
    GroupByPlan(Input const& input, std::vector<std::string> const& keys,
                std::vector<Aggregate> const& aggregates, bool wide);

    [[nodiscard]] std::vector<RawColumn> const& raw() const { return raw_; }
    [[nodiscard]] Schema const& raw_schema() const { return raw_schema_; }
    [[nodiscard]] Schema const& partial_schema() const { return partial_schema_; }
    [[nodiscard]] Schema const& result_schema() const { return result_schema_; }
    // Result columns that can hold nulls; the same for the partial channel.
    [[nodiscard]] std::vector<bool> const& result_valid_bits() const { return result_valid_bits_; }
    [[nodiscard]] std::vector<bool> const& partial_valid_bits() const {
        return partial_valid_bits_;
    }
    [[nodiscard]] std::vector<std::string> const& key_names() const { return key_names_; }
    [[nodiscard]] KeyEncoder const& keys() const { return *encoder_; }
    [[nodiscard]] GroupLayout const& layout() const { return layout_; }
    // Of the tables of this call; see GroupTable.
    [[nodiscard]] u32 scatter() const { return scatter_; }
    // All states of a group, and those that are folded from the raw channel's columns, and from the partial one's.
    [[nodiscard]] std::vector<State> const& states() const { return states_; }
    [[nodiscard]] std::vector<State> const& raw_states() const { return raw_states_; }
    [[nodiscard]] std::vector<State> const& partial_states() const { return partial_states_; }
    [[nodiscard]] std::vector<ResultColumn> const& results() const { return results_; }
    [[nodiscard]] std::vector<DistinctColumn> const& distinct() const { return distinct_; }
    // Whether rows say more than the tables of pairs, in which all keys are.
    [[nodiscard]] bool wants_rows() const { return distinct_.empty() || !partial_states_.empty(); }
    [[nodiscard]] std::vector<u32> const& input_columns() const { return input_columns_; }
    // Of the input, what a group's state holds a value of: a column as often as it holds one.
    [[nodiscard]] std::vector<u32> partial_columns() const;
    [[nodiscard]] bool wide() const { return wide_; }

private:
    void add_keys(std::vector<std::string> const& keys);
    void add_result(Aggregate const& aggregate);
    void add_state_of(ResultColumn& result, u32 column);
    void add_sum(ResultColumn& result, u32 column);
    void add_extreme(ResultColumn& result, u32 column, bool minimum);
    void add_distinct(ResultColumn& result, u32 column);
    // A decimal whose digits fit 64 bits travels as those.
    [[nodiscard]] RawColumn::Form form_of(u32 column) const;
    u32 add_raw(u32 column, RawColumn::Form form);
    u32 add_state(Fold fold, Order order, u32 raw, std::string const& name);
    u32 count_of(u32 column);
    [[nodiscard]] bool has_nulls(u32 column);
    void finish();

    Input const& input_;
    bool wide_;
    u32 const scatter_;
    std::vector<int> nulls_;  // by input column: 0, 1, or -1 for not looked at yet
    std::vector<RawColumn> raw_;
    std::vector<std::string> key_names_;
    std::vector<State> states_;
    std::vector<State> raw_states_;
    std::vector<State> partial_states_;
    std::vector<DistinctColumn> distinct_;
    std::vector<ResultColumn> results_;
    std::vector<Field> result_fields_;
    std::vector<bool> result_valid_bits_;
    std::vector<bool> partial_valid_bits_;
    std::vector<u32> input_columns_;
    Schema raw_schema_;
    Schema partial_schema_;
    Schema result_schema_;
    GroupLayout layout_;
    std::optional<KeyEncoder> encoder_;
};

}  // namespace mgi::operators
