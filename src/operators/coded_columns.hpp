// Columns that are known by numbers of a dictionary (Codes) move, and are grouped and compared, as these numbers.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "operators/budget.hpp"
#include "operators/input.hpp"

namespace mgi::operators {

// A column of one of an operator's inputs.
struct InputColumn {
    static constexpr u32 kNone = ~u32{0};

    u32 input = 0;
    u32 column = kNone;
};

// All processes number values alike. A result's columns get their values back as views, and know their numbers. Used by the
// thread that calls the operator.
class CodedColumns {
public:
    // The columns of a group are numbered alike, if all processes know all of them by numbers, of few values for their rows; no
    // column is in two of them. Every process makes the same ones. Where there is any, processes tell each other their values.
    // Throws Error(OutOfMemory) where numbers, and views of results, take more than the options, or else the runtime, allow.
    CodedColumns(Conversation& talk, Runtime const& runtime, OperatorOptions const& options,
                 std::vector<Input const*> const& inputs,
                 std::vector<std::vector<InputColumn>> const& groups);

    [[nodiscard]] bool empty() const { return coded_.empty(); }
    [[nodiscard]] bool has_any(u32 input, std::vector<u32> const& columns) const;
    // An input's parts, with numbers in place of these columns. Valid as long as this is.
    [[nodiscard]] std::vector<Table> const& parts(u32 input) const { return parts_[input]; }
    // Adds a column `name` to the end of an input's parts, which says which of so many endpoints owns each row, by the values of
    // these keys: the one that a channel which is partitioned by Murmur3 of them has.
    void add_owners(u32 input, std::vector<u32> const& keys, std::string const& name,
                    u32 endpoints);
    // Turns numbers among columns of results into values again, in all processes or in none. `from[c]`: where the results' column
    // c comes from.
    void restore(std::vector<Table>& results, std::vector<InputColumn> const& from);

private:
    // By a number in one dictionary, that in the one of all.
    using Numbers = std::vector<u32>;

    struct Coded {
        std::vector<InputColumn> columns;
        std::shared_ptr<RecordBatch const> values = nullptr;  // of all processes, as views
        std::unordered_map<RecordBatch const*, Numbers> numbers = {};
    };

    void choose(std::vector<std::vector<InputColumn>> const& groups);
    [[nodiscard]] Field const& field(InputColumn const& of) const;
    [[nodiscard]] Coded const* coded(InputColumn const& of) const;
    // Numbers this process' values, and says them.
    std::string number_own(Coded& coded) const;
    void number_all(Coded& coded, std::vector<std::string> const& said) const;
    void encode(u32 input);
    void restore(RecordBatch& batch, std::vector<InputColumn> const& from) const;

    Conversation& talk_;
    std::vector<Input const*> const inputs_;
    Budget memory_;
    std::vector<Coded> coded_;
    std::vector<std::vector<u32>> places_;   // in `coded_`, by input and column; kNone
    std::vector<std::vector<Table>> parts_;  // by input
    std::vector<Schema> schemas_;            // of those
};

// All columns of a lone input, as they come.
std::vector<InputColumn> all_columns(Input const& input);
// Each of them by itself, but for some.
std::vector<std::vector<InputColumn>> other_columns(Input const& input,
                                                    std::vector<u32> const& some);
// A name that no column of these has, and none of a result's.
std::string free_name(std::string name, std::vector<Input const*> const& inputs,
                      std::vector<std::string> const& of_result = {});
// Takes the column at this place away.
void drop_column(std::vector<Table>& tables, std::size_t column);

}  // namespace mgi::operators
