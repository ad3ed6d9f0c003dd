/// \file
/// The order of keys, and rows as splitters, against a plain comparison of cells.
#include <gtest/gtest.h>

#include <limits>

#include "core/ordering.hpp"
#include "support/cases.hpp"
#include "support/expect_error.hpp"
#include "support/order.hpp"

namespace mgi::test {
namespace {

int sign(int value) {
    return value < 0 ? -1 : value > 0 ? 1 : 0;
}

/// Rows as splitters, in the order that they have.
Splitters splitters_of(Schema const& schema, std::vector<SortKey> const& keys,
                       RecordBatch const& batch) {
    OrderedRows const rows("test", keys, batch);
    Splitters made;
    for (auto const& key : rows.keys()) made.types.push_back(schema[key.column].type);
    for (std::int64_t r = 0; r < batch.rows; ++r) {
        rows.append(std::uint64_t(r), UINT32_MAX - 1, made);
    }
    return made;
}

class OrderingProperty : public ::testing::TestWithParam<int> {};

TEST_P(OrderingProperty, ComparesAsCellsDo) {
    Random random(900 + std::uint64_t(GetParam()));
    Schema const schema = random_schema(random, 4);
    auto const keys = random_order(schema, random);
    auto const rows = close_rows(schema, 60, random);
    auto const batch = make_batch(schema, rows, random);
    Splitters const made = splitters_of(schema, keys, batch);
    auto const orders = key_orders("test", keys, schema);
    auto const table = range_table(orders, made);
    auto const columns = compared_columns(schema);
    BatchInput const input(batch, 0);
    for (std::uint32_t a = 0; a < rows.size(); ++a) {
        for (std::uint32_t b = 0; b < rows.size(); ++b) {
            int const expected = sign(compare_rows(schema, keys, rows[a], rows[b]));
            ASSERT_EQ(sign(table.compare(a, b)), expected) << schema.to_string();
            ASSERT_EQ(sign(table.compare(input.get(), columns.data(), a, b)), expected);
        }
    }
}

TEST_P(OrderingProperty, FindsTheRangeOfEachRow) {
    Random random(950 + std::uint64_t(GetParam()));
    Schema const schema = random_schema(random, random.one_in(2) ? 1 : 3);
    auto const keys = random_order(schema, random);
    auto const rows = close_rows(schema, 200, random);
    auto splitters = close_rows(schema, random.below(12), random);
    if (random.one_in(2)) splitters.assign(rows.begin(), rows.begin() + 5);
    sort_rows(schema, keys, splitters);
    auto const batch = make_batch(schema, rows, random);
    Splitters const made = splitters_of(schema, keys, make_batch(schema, splitters, random));
    auto const orders = key_orders("test", keys, schema);
    auto const table = range_table(orders, made);
    auto const columns = compared_columns(schema);
    BatchInput const input(batch, 0);
    std::vector<device::u16> found(rows.size());
    device::find_ranges(device::Group{}, table, input.get(), columns.data(), 0,
                        std::uint32_t(rows.size()), found.data());
    for (std::size_t r = 0; r < rows.size(); ++r) {
        std::size_t expected = 0;
        for (Row const& splitter : splitters) {
            expected += compare_rows(schema, keys, rows[r], splitter) >= 0 ? 1 : 0;
        }
        ASSERT_EQ(found[r], expected) << "row " << r << " of " << schema.to_string();
        ASSERT_EQ(table.destination(input.get(), columns.data(), r), expected);
    }
}

INSTANTIATE_TEST_SUITE_P(Seeds, OrderingProperty, ::testing::Range(0, test::cases(120)));

TEST(Ordering, NansAreLastAndZerosAreEqual) {
    Schema const schema{{"x", float64(), true}};
    double const nan = std::numeric_limits<double>::quiet_NaN();
    double const infinity = std::numeric_limits<double>::infinity();
    std::vector<double> const values{-infinity, -1.5, -0.0, 0.0, 1e-300, infinity, nan, -nan};
    std::vector<Row> rows;
    for (double const value : values) rows.push_back({cell(value)});
    rows.push_back({std::nullopt});
    std::vector<SortKey> const keys{{"x"}};
    Splitters const made = splitters_of(schema, keys, make_batch(schema, rows));
    auto const orders = key_orders("test", keys, schema);
    auto const table = range_table(orders, made);
    std::vector<int> const steps{-1, -1, 0, -1, -1, -1, 0, -1};
    for (std::uint32_t i = 0; i < steps.size(); ++i) {
        EXPECT_EQ(sign(table.compare(i, i + 1)), steps[i]) << i;
    }
}

TEST(Ordering, KeysThatAreNoneAreNamed) {
    Schema const schema{{"key", int64()}, {"value", int64()}};
    auto const refuses = [&](std::vector<SortKey> const& keys,
                             std::initializer_list<std::string> words) {
        expect_error(ErrorCode::InvalidArgument, words,
                     [&] { (void)Routing::range(keys, make_batch(schema, {})); });
    };
    refuses({}, {"Routing::range", "no keys"});
    refuses({{"kee"}}, {"Routing::range", "kee", "key, value"});
    refuses({{"key"}, {"key", true}}, {"Routing::range", "'key' is given twice"});
    RecordBatch torn = make_batch(schema, {});
    torn.columns.pop_back();
    expect_error(ErrorCode::InvalidArgument, {"a batch of 1 columns"},
                 [&] { (void)Routing::range({{"key"}}, torn); });
}

}  // namespace
}  // namespace mgi::test
