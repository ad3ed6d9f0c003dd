// What a join does, decided before the first row moves: which columns travel, how a row of the built
// side lies in memory, and where each result column comes from.
#pragma once

#include <optional>

#include "operators/input.hpp"
#include "operators/join_rules.hpp"
#include "operators/keys.hpp"

namespace mgi::operators {

// One side of a join.
struct JoinSide {
    std::vector<u32> inputs;     // by column of the channel: which one of the input it is
    std::vector<bool> nullable;  // by column of the channel
    std::vector<bool> in_place;  // by column of the channel: texts that travel as RowText
    std::vector<std::optional<KeyConversion>> converted;  // by column of the channel: of keys
    Schema schema;                                        // of the channel
    std::vector<std::string> keys;                        // names
    std::optional<KeyEncoder> encoder;

    // Input columns whose characters travel.
    [[nodiscard]] std::vector<u32> moved_texts() const;
};

// A value that built rows carry behind their keys.
struct BuiltValue {
    u32 column = 0;  // of the built side's channel
    Type type;
    u32 offset = 0;    // in the row; texts are RowText, bools a byte
    u32 validity = 0;  // offset of a byte, where the column is nullable
    bool nullable = false;
    bool in_place = false;  // texts: the channel's column holds RowText
};

// Where a column of the result comes from: a column of the probing side's channel, or a value of built rows. It has
// both where a row alone may be of either side; the first then counts if there is a probing row.
struct JoinColumn {
    static constexpr u32 kNone = ~u32{0};
    u32 probe = kNone;
    u32 built = kNone;
};

class JoinPlan {
public:
    // With `texts_in_place` characters of texts that are no keys stay in the input until the result is
    // written; what travels is where they are. Throws Error(InvalidArgument) naming the column that is missing, mismatched or named twice.
    JoinPlan(Input const& left, Input const& right, JoinSpec const& spec, Hash hash,
             bool texts_in_place);

    [[nodiscard]] JoinRoles const& roles() const { return rules_.roles; }
    [[nodiscard]] JoinSide const& probe() const { return probe_; }
    [[nodiscard]] JoinSide const& build() const { return build_; }
    [[nodiscard]] std::vector<BuiltValue> const& built() const { return built_; }
    // Bytes of a built row: its key's words, then its values.
    [[nodiscard]] u32 row_bytes() const { return row_bytes_; }
    // Whether built rows come out alone, and so have a byte that says whether a probing row matches them; its offset.
    [[nodiscard]] bool marks() const { return roles().build != Alone::None; }
    [[nodiscard]] u32 mark() const { return mark_; }
    // Whether built values point into received batches.
    [[nodiscard]] bool built_has_texts() const { return built_has_texts_; }
    [[nodiscard]] std::vector<JoinColumn> const& columns() const { return columns_; }
    [[nodiscard]] Schema const& result_schema() const { return result_schema_; }
    [[nodiscard]] std::vector<bool> const& result_valid_bits() const { return result_valid_bits_; }

private:
    void add_keys(Input const& probe, Input const& build);
    u32 add_column(Input const& input, JoinSide& side, u32 column, bool is_key = false);
    u32 add_key(Input const& input, JoinSide& side, ComparedKey const& key);
    u32 append(JoinSide& side, u32 column, Field field, bool in_place,
               std::optional<KeyConversion> const& converted);
    // Where a column of a side comes from.
    void find(JoinColumn& to, Input const& input, bool left, u32 column);
    [[nodiscard]] u32 add_built(Input const& input, u32 column);
    // The probing side's column that holds the same values in all rows of the result; kNone.
    [[nodiscard]] u32 same_in_probe(Type const& type, u32 build_column) const;
    void finish_row();

    bool const texts_in_place_;
    JoinRules const rules_;
    JoinSide probe_;
    JoinSide build_;
    std::vector<BuiltValue> built_;
    u32 row_bytes_ = 0;
    u32 mark_ = 0;
    bool built_has_texts_ = false;
    std::vector<JoinColumn> columns_;
    Schema result_schema_;
    std::vector<bool> result_valid_bits_;
};

}  // namespace mgi::operators
