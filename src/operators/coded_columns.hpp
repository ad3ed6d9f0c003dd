// Columns that are known by numbers of a dictionary (Codes) move, and are grouped and compared, as these numbers.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "operators/input.hpp"

namespace mgi::operators {

// A column of one of an operator's inputs.
struct InputColumn {
    static constexpr u32 kNone = ~u32{0};

    u32 input = 0;
    u32 column = kNone;

    friend bool operator==(InputColumn const&, InputColumn const&) = default;
};

// All processes number values alike. A result's columns get their values back as views, and know their numbers.
class CodedColumns {
public:
    // The columns of a group are numbered alike, if all processes know all of them by numbers, of few values for their rows. Every
    // process makes the same ones; where there is any, processes tell each other their values.
    CodedColumns(Conversation& talk, std::vector<Input const*> const& inputs,
                 std::vector<std::vector<InputColumn>> const& groups);

    [[nodiscard]] bool empty() const { return coded_.empty(); }
    // An input's parts, with numbers in place of these columns. Valid as long as this is.
    [[nodiscard]] std::vector<Table> const& parts(u32 input) const { return parts_[input]; }
    [[nodiscard]] bool has(InputColumn const& column) const { return coded(column) != nullptr; }
    // Adds a column of this name to the parts of a text's input: which of so many endpoints owns each row by that text alone.
    void add_owners(InputColumn const& text, std::string const& name, u32 endpoints);
    // Turns numbers among columns of results into values again. `from[c]`: where the results' column c comes from.
    void restore(std::vector<Table>& results, std::vector<InputColumn> const& from) const;

private:
    // By a number in one dictionary, that in the one of all.
    using Numbers = std::vector<u32>;

    struct Coded {
        std::vector<InputColumn> columns;
        std::shared_ptr<RecordBatch const> values = nullptr;  // of all processes, as views
        std::unordered_map<RecordBatch const*, Numbers> numbers = {};
    };

    [[nodiscard]] bool pays(std::vector<InputColumn> const& group) const;
    [[nodiscard]] Field const& field(InputColumn const& of) const;
    [[nodiscard]] Coded const* coded(InputColumn const& of) const;
    // Numbers this process' values, and says them.
    std::string number_own(Coded& coded) const;
    void number_all(Coded& coded, std::vector<std::string_view> const& said, std::size_t me) const;
    void encode(u32 input);
    void encode(u32 input, RecordBatch& batch) const;
    [[nodiscard]] Schema with_numbers(u32 input, Schema const& schema) const;
    void restore(RecordBatch& batch, std::vector<InputColumn> const& from) const;
    [[nodiscard]] Schema with_values(Schema const& schema,
                                     std::vector<InputColumn> const& from) const;

    std::vector<Input const*> const inputs_;
    std::vector<Coded> coded_;
    std::vector<std::vector<Table>> parts_;  // by input
};

// All columns of a lone input, as they come.
std::vector<InputColumn> all_columns(Input const& input);
// Each of them by itself, but for some.
std::vector<std::vector<InputColumn>> other_columns(Input const& input,
                                                    std::vector<u32> const& some);

}  // namespace mgi::operators
