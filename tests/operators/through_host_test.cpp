// Operators over tables on GPUs that go through the host's memory, by one process and by several.
#include <gtest/gtest.h>

#include "operators/host_rounds_bed.hpp"
#include "support/expect_error.hpp"

namespace mgi::operators::on_gpu {
namespace {

using test::Came;
using test::Job;
using test::Random;
using test::ThreadAsProcess;
using F = AggregateFunction;

constexpr u64 kAnyKey = 1u << 30;

class ThroughHost : public ::testing::TestWithParam<int> {
protected:
    Random random_{7000 + u64(GetParam())};
    std::size_t const processes_ = 1 + std::size_t(GetParam()) % 3;
    std::vector<std::size_t> const owners_ = test::random_owners(random_, processes_, 1);
    OperatorOptions options_;
    OperatorReport report_;

    // A part for each endpoint, some of them without rows.
    GpuTables parts_of(PlainTable const& table) {
        GpuTables parts;
        std::size_t first = 0;
        for (std::size_t e = 0; e < owners_.size(); ++e) {
            std::size_t const left = table.rows.size() - first;
            std::size_t const count = e + 1 == owners_.size() ? left : random_.below(left + 1);
            parts.push_back(on_host(batch_of(table, first, count)));
            first += count;
        }
        return parts;
    }
    std::vector<Came> call(auto const& work) {
        Job job{processes_, owners_};
        return job.run([&](ThreadAsProcess& process, std::size_t me) {
            HostOperators operators(process, job.runtime(), job.endpoints(), options_,
                                    me == 0 ? &report_ : nullptr);
            auto const own = [&](GpuTables parts) {
                for (std::size_t e = 0; e < parts.size(); ++e) {
                    if (owners_[e] != me) parts[e] = no_rows(parts[e].schema);
                }
                return parts;
            };
            std::vector<Table> results;
            for (GpuTable const& table : work(operators, own)) {
                EXPECT_EQ(table.columns.size(), table.schema.size());
                results.push_back({table.schema, {batch_of_result(table)}});
            }
            return results;
        });
    }
    std::vector<Table> results_of(auto const& work) {
        auto came = call(work);
        for (Came const& one : came) {
            if (one.failure) std::rethrow_exception(one.failure);
        }
        return Job{processes_, owners_}.result(came);
    }
};

TEST_P(ThroughHost, Join) {
    Schema const schema{{"key", int64(), true}, {"x", int32(), true}, {"name", string(), true}};
    PlainTable const left = random_table(schema, 3000, 500, u64(GetParam()));
    PlainTable const right =
        random_table(Schema{{"id", int64()}, {"wide", fixed_size_binary(100)}, {"note", string()}},
                     900, 500, 50 + u64(GetParam()));
    options_.receive_limit = 600'000;
    for (JoinKind const kind : test::kKinds) {
        SCOPED_TRACE(name_of(kind));
        bool const pairs = kind != JoinKind::Semi && kind != JoinKind::Anti;
        JoinSpec const spec{{"key"},
                            {"id"},
                            {"key", "name"},
                            pairs ? std::vector<std::string>{"note"} : std::vector<std::string>{},
                            kind};
        auto const lefts = parts_of(left);
        auto const rights = parts_of(right);
        auto const results = results_of([&](HostOperators& of, auto const& own) {
            return of.spilled_join(own(lefts), own(rights), spec);
        });
        expect_same(rows_of_all(results),
                    sorted(join(left, right, spec.left_keys, spec.right_keys, spec.left_columns,
                                spec.right_columns, kind)));
        EXPECT_GE(report_.rounds, 1u);
        EXPECT_EQ(report_.phases.back().name, "spill");
    }
}

TEST_P(ThroughHost, GroupBy) {
    Schema const schema{{"key", int64(), true}, {"x", int32(), true}, {"name", string(), true}};
    std::vector<Aggregate> const wanted{{F::Count, "", "rows"}, {F::Sum, "x", "sum"}};
    for (u64 const keys : {u64{9}, kAnyKey}) {
        PlainTable const table = random_table(schema, 4000, keys, u64(GetParam()));
        for (std::string const key : {"key", "name"}) {
            options_.receive_limit = 400'000;
            auto const parts = parts_of(table);
            auto const results = results_of([&](HostOperators& of, auto const& own) {
                return of.spilled_group_by(own(parts), {key}, wanted);
            });
            expect_same(rows_of_all(results), sorted(group_by(table, {key}, wanted)));
        }
    }
}

TEST_P(ThroughHost, Sort) {
    Schema const schema{{"key", int64(), true}, {"name", string(), true}};
    PlainTable const table = random_table(schema, 4000, kAnyKey, u64(GetParam()));
    options_.receive_limit = 400'000;
    auto const parts = parts_of(table);
    auto const results = results_of([&](HostOperators& of, auto const& own) {
        return of.spilled_sort(own(parts), {{"name"}, {"key", true}});
    });
    expect_same(rows_of_all(results), sorted(table.rows));
}

// A process without rows may not say which columns there are.
TEST_P(ThroughHost, ColumnsAreKnownToAllProcesses) {
    PlainTable const left = random_table(Schema{{"key", int64()}, {"x", int32()}}, 900, 50, 3);
    PlainTable const right = random_table(Schema{{"id", int64()}, {"x", int32()}}, 90, 50, 4);
    JoinSpec const spec{{"key"}, {"id"}, {"key"}, {}, JoinKind::Inner};
    GpuTables lefts(owners_.size());
    GpuTables rights(owners_.size());
    lefts[0] = on_host(batch_of(left, 0, 900));
    rights[0] = on_host(batch_of(right, 0, 90));
    auto const results = results_of([&](HostOperators& of, auto const& own) {
        return of.spilled_join(own(lefts), own(rights), spec);
    });
    expect_same(rows_of_all(results),
                sorted(join(left, right, {"key"}, {"id"}, {"key"}, {"id", "x"}, JoinKind::Inner)));
    EXPECT_EQ(results[0].schema.to_string(), "key: int64, id: int64, x_right: int32");
}

TEST_P(ThroughHost, StaysWithinBothLimits) {
    PlainTable const table =
        random_table(Schema{{"key", int64()}, {"x", int64()}}, 9000, kAnyKey, 4);
    auto const parts = parts_of(table);
    auto const fails = [&](std::vector<std::string> const& words) {
        auto const came = call([&](HostOperators& of, auto const& own) {
            return of.spilled_group_by(own(parts), {"key"}, {{F::Max, "x", "most"}});
        });
        for (std::string const& text : test::texts_of(came, ErrorCode::OutOfMemory)) {
            test::expect_words(text, words);
        }
    };
    options_.spill_limit = 1;
    fails({"spill_limit"});
    if (processes_ == 1) {
        options_.spill_limit = 200'000;  // enough for the rows, and not for what is made of them
        fails({"spill_limit"});
    }
    options_.spill_limit = 0;
    options_.receive_limit = 100;  // for results, too
    fails({"receive_limit"});
}

INSTANTIATE_TEST_SUITE_P(Seeds, ThroughHost, ::testing::Range(0, 6));

}  // namespace
}  // namespace mgi::operators::on_gpu
