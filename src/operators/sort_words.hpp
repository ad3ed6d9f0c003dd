// Rows as words that order them, sorted by radix.
#pragma once

#include <functional>

#include "operators/text.hpp"

namespace mgi::operators {

// A row, by its batch and its place there, and a word by which it is sorted.
struct SortEntry {
    u64 word = 0;
    u32 batch = 0;
    u32 row = 0;

    [[nodiscard]] u64 place() const { return u64{batch} << 32 | row; }
};

// Sorts entries by their words, in `at`; equal ones come in any order. `scratch` has room for as many. `check` is called now and
// then, and may throw.
void sort_words(SortEntry* at, SortEntry* scratch, u64 count, std::function<void()> const& check);

}  // namespace mgi::operators
