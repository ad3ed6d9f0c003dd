/// \file
/// The sort of GPUs, on threads of the host, against the plain comparison.
#include <gtest/gtest.h>

#include "operators/gpu/sort.hpp"
#include "operators/host_tables.hpp"
#include "operators/host_windows.hpp"
#include "operators/job.hpp"
#include "support/cases.hpp"
#include "support/expect_error.hpp"
#include "support/hang_guard.hpp"
#include "support/order.hpp"

namespace mgi::operators::on_gpu {
namespace {

using test::Came;
using test::close_rows;
using test::Job;
using test::make_batch;
using test::Random;
using test::ThreadAsProcess;
using TestRow = test::Row;

/// Whether the results, one after the other, have these rows in order.
::testing::AssertionResult in_order(std::vector<Table> const& results, Schema const& schema,
                                    std::vector<SortKey> const& keys,
                                    std::vector<TestRow> const& rows) {
    auto const got = test::rows_of(results);
    for (std::size_t r = 1; r < got.size(); ++r) {
        if (test::compare_rows(schema, keys, got[r - 1], got[r]) <= 0) continue;
        return ::testing::AssertionFailure()
               << "row " << r << " comes before the one ahead in " << schema.to_string();
    }
    return test::same_rows(test::encode_all(got), test::encode_all(rows));
}

/// Few different values, values that are close, or any.
std::vector<TestRow> rows_to_sort(Schema const& schema, Random& random) {
    std::size_t const count = random.one_in(6) ? random.below(6) : random.below(3000);
    if (random.one_in(2)) return close_rows(schema, count, random);
    test::DataShape shape;
    shape.keys = static_cast<test::Keys>(random.below(4));
    shape.nulls = 1 + random.below(4);
    return test::random_rows(schema, count, random, shape);
}

std::vector<GpuTable> dealt(Schema const& schema, std::vector<TestRow> const& rows,
                            std::size_t endpoints, Random& random) {
    std::vector<std::size_t> cuts{0, rows.size()};
    while (cuts.size() <= endpoints) cuts.push_back(random.below(rows.size() + 1));
    std::sort(cuts.begin(), cuts.end());
    std::vector<GpuTable> parts;
    for (std::size_t e = 0; e < endpoints; ++e) {
        auto const begin = rows.begin();
        parts.push_back(
            on_host(make_batch(schema, {begin + i64(cuts[e]), begin + i64(cuts[e + 1])})));
    }
    return parts;
}

/// Endpoints on CPU devices.
struct Endpoints {
    explicit Endpoints(std::size_t count) : runtime(runtime_of_cpus(2)) {
        for (std::size_t e = 0; e < count; ++e) {
            all.push_back(runtime.create_endpoint("cpu:" + std::to_string(e % 2)));
        }
        processes = processes_of(runtime, all);
    }
    std::vector<Table> sort(std::vector<GpuTable> const& parts, std::vector<SortKey> const& keys,
                            u32 threads = 1) {
        Operation operation(*processes, "sort", runtime, all, options, places_on_host(threads),
                            &report);
        return tables_of(operation.perform([&] { return sort_on(operation, parts, keys); }));
    }

    Runtime runtime;
    std::vector<Endpoint> all;
    std::unique_ptr<Processes> processes;
    OperatorOptions options;
    OperatorReport report;
};

class GpuSortProperty : public ::testing::TestWithParam<int> {};

TEST_P(GpuSortProperty, AllResultsTogetherAreTheSortedTable) {
    Random random(9000 + u64(GetParam()));
    for (int round = 0; round < (test::kSanitized ? 3 : 10); ++round) {
        Schema const schema = test::random_schema(random, 5);
        auto const keys = test::random_order(schema, random);
        auto const rows = rows_to_sort(schema, random);
        Endpoints at(1 + random.below(5));
        at.options.by_reference = random.one_in(2);
        auto const results =
            at.sort(dealt(schema, rows, at.all.size(), random), keys, 1 + u32(random.below(2)));
        ASSERT_TRUE(in_order(results, schema, keys, rows)) << "round " << round;
        for (Table const& table : results) EXPECT_EQ(table.schema, schema);
        EXPECT_EQ(at.report.rows, at.all.size() == 1 ? 0 : rows.size());
    }
}

TEST_P(GpuSortProperty, AmongProcesses) {
    Random random(9500 + u64(GetParam()));
    std::size_t const processes = 2 + random.below(2);
    Job job(processes, test::random_owners(random, processes, random.below(3)));
    Schema const schema = test::random_schema(random, 5);
    auto const keys = test::random_order(schema, random);
    auto const rows = rows_to_sort(schema, random);
    auto const parts = dealt(schema, rows, job.endpoints().size(), random);
    bool const windows = random.one_in(2);
    auto came = job.run([&](ThreadAsProcess& process, std::size_t) {
        process.windows_of = [shared = windows ? std::make_shared<HostWindows>(true) : nullptr] {
            return shared;
        };
        auto own = parts;
        for (std::size_t e = 0; e < own.size(); ++e) {
            if (!process.mine(job.endpoints()[e])) own[e] = {};
        }
        Operation operation(process, "sort", job.runtime(), job.endpoints(), {}, places_on_host(1));
        return tables_of(operation.perform([&] { return sort_on(operation, own, keys); }));
    });
    EXPECT_TRUE(in_order(job.result(came), schema, keys, rows));
}

INSTANTIATE_TEST_SUITE_P(Seeds, GpuSortProperty, ::testing::Range(0, test::seeds(20)));

std::vector<TestRow> rows_of_texts(std::vector<std::string> const& texts) {
    std::vector<TestRow> rows;
    for (std::string const& text : texts) rows.push_back({text});
    return rows;
}

TEST(GpuSort, TextsThatGoOnAlike) {
    Schema const schema{{"s", binary()}};
    Random random(1);
    std::vector<std::string> texts;
    for (std::size_t const size : {0U, 6U, 7U, 8U, 14U, 700U, 5000U}) {
        std::string const begin(size, 'p');
        for (std::size_t zeros = 0; zeros < 18; ++zeros) {
            texts.push_back(begin + std::string(zeros, '\0'));
            texts.push_back(texts.back() + "\xff");
            texts.push_back(texts.back());
        }
    }
    auto const rows = rows_of_texts(texts);
    for (std::size_t const endpoints : {1U, 3U}) {
        for (bool const descending : {false, true}) {
            Endpoints at(endpoints);
            std::vector<SortKey> const keys{{"s", descending}};
            EXPECT_TRUE(in_order(at.sort(dealt(schema, rows, endpoints, random), keys), schema,
                                 keys, rows));
        }
    }
}

// The second key's words and the groups of the first one's do not fit 64 bits together.
TEST(GpuSort, TiesBySeveralWords) {
    Schema const schema{{"a", int64()}, {"b", int64(), true}, {"c", fixed_size_binary(20)}};
    Random random(2);
    std::vector<TestRow> rows;
    for (int i = 0; i < 3000; ++i) {
        auto const a = i64(device::murmur3_mix(random.below(40)));
        auto const b = i64(device::murmur3_mix(random.below(5)) >> random.below(20));
        std::string c(20, 'c');
        c[random.below(20)] = char('a' + random.below(4));
        rows.push_back({test::cell(a), random.one_in(9) ? test::Cell() : test::cell(b), c});
    }
    for (bool const first : {false, true}) {
        std::vector<SortKey> const keys{{"a"}, {"b", true, first}, {"c", first}};
        Endpoints at(2);
        EXPECT_TRUE(in_order(at.sort(dealt(schema, rows, 2, random), keys), schema, keys, rows));
    }
}

// Columns that the sorted words have whole are made of these.
TEST(GpuSort, KeysComeOutOfTheirWords) {
    Schema const schema{
        {"a", uint8()}, {"b", int32()}, {"c", int64()}, {"d", date32(), true}, {"e", uint64()}};
    Random random(6);
    for (int round = 0; round < 40; ++round) {
        bool const constant = random.one_in(3);
        u64 const high = random.next() << 20;
        std::vector<TestRow> rows;
        for (int i = 0; i < 500; ++i) {
            rows.push_back(
                {test::cell(u8(constant ? 7 : random.next())),
                 test::cell(std::int32_t(random.below(9)) - 4),
                 test::cell(i64(high | random.below(2) << 18 | random.below(64))),
                 random.one_in(9) ? test::Cell() : test::cell(std::int32_t(random.below(50)) - 9),
                 test::cell(constant ? high : random.next())});
        }
        auto keys = test::random_order(schema, random);
        Endpoints at(1 + random.below(2));
        EXPECT_TRUE(in_order(at.sort(dealt(schema, rows, at.all.size(), random), keys), schema,
                             keys, rows));
    }
}

TEST(GpuSort, EndpointsShareRows) {
    Schema const schema{{"n", int64()}};
    Random random(3);
    std::vector<TestRow> rows;
    for (int i = 0; i < 20'000; ++i) rows.push_back({test::cell(i64(random.next()))});
    Endpoints at(4);
    auto const results = at.sort(dealt(schema, rows, 4, random), {{"n"}});
    for (Table const& table : results) EXPECT_LT(table.rows(), 20'000 / 4 * 1.2);
    std::vector<std::string> phases;
    for (OperatorPhase const& phase : at.report.phases) phases.push_back(phase.name);
    EXPECT_EQ(phases, (std::vector<std::string>{"sample", "count", "exchange", "sort", "gather"}));
}

TEST(GpuSort, BadInputIsNamed) {
    Schema const schema{{"key", int64()}, {"value", int64()}};
    Random random(4);
    auto const parts = dealt(schema, test::numbered_rows(10'000, 9), 2, random);
    auto const refuses = [&](std::vector<SortKey> const& keys,
                             std::initializer_list<std::string> words) {
        Endpoints at(2);
        test::expect_error(ErrorCode::InvalidArgument, words, [&] { at.sort(parts, keys); });
    };
    refuses({}, {"sort", "no keys"});
    refuses({{"kee"}}, {"sort", "kee", "key, value"});
    refuses({{"key"}, {"key", true}}, {"sort", "'key' is given twice"});
    Endpoints limited(2);
    limited.options.receive_limit = 200'000;
    test::expect_error(ErrorCode::OutOfMemory, {"the order of", "receive_limit"},
                       [&] { limited.sort(parts, {{"value"}}); });
    Endpoints stopped(2);
    std::atomic<bool> cancel{true};
    stopped.options.cancel = &cancel;
    test::expect_error(ErrorCode::Interrupted, {"stopped"},
                       [&] { stopped.sort(parts, {{"key"}}); });
}

TEST(GpuSort, ProcessesThatAskForOtherOrdersHearOfIt) {
    Job job(2, {0, 1});
    auto const came = job.run([&](ThreadAsProcess& process, std::size_t me) {
        std::vector<SortKey> const keys{{"n", me == 1}};
        Operation operation(process, "sort", job.runtime(), job.endpoints(), {}, places_on_host(1),
                            nullptr, arguments_of(keys));
        return tables_of(
            operation.perform([&] { return sort_on(operation, std::vector<GpuTable>(2), keys); }));
    });
    for (std::string const& text : test::texts_of(came, ErrorCode::InvalidArgument)) {
        test::expect_words(text, {"n asc", "n desc"});
    }
}

TEST(WordBitsProperty, KeepsTheOrderOfWords) {
    Random random(5);
    for (int round = 0; round < test::cases(2000); ++round) {
        u64 mask = random.next();
        for (u64 more = random.below(5); more != 0; --more) mask &= random.next();
        if (random.one_in(3)) mask = ~u64{0} >> random.below(64);
        u64 const base = random.next();
        std::vector<u64> words;
        WordFacts facts;
        for (u64 i = 0; i < 1 + random.below(40); ++i) {
            words.push_back((base & ~mask) | (random.next() & mask));
            add_word(facts, words.back());
        }
        WordBits const bits = WordBits::of(facts);
        EXPECT_LE(bits.bits, u32(std::popcount(mask)));
        for (u64 const a : words) {
            ASSERT_EQ(bits.bits == 64 ? 0 : bits.keep(a) >> bits.bits, 0);
            for (u64 const b : words) ASSERT_EQ(bits.keep(a) < bits.keep(b), a < b);
        }
    }
}

}  // namespace
}  // namespace mgi::operators::on_gpu
