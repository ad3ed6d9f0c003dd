/// \file
/// Sorting an endpoint's rows by words and what these hide, against the plain comparison.
#include <gtest/gtest.h>

#include "core/ordering.hpp"
#include "operators/sort_rows.hpp"
#include "support/cases.hpp"
#include "support/order.hpp"

namespace mgi::test {
namespace {

using operators::RowSorter;
using operators::SortEntry;
using operators::SortRows;

class SortRowsProperty : public ::testing::TestWithParam<int> {};

TEST_P(SortRowsProperty, SortsAsCellsCompare) {
    Random random(8000 + static_cast<std::uint64_t>(GetParam()));
    Schema const schema = random_schema(random, 4);
    auto const keys = random_order(schema, random);
    std::vector<bool> has_nulls;
    for (Field const& field : schema.fields()) has_nulls.push_back(field.nullable);
    SortRows rows(schema, key_orders("test", keys, schema), has_nulls);

    std::vector<std::vector<Row>> cells;  // by batch
    std::vector<std::vector<RecordBatch>> batches(2);
    std::size_t count = 0;
    for (std::size_t b = 0; b < 1 + random.below(5); ++b) {
        cells.push_back(close_rows(schema, random.below(random.one_in(3) ? 3 : 400), random));
        count += cells.back().size();
    }
    std::size_t const first_group = random.below(cells.size() + 1);
    for (std::size_t b = 0; b < cells.size(); ++b) {
        batches[b < first_group ? 0 : 1].push_back(make_batch(schema, cells[b], random));
    }
    rows.take(std::move(batches));
    ASSERT_EQ(rows.rows(), count);

    std::vector<SortEntry> entries(count);
    std::vector<SortEntry> scratch(count);
    std::size_t const middle = random.below(count + 1);
    rows.fill(0, middle, entries.data());
    rows.fill(middle, count, entries.data() + middle);
    RowSorter(rows, [] {}).sort(entries.data(), scratch.data(), count);

    auto const row = [&](SortEntry const& entry) -> Row const& {
        return cells[entry.batch][entry.row];
    };
    std::vector<std::vector<bool>> seen;
    for (auto const& some : cells) seen.emplace_back(some.size());
    for (std::size_t i = 0; i < count; ++i) {
        ASSERT_FALSE(seen[entries[i].batch][entries[i].row]) << "twice";
        seen[entries[i].batch][entries[i].row] = true;
        if (i == 0) continue;
        int const expected = compare_rows(schema, keys, row(entries[i - 1]), row(entries[i]));
        ASSERT_LE(expected, 0) << "row " << i << " of " << schema.to_string();
        int const compared = rows.compare(entries[i - 1], entries[i], 0);
        ASSERT_EQ(compared == 0, expected == 0);
        ASSERT_LE(compared, 0);
    }
}

INSTANTIATE_TEST_SUITE_P(Seeds, SortRowsProperty, ::testing::Range(0, test::cases(200)));

TEST(SortRows, GoesOnOnlyWhileItMay) {
    Random random(1);
    Schema const schema{{"n", int64()}};
    SortRows rows(schema, key_orders("test", {{"n"}}, schema), {false});
    rows.take({{make_batch(schema, random_rows(schema, 100'000, random))}});
    std::vector<SortEntry> entries(rows.rows());
    std::vector<SortEntry> scratch(rows.rows());
    rows.fill(0, rows.rows(), entries.data());
    RowSorter sorter(rows, [] { throw Error(ErrorCode::Interrupted, "enough"); });
    EXPECT_THROW(sorter.sort(entries.data(), scratch.data(), rows.rows()), Error);
}

}  // namespace
}  // namespace mgi::test
