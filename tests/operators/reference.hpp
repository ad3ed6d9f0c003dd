/// \file
/// Operators over rows of cells, as simple as can be: what the real ones are compared with.
#pragma once

#include <string>
#include <vector>

#include <mgi/operators.hpp>

#include "operators/join_kinds.hpp"
#include "support/tables.hpp"

namespace mgi::test {

/// A runtime with some endpoints.
struct Cluster {
    explicit Cluster(std::size_t count, std::uint32_t devices = 0);

    Runtime runtime;
    std::vector<Endpoint> endpoints;
};

/// Deals rows out to parts in batches of random sizes, some of them empty.
std::vector<Table> deal(Schema const& schema, std::vector<Row> const& rows, std::size_t parts,
                        Random& random);

/// All rows of all parts.
std::vector<Row> rows_of(std::vector<Table> const& parts);

/// A key column's cell as SQL compares it: one NaN, one zero.
Cell canonical(Type const& type, Cell const& value);

/// Row for row; floats as sums in another order may differ.
std::vector<Row> reference_group_by(Schema const& schema, std::vector<Row> const& rows,
                                    std::vector<std::string> const& keys,
                                    std::vector<Aggregate> const& aggregates);

/// Rows of the left followed by rows of the right where all keys are equal and none is null, and what else
/// the kind asks for, with nulls for the side that is missing. Of Semi and Anti, rows of the left.
std::vector<Row> reference_join(Schema const& left_schema, std::vector<Row> const& left,
                                std::vector<std::string> const& left_keys,
                                Schema const& right_schema, std::vector<Row> const& right,
                                std::vector<std::string> const& right_keys,
                                JoinKind kind = JoinKind::Inner);

/// Whether both hold the same groups, keyed by their first `keys` columns, floats nearly equal.
::testing::AssertionResult same_groups(Schema const& schema, std::vector<Row> const& got,
                                       std::vector<Row> const& expected, std::size_t keys);

/// Cells of a small set of values, so that rows share them; sums of them stay small.
class CellPool {
public:
    CellPool(Field const& field, std::size_t distinct, Random& random);
    Cell const& pick(Random& random) const { return cells_[random.below(cells_.size())]; }
    /// One in how many pairs of picks are equal: for a bool one in two.
    [[nodiscard]] double kinds() const;

private:
    std::vector<Cell> cells_;
};

/// A value whose sums neither overflow nor lose digits.
Cell small_cell(Field const& field, Random& random);

}  // namespace mgi::test
