// Key columns in another form, see KeyConversion: rows of one at a time, in the host's memory.
#pragma once

#include "operators/columns.hpp"
#include "operators/key_conversion.hpp"

namespace mgi::operators {

// Room for the values of up to `rows` rows, used again.
class ConvertedKeys {
public:
    ConvertedKeys(KeyConversion const& how, u32 rows);

    // The first `rows` rows of a column, converted: nulls are those of the column and those that have no equal. Valid until the
    // next call.
    ColumnView convert(ColumnView const& from, u32 rows);

private:
    KeyConversion how_;
    Buffer values_;
    Buffer validity_;
};

}  // namespace mgi::operators
