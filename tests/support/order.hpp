/// \file
/// The order of keys over rows of cells, as simple as can be.
#pragma once

#include <vector>

#include <mgi/channel.hpp>

#include "support/tables.hpp"

namespace mgi::test {

/// Below 0, 0 or above it, as the first comes before the second, is equal to it or behind it; both are values.
int compare_cells(Type const& type, Cell const& a, Cell const& b);
/// The same of whole rows, by some keys.
int compare_rows(Schema const& schema, std::vector<SortKey> const& keys, Row const& a,
                 Row const& b);
/// Some columns, each in one of the directions, with nulls at one of the ends.
std::vector<SortKey> random_order(Schema const& schema, Random& random);
/// Rows of values that differ late or little: texts that begin alike, characters of 0 and 255, decimals on both sides
/// of 64 bits.
std::vector<Row> close_rows(Schema const& schema, std::size_t count, Random& random);
/// Sorts them by the reference.
void sort_rows(Schema const& schema, std::vector<SortKey> const& keys, std::vector<Row>& rows);

}  // namespace mgi::test
