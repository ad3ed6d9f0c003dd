/// \file
/// Sort against the plain one: all results together are the sorted table, and endpoints share the rows.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "operators/job.hpp"
#include "operators/sort_words.hpp"
#include "support/cases.hpp"
#include "support/expect_error.hpp"
#include "support/hang_guard.hpp"
#include "support/order.hpp"

namespace mgi::test {
namespace {

/// Whether the results, one after the other, have these rows in order.
::testing::AssertionResult sorted(std::vector<Table> const& results, Schema const& schema,
                                  std::vector<SortKey> const& keys, std::vector<Row> const& rows) {
    auto const got = rows_of(results);
    for (std::size_t r = 1; r < got.size(); ++r) {
        if (compare_rows(schema, keys, got[r - 1], got[r]) <= 0) continue;
        return ::testing::AssertionFailure() << "row " << r << " comes before the one ahead";
    }
    return same_rows(encode_all(got), encode_all(rows));
}

OperatorOptions random_sort_options(Random& random) {
    OperatorOptions options;
    options.groups = static_cast<std::uint32_t>(random.below(5));
    options.by_reference = random.one_in(2);
    if (random.one_in(2)) options.segment_bytes = 1U << 13;
    return options;
}

/// Few different values, values that are close, or any.
std::vector<Row> rows_to_sort(Schema const& schema, Random& random) {
    std::size_t const count = random.one_in(6) ? random.below(6) : random.below(3000);
    if (random.one_in(2)) return close_rows(schema, count, random);
    DataShape shape;
    shape.keys = static_cast<Keys>(random.below(4));
    shape.nulls = 1 + random.below(4);
    return random_rows(schema, count, random, shape);
}

class SortProperty : public ::testing::TestWithParam<int> {};

TEST_P(SortProperty, AllResultsTogetherAreTheSortedTable) {
    Random random(7000 + static_cast<std::uint64_t>(GetParam()));
    for (int round = 0; round < (kSanitized ? 3 : 10); ++round) {
        Schema const schema = random_schema(random, 5);
        auto const keys = random_order(schema, random);
        auto const rows = rows_to_sort(schema, random);
        Cluster cluster(1 + random.below(5));
        OperatorReport report;
        auto const result = sort(cluster.runtime, cluster.endpoints,
                                 deal(schema, rows, cluster.endpoints.size(), random), keys,
                                 random_sort_options(random), &report);
        ASSERT_TRUE(sorted(result, schema, keys, rows))
            << "round " << round << " of " << schema.to_string();
        EXPECT_EQ(report.rows, rows.size());
        for (Table const& table : result) EXPECT_EQ(table.schema, schema);
    }
}

TEST_P(SortProperty, AmongProcesses) {
    Random random(7500 + static_cast<std::uint64_t>(GetParam()));
    std::size_t const processes = 2 + random.below(2);
    Job job(processes, random_owners(random, processes, random.below(3)));
    Schema const schema = random_schema(random, 5);
    auto const keys = random_order(schema, random);
    auto const rows = rows_to_sort(schema, random);
    auto const parts = deal(schema, rows, job.endpoints().size(), random);
    OperatorOptions const options = random_sort_options(random);
    auto came = job.run([&](operators::Processes& all, std::size_t me) {
        OperatorOptions mine = options;
        mine.groups = 1 + static_cast<std::uint32_t>(me % 3);
        return operators::sort_among(all, job.runtime(), job.endpoints(), job.own(parts, me), keys,
                                     mine, nullptr);
    });
    EXPECT_TRUE(sorted(job.result(came), schema, keys, rows)) << schema.to_string();
}

INSTANTIATE_TEST_SUITE_P(Seeds, SortProperty, ::testing::Range(0, test::seeds(20)));

/// One column of numbers, dealt out in runs.
std::vector<Table> parts_of_numbers(std::vector<std::int64_t> const& numbers, std::size_t parts) {
    Schema const schema{{"n", int64()}};
    std::vector<Table> made(parts);
    for (std::size_t p = 0; p < parts; ++p) {
        std::vector<Row> rows;
        for (std::size_t i = numbers.size() * p / parts; i < numbers.size() * (p + 1) / parts;
             ++i) {
            rows.push_back({cell(numbers[i])});
        }
        made[p] = {schema, {make_batch(schema, rows)}};
    }
    return made;
}

/// The most rows that one endpoint gets, in shares of what each would have.
double most_share(std::vector<std::int64_t> const& numbers, std::size_t endpoints) {
    Cluster cluster(endpoints);
    OperatorOptions options;
    options.groups = 2;
    auto const result = sort(cluster.runtime, cluster.endpoints,
                             parts_of_numbers(numbers, endpoints), {{"n"}}, options);
    std::int64_t most = 0;
    for (Table const& table : result) most = std::max(most, table.rows());
    return double(most) * double(endpoints) / double(numbers.size());
}

TEST(Sort, EndpointsShareRowsWhateverTheirOrder) {
    constexpr std::size_t kCount = 40'000;
    std::vector<std::int64_t> numbers(kCount);
    std::iota(numbers.begin(), numbers.end(), -1000);
    EXPECT_LT(most_share(numbers, 4), 1.2);
    std::reverse(numbers.begin(), numbers.end());
    EXPECT_LT(most_share(numbers, 4), 1.2);
    Random random(1);
    for (auto& number : numbers) number = static_cast<std::int64_t>(random.next());
    EXPECT_LT(most_share(numbers, 4), 1.2);
    // Most are close to one end, none has many rows.
    for (auto& number : numbers)
        number = static_cast<std::int64_t>(random.next() >> random.below(60));
    EXPECT_LT(most_share(numbers, 4), 1.2);
    // A key that a third of the rows have comes to one endpoint, with what else belongs there.
    for (auto& number : numbers) {
        number = random.one_in(3) ? 77 : static_cast<std::int64_t>(random.below(1'000'000));
    }
    EXPECT_LT(most_share(numbers, 4), 4.0 / 3 + 1.2);
    numbers.assign(kCount, 5);
    EXPECT_EQ(most_share(numbers, 4), 4.0);
    // Few keys: each goes whole to where it is nearest to an even share.
    for (auto& number : numbers) number = random.below(10) < 6 ? 0 : 1;
    EXPECT_LT(most_share(numbers, 2), 1.3);
    for (auto& number : numbers) number = static_cast<std::int64_t>(random.below(4));
    EXPECT_LT(most_share(numbers, 4), 1.2);
}

TEST(Sort, GroupsShareTheRowsOfOneKey) {
    Cluster cluster(1);
    OperatorOptions options;
    options.groups = 4;
    std::vector<std::int64_t> const numbers(40'000, 5);
    auto const result =
        sort(cluster.runtime, cluster.endpoints, parts_of_numbers(numbers, 1), {{"n"}}, options);
    EXPECT_EQ(result[0].rows(), 40'000);
    for (RecordBatch const& batch : result[0].batches) EXPECT_LT(batch.rows, 16'000);
}

TEST(Sort, PartsMayBeEmptyAndRowsFew) {
    Schema const schema{{"n", int64()}};
    for (std::size_t count : {0U, 1U, 3U}) {
        std::vector<std::int64_t> numbers(count);
        std::iota(numbers.rbegin(), numbers.rend(), 0);
        auto parts = parts_of_numbers(numbers, 1);
        parts.resize(5);
        Cluster cluster(5);
        auto const result = sort(cluster.runtime, cluster.endpoints, parts, {{"n"}});
        std::vector<Row> rows;
        for (auto const number : numbers) rows.push_back({cell(number)});
        EXPECT_TRUE(sorted(result, schema, {{"n"}}, rows));
    }
}

TEST(Sort, BadInputIsNamed) {
    Cluster cluster(2);
    Random random(1);
    auto const parts = deal(numbered_schema(), numbered_rows(10, 3), 2, random);
    auto const refuses = [&](std::vector<SortKey> const& keys, OperatorOptions const& options,
                             std::initializer_list<std::string> words) {
        expect_error(ErrorCode::InvalidArgument, words,
                     [&] { sort(cluster.runtime, cluster.endpoints, parts, keys, options); });
    };
    refuses({}, {}, {"sort", "no keys"});
    refuses({{"kee"}}, {}, {"sort", "kee", "key, value"});
    refuses({{"key"}, {"value"}, {"key", true}}, {}, {"sort", "'key' is given twice"});
    OperatorOptions two_levels;
    two_levels.two_level = TwoLevel::On;
    refuses({{"key"}}, two_levels, {"sort", "two_level"});
    expect_error(ErrorCode::InvalidArgument, {"sort", "1 parts for 2 endpoints"},
                 [&] { sort(cluster.runtime, cluster.endpoints, {parts[0]}, {{"key"}}); });
}

TEST(Sort, AResultPastItsLimitIsAnError) {
    Cluster cluster(2);
    Random random(1);
    OperatorOptions options;
    options.receive_limit = 1U << 20;
    auto const parts = deal(numbered_schema(), numbered_rows(100'000, 1000), 2, random);
    expect_error(ErrorCode::OutOfMemory, {"receive_limit"},
                 [&] { sort(cluster.runtime, cluster.endpoints, parts, {{"key"}}, options); });
    // And the runtime is as it was.
    EXPECT_EQ(rows_of(sort(cluster.runtime, cluster.endpoints, parts, {{"key"}})).size(), 100'000U);
}

TEST(Sort, CancelStopsIt) {
    Cluster cluster(2);
    std::atomic<bool> cancel{true};
    OperatorOptions options;
    options.cancel = &cancel;
    // Enough rows not to be done before the first look.
    auto parts = parts_of_numbers(std::vector<std::int64_t>(100'000, 1), 2);
    for (Table& part : parts) part.batches.resize(200, part.batches.front());
    expect_error(ErrorCode::Interrupted, {"stopped"},
                 [&] { sort(cluster.runtime, cluster.endpoints, parts, {{"n"}}, options); });
}

TEST(Sort, ProcessesThatAskForOtherOrdersHearOfIt) {
    Job job(2, {0, 1});
    auto const parts = parts_of_numbers({3, 1, 2}, 2);
    auto const came = job.run([&](operators::Processes& all, std::size_t me) {
        return operators::sort_among(all, job.runtime(), job.endpoints(), job.own(parts, me),
                                     {{"n", me == 1}}, {}, nullptr);
    });
    for (std::string const& text : texts_of(came, ErrorCode::InvalidArgument)) {
        expect_words(text, {"n asc", "n desc"});
    }
}

TEST(SortWords, SortsWordsOfAnyWidth) {
    Random random(3);
    for (int round = 0; round < 40; ++round) {
        std::size_t const count = random.below(round % 4 == 0 ? 100'000 : 3000);
        auto const shift = random.below(64);
        auto const left = random.below(shift + 1);
        std::vector<operators::SortEntry> entries(count);
        for (std::uint32_t i = 0; i < count; ++i) {
            entries[i] = {random.next() >> shift << left, i, 0};
            if (random.one_in(2)) entries[i].word |= 1;
        }
        auto expected = entries;
        std::vector<operators::SortEntry> scratch(count);
        operators::sort_words(entries.data(), scratch.data(), count, [] {});
        auto const before = [](auto const& a, auto const& b) {
            return std::pair(a.word, a.batch) < std::pair(b.word, b.batch);
        };
        EXPECT_TRUE(std::is_sorted(entries.begin(), entries.end(),
                                   [](auto const& a, auto const& b) { return a.word < b.word; }));
        std::sort(expected.begin(), expected.end(), before);
        std::sort(entries.begin(), entries.end(), before);
        EXPECT_TRUE(std::equal(
            entries.begin(), entries.end(), expected.begin(),
            [](auto const& a, auto const& b) { return a.word == b.word && a.batch == b.batch; }));
    }
}

}  // namespace
}  // namespace mgi::test
