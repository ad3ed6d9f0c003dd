// Aggregates as states in a group's row, and how columns are folded into them, a vector at a time.
#pragma once

#include <string>
#include <vector>

#include <mgi/schema.hpp>

#include "operators/columns.hpp"
#include "operators/moments.hpp"
#include "operators/sums.hpp"

namespace mgi::operators {

// What a state does with the next value. States: i64 for Count*, *64; i128 for *128; LongSum for Sum192; FloatSum for
// SumFloat; RowText for *Text; the value and zeros behind it for *Bytes; Moments for Moments*. Minima and
// maxima of all types of up to 8 bytes are kept as i64 that order like the values (see `Order`).
enum class Fold : u8 {
    CountRows,
    CountValid,
    CountBits,   // a Bool column says which values there are
    CountPairs,  // rows of a table of pairs, not those that others fold
    Sum64,
    Sum128,
    Sum192,  // never overflows
    SumFloat,
    Min64,
    Max64,
    Min128,
    Max128,
    MinText,
    MaxText,
    MinBytes,
    MaxBytes,
    Moments,        // of values
    MomentsOfMany,  // of moments
};

// How values become i64 that order as the values do.
enum class Order : u8 { Signed, Unsigned, Float };

// A sum left its bits: the operator starts again with 192.
struct NarrowOverflow {};

// One state of a group: where it lies in the row, and which column it is made of.
struct State {
    Fold fold = Fold::CountRows;
    Order order = Order::Signed;
    u32 column = 0;    // of the raw rows; unused by CountRows
    u32 offset = 0;    // in the row
    u32 width = 0;     // of the value, for *Bytes
    std::string name;  // of the input column, for errors

    // Bytes in the row.
    [[nodiscard]] u32 bytes() const;
    // As it travels.
    [[nodiscard]] Type type() const;
};

// A state that no value was folded into, appended to `row`.
void append_empty_state(State const& state, std::vector<char>& row);
inline bool state_is_text(Fold fold) {
    return fold == Fold::MinText || fold == Fold::MaxText;
}

// Values that a column was turned into, up to kVector of them.
union alignas(64) FoldScratch {
    i64 words[kVector];
    i128 wide[kVector];
    double floats[kVector];
    FoldScratch() {}
};

// Whether a text state holds no value.
bool is_no_text(RowText const& state);

// The state as it is folded from a column of travelling states (of type `state_type`): those order as
// they are, and counts are added up.
State travelling(State state);

// Folds rows of a column of type `type` into the state of each row's group. `rows`: a group's row for
// each value. Throws NarrowOverflow.
void fold_values(State const& state, Type const& type, ColumnView const& view, u32 count,
                 char* const* rows, TextArena& texts, FoldScratch& scratch);

// Folds states of other rows into states. Texts are not copied: both tables live on.
void fold_rows(State const& state, char const* const* from, u32 count, char* const* rows);

// Decimals as i64; throws NarrowOverflow where one is larger.
void narrow_decimals(ColumnView const& view, u32 count, i64* to);

// An i64 that orders as `value` does; and back. NaN is greater than every other value, as in DuckDB.
i64 ordered(double value);
double from_ordered(i64 word);

}  // namespace mgi::operators
