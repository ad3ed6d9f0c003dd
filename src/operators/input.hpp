// Tables as operators take them in: parts that must agree, also with those of other processes, dealt
// out to groups in small runs of rows.
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include <mgi/operators.hpp>

#include "operators/columns.hpp"
#include "operators/conversation.hpp"
#include "operators/rules.hpp"
#include "operators/text_needs.hpp"

namespace mgi::operators {

// Long texts of a column.
struct TextSum {
    u64 bytes = 0;
    u64 longest = 0;

    void add(u64 size);
};

// Dictionaries that a column's values are known by.
struct DictionarySum {
    bool all_rows = false;  // each row's value is known by one
    u64 values = 0;
    u64 bytes = 0;
};

// The parts of one table, one for each endpoint: this process' rows, and what others say of theirs.
class Input : public InputColumns {
public:
    // Throws Error(InvalidArgument) naming the part and what is wrong with it. `what` starts every
    // message: "join: left". With other processes, `used` are the columns whose texts may be asked
    // for; none means all.
    Input(std::string what, std::vector<Endpoint> const& endpoints, std::vector<Table> const& parts,
          Conversation& talk, std::vector<std::string> const& used = {});

    [[nodiscard]] Table const& part(std::size_t endpoint) const { return tables()[endpoint]; }
    [[nodiscard]] std::size_t parts() const { return given_.size(); }
    // A column of Arrow's type null becomes one of this type, without any value.
    void take_type(u32 column, Type const& type);
    // Whether no other process has parts.
    [[nodiscard]] bool of_one_process() const { return facts_.empty(); }
    // Whether any row is null there: channels carry validity only where there is some.
    [[nodiscard]] bool has_nulls(u32 column) const;
    // Of a column of texts.
    [[nodiscard]] TextSum texts(u32 column) const;
    [[nodiscard]] DictionarySum dictionaries(u32 column) const;

private:
    // What is true of a column in all processes.
    struct Facts {
        bool has_nulls = false;
        TextSum texts;
        DictionarySum dictionaries = {true};
    };

    void read_parts(std::vector<Endpoint> const& endpoints, Conversation const& talk);
    [[nodiscard]] std::string describe(std::vector<std::string> const& used) const;
    void hear(std::vector<std::string> const& all, Conversation const& talk);
    void fill_nulls();
    [[nodiscard]] std::vector<Table> const& tables() const {
        return filled_.empty() ? given_ : filled_;
    }

    std::vector<Table> const& given_;
    std::vector<Table> filled_;  // the same, where columns of type null became others
    std::vector<Facts> facts_;   // by column; none where this process is alone
};

// Of all processes.
TextNeeds measure_texts(Input const& input, std::vector<u32> const& columns);

// Rows [first, first + rows) of a batch of a table.
struct Morsel {
    RecordBatch const* batch = nullptr;
    i64 first = 0;
    u32 rows = 0;
};

// Deals a table's rows out to the groups of an endpoint, whoever comes first. Thread-safe.
class Morsels {
public:
    explicit Morsels(Table const& table);
    Morsels(Morsels const&) = delete;
    Morsels& operator=(Morsels const&) = delete;
    // False when all rows were dealt out.
    bool next(Morsel& morsel);

    static constexpr u32 kRows = 1u << 15;

private:
    std::vector<Morsel> morsels_;
    std::atomic<std::size_t> next_{0};
};

// A group's own walk over morsels in slices of at most `rows` rows.
class Slices {
public:
    Slices(Morsels& morsels, u32 rows) : morsels_(&morsels), most_(rows) {}
    bool next(Morsel& slice) {
        while (left_.rows == 0) {
            if (!morsels_->next(left_)) return false;
        }
        slice = left_;
        if (slice.rows > most_) slice.rows = most_;
        left_.first += slice.rows;
        left_.rows -= slice.rows;
        return true;
    }

private:
    Morsels* morsels_;
    u32 most_;
    Morsel left_;
};

}  // namespace mgi::operators
