// Variances, different values and any values of a group-by on GPUs, on threads of the host: in one step and in two,
// with rows stored at their final places and through channels, in one process and in two.
#include <gtest/gtest.h>

#include "operators/gpu/group_by.hpp"
#include "operators/host_pool.hpp"
#include "operators/host_tables.hpp"
#include "operators/job.hpp"
#include "support/expect_error.hpp"

namespace mgi::operators::on_gpu {
namespace {

using namespace mgi::test::plain;
using test::Job;
using test::ThreadAsProcess;
using F = AggregateFunction;

struct Shape {
    std::size_t processes = 1;
    std::size_t endpoints = 1;
    u32 threads = 1;
    bool by_reference = true;
};

class GpuAggregates : public ::testing::TestWithParam<Shape> {
protected:
    // Parts of unequal sizes; the last one is empty where there are several.
    static std::vector<GpuTable> parts_of(PlainTable const& table) {
        std::vector<GpuTable> parts;
        std::size_t const endpoints = GetParam().endpoints;
        std::size_t const full = endpoints == 1 ? 1 : endpoints - 1;
        for (std::size_t e = 0; e < endpoints; ++e) {
            std::size_t const first = std::min(e, full) * table.rows.size() / full;
            std::size_t const end = std::min(e + 1, full) * table.rows.size() / full;
            parts.push_back(on_host(batch_of(table, first, end - first)));
        }
        return parts;
    }

    Rows group(PlainTable const& table, std::vector<std::string> const& keys,
               std::vector<Aggregate> const& aggregates) {
        std::vector<std::size_t> owners;
        for (std::size_t e = 0; e < GetParam().endpoints; ++e) {
            owners.push_back(e % GetParam().processes);
        }
        Job job(GetParam().processes, owners);
        OperatorOptions options;
        options.by_reference = GetParam().by_reference;
        auto came = job.run([&](ThreadAsProcess& process, std::size_t me) {
            auto own = parts_of(table);
            for (std::size_t e = 0; e < own.size(); ++e) {
                if (owners[e] != me) own[e] = {};
            }
            OperatorReport report;
            Operation operation(process, "group_by", job.runtime(), job.endpoints(), options,
                                places_on_host(GetParam().threads), &report);
            auto const results =
                operation.perform([&] { return group_by_on(operation, own, keys, aggregates); });
            std::vector<Table> tables;
            for (GpuTable const& result : results) {
                tables.push_back({result.schema, {batch_of_result(result)}});
            }
            if (me == 0) moved = report.rows;
            return tables;
        });
        Rows rows;
        for (Table const& result : job.result(came)) {
            schema = result.schema;
            for (RecordBatch const& batch : result.batches) {
                for (Row& row : rows_of(batch)) rows.push_back(std::move(row));
            }
        }
        return sorted(rows);
    }
    void expect_as_plain(PlainTable const& table, std::vector<std::string> const& keys,
                         std::vector<Aggregate> const& aggregates) {
        expect_same(group(table, keys, aggregates),
                    sorted(mgi::test::plain::group_by(table, keys, aggregates)),
                    rounded(keys.size(), aggregates));
    }

    Schema schema;
    u64 moved = 0;
};

INSTANTIATE_TEST_SUITE_P(Shapes, GpuAggregates,
                         ::testing::Values(Shape{1, 1, 1, true}, Shape{1, 1, 2, true},
                                           Shape{1, 3, 2, true}, Shape{1, 3, 1, false},
                                           Shape{2, 3, 2, true}),
                         [](auto const& of) {
                             return std::to_string(of.param.processes) + "Processes" +
                                    std::to_string(of.param.endpoints) + "Endpoints" +
                                    std::to_string(of.param.threads) + "Threads" +
                                    (of.param.by_reference ? "" : "Copied");
                         });

// Every other row has one key.
void skew(PlainTable& table, u64 keys) {
    for (std::size_t i = 0; i < table.rows.size(); ++i) {
        table.rows[i][0] = {true, i % 2 == 0 ? 1 : device::murmur3_mix(i) % keys};
    }
}

std::vector<Aggregate> all_of(std::string const& column) {
    return {{F::Variance, column, "var"}, {F::StdDev, column, "std"},
            {F::First, column, "any"},    {F::CountDistinct, column, "different"},
            {F::Avg, column, "avg"},      {F::Min, column, "min"},
            {F::Count, column, "count"}};
}

// Few keys are folded where their rows lie, many move.
TEST_P(GpuAggregates, OfColumnsOfEachType) {
    for (Type const& type :
         {int8(), uint16(), int32(), uint64(), float32(), float64(), decimal128(20, 3)}) {
        for (bool const nullable : {false, true}) {
            for (u64 const keys : {7u, 100'000u}) {
                SCOPED_TRACE(type.to_string() + (nullable ? "? " : " ") + std::to_string(keys));
                PlainTable table =
                    random_table(Schema{{"key", int32()}, {"x", type, nullable}}, 2500, 90, 21);
                skew(table, keys);
                expect_as_plain(table, {"key"}, all_of("x"));
            }
        }
    }
}

// Values longer than a word: states name the rows that have them.
TEST_P(GpuAggregates, OfTextsAndBinaries) {
    for (Type const& type : {string(), binary(), fixed_size_binary(3), fixed_size_binary(300)}) {
        for (u64 const keys : {1u, 7u, 100'000u}) {
            SCOPED_TRACE(type.to_string() + " " + std::to_string(keys));
            Schema const fields{{"key", int32()}, {"x", type, keys != 7}, {"n", int16(), true}};
            PlainTable table = random_table(fields, 2500, keys == 7 ? 9 : 2000, 21);
            skew(table, keys);
            expect_as_plain(table, {"key"},
                            {{F::Min, "x", "min"},
                             {F::Sum, "n", "sum"},
                             {F::Max, "x", "max"},
                             {F::First, "x", "any"},
                             {F::Count, "x", "count"},
                             {F::StdDev, "n", "std"}});
        }
    }
}

TEST_P(GpuAggregates, OfTextsByTexts) {
    Schema const fields{{"key", string(), true},
                        {"n", int16(), true},
                        {"x", string(), true},
                        {"y", binary()},
                        {"z", fixed_size_binary(12), true}};
    std::vector<Aggregate> const wanted{{F::Min, "x", "a"},   {F::Max, "y", "b"},
                                        {F::First, "z", "c"}, {F::Max, "key", "d"},
                                        {F::Max, "n", "e"},   {F::CountDistinct, "x", "f"},
                                        {F::Avg, "n", "g"}};
    for (u64 const values : {8u, 3000u}) {
        PlainTable const table = random_table(fields, 3000, values, 27);
        expect_as_plain(table, {"key"}, wanted);
        expect_as_plain(table, {"key", "n"}, wanted);
        expect_as_plain(PlainTable{fields, {}}, {"key"}, wanted);
        expect_as_plain(PlainTable{fields, {table.rows[1]}}, {"key"}, wanted);
    }
}

TEST_P(GpuAggregates, OfBoolsAndDates) {
    PlainTable table = random_table(
        Schema{{"key", int64(), true}, {"flag", boolean(), true}, {"day", date32(), true}}, 2000,
        60, 22);
    expect_as_plain(table, {"key"},
                    {{F::First, "flag", "a"},
                     {F::CountDistinct, "flag", "b"},
                     {F::First, "day", "c"},
                     {F::CountDistinct, "day", "d"}});
    expect_as_plain(table, {"key"},
                    {{F::CountDistinct, "day", "d"}, {F::CountDistinct, "key", "k"}});
    expect_as_plain(table, {"key", "flag"}, {{F::CountDistinct, "day", "d"}});
    expect_as_plain(table, {"day"}, {{F::CountDistinct, "day", "d"}});
}

TEST_P(GpuAggregates, FarFromZero) {
    for (u64 const keys : {5u, 900u}) {
        PlainTable table{Schema{{"key", int32()}, {"x", float64()}, {"n", int64()}}, {}};
        for (u64 i = 0; i < 6000; ++i) {
            double const step = double(device::murmur3_mix(i) % 4096);
            table.rows.push_back({{true, 0},
                                  {true, bits_of(1e9 + step / 1024)},
                                  {true, u64(1'000'000'000'000) + u64(step)}});
        }
        skew(table, keys);
        expect_as_plain(table, {"key"},
                        {{F::Variance, "x", "x"}, {F::StdDev, "n", "n"}, {F::Avg, "n", "avg"}});
    }
}

// The first row that a thread meets is far from all the others.
TEST_P(GpuAggregates, OfAnOutlier) {
    PlainTable table{Schema{{"key", int32()}, {"x", float64()}}, {}};
    for (u64 i = 0; i < 9000; ++i) {
        table.rows.push_back({{true, i % 3}, {true, bits_of(i < 3 ? -1e9 : double(i % 2))}});
    }
    expect_as_plain(table, {"key"}, {{F::Variance, "x", "var"}});
}

TEST_P(GpuAggregates, OfNansZerosAndOddGroups) {
    double const nan = std::numeric_limits<double>::quiet_NaN();
    double const infinity = std::numeric_limits<double>::infinity();
    std::vector<std::vector<Cell>> const groups{
        {{true, bits_of(5)}},
        {{false, 0}, {false, 0}},
        {{true, bits_of(5)}, {false, 0}},
        {{true, bits_of(1e9)}, {true, bits_of(1e9)}},
        {{true, bits_of(0.0)}, {true, bits_of(-0.0)}, {true, bits_of(1)}},
        {{true, bits_of(nan)}, {true, bits_of(1)}, {true, 0xffffffffffffffffULL}},
        {{true, bits_of(1)}, {true, bits_of(nan)}},
        {{true, bits_of(infinity)}, {true, bits_of(-infinity)}, {true, bits_of(1)}},
        {{true, bits_of(1e300)}, {true, bits_of(-1e300)}}};
    PlainTable table{Schema{{"key", int16()}, {"x", float64(), true}}, {}};
    // The same groups alone, and in all parts.
    for (u64 const copies : {1u, 40u}) {
        table.rows.clear();
        for (u64 copy = 0; copy < copies; ++copy) {
            for (u64 g = 0; g < groups.size(); ++g) {
                for (Cell const& cell : groups[g]) table.rows.push_back({{true, g}, cell});
            }
        }
        std::vector<Aggregate> const wanted{{F::Variance, "x", "var"},
                                            {F::CountDistinct, "x", "n"}};
        Rows expected = sorted(mgi::test::plain::group_by(table, {"key"}, wanted));
        expected[5][2] = {true, 2};  // NaNs are equal, whatever their bits
        expect_same(group(table, {"key"}, wanted), expected, rounded(1, wanted));
    }
}

TEST_P(GpuAggregates, OfSeveralColumnsAtOnce) {
    Schema const fields{{"key", int64(), true},
                        {"a", int32(), true},
                        {"b", float64(), true},
                        {"c", uint8()},
                        {"d", boolean(), true}};
    for (u64 const values : {20u, 1u << 30}) {
        PlainTable const table = random_table(fields, 4000, values, 23, true);
        std::vector<Aggregate> const wanted{
            {F::CountDistinct, "a", "as"}, {F::Variance, "c", "var"},
            {F::CountDistinct, "b", "bs"}, {F::Sum, "c", "sum"},
            {F::CountDistinct, "d", "ds"}, {F::Count, "", "rows"},
            {F::First, "d", "any"},        {F::CountDistinct, "a", "as2"},
            {F::StdDev, "c", "std"}};
        expect_as_plain(table, {"key"}, wanted);
        expect_as_plain(table, {"key", "c"}, wanted);
        expect_as_plain(PlainTable{fields, {}}, {"key"}, wanted);
        expect_as_plain(PlainTable{fields, {table.rows[1]}}, {"key"}, wanted);
    }
}

// Only what differs goes to another endpoint.
TEST_P(GpuAggregates, SayWhatMoved) {
    PlainTable table = random_table(Schema{{"key", int32()}, {"x", int32()}}, 9000, 3, 24);
    skew(table, 10);
    expect_as_plain(table, {"key"}, {{F::CountDistinct, "x", "n"}});
    if (GetParam().endpoints == 1) {
        EXPECT_EQ(moved, 0u);
    } else {
        EXPECT_LE(moved, 30 * GetParam().endpoints);
    }
}

TEST_P(GpuAggregates, HaveTypesAsOnCpuDevices) {
    PlainTable const table = random_table(Schema{{"key", int32()},
                                                 {"x", float32()},
                                                 {"y", date32(), true},
                                                 {"s", string(), true},
                                                 {"b", fixed_size_binary(7)}},
                                          50, 9, 25);
    (void)group(table, {"key"},
                {{F::Variance, "x", "var"},
                 {F::First, "y", "any"},
                 {F::First, "x", "one"},
                 {F::CountDistinct, "y", "n"},
                 {F::Min, "s", "text"},
                 {F::Max, "b", "bytes"}});
    Schema const expected{{"key", int32()},
                          {"var", float64(), true},
                          {"any", date32(), true},
                          {"one", float32()},
                          {"n", int64()},
                          {"text", string(), true},
                          {"bytes", fixed_size_binary(7)}};
    EXPECT_EQ(schema, expected) << schema.to_string();
}

TEST_P(GpuAggregates, SayWhatTheyCannotTake) {
    PlainTable const table = random_table(Schema{{"key", int32()}, {"day", date32()}}, 10, 9, 26);
    test::expect_error(ErrorCode::InvalidArgument, {"var of column 'day', which is date32"},
                       [&] { (void)group(table, {"key"}, {{F::Variance, "day", "v"}}); });
    PlainTable const texts = random_table(Schema{{"key", int32()}, {"s", string()}}, 10, 9, 26);
    test::expect_error(ErrorCode::InvalidArgument, {"sum of column 's', which is string"},
                       [&] { (void)group(texts, {"key"}, {{F::Sum, "s", "v"}}); });
    std::vector<Field> fields;
    std::vector<std::string> keys;
    for (u32 k = 0; k < kMostKeys; ++k) {
        keys.push_back("key" + std::to_string(k));
        fields.push_back({keys.back(), int8()});
    }
    fields.push_back({"x", int8()});
    PlainTable const wide = random_table(Schema(fields), 10, 9, 27);
    test::expect_error(ErrorCode::InvalidArgument,
                       {"count_distinct of column 'x' beside 16 key columns", "at most 15"},
                       [&] { (void)group(wide, keys, {{F::CountDistinct, "x", "n"}}); });
}

// Somebody writes into the keys once the pairs have been made: the groups that this adds have no room.
TEST(GpuAggregatesOfKeysThatChange, AreAnError) {
    struct Hooked final : HostPlace {
        Hooked(PlaceOptions const& options, std::function<void(std::string const&)> hook)
            : HostPlace(2, 1, options), hook_(std::move(hook)) {}
        Memory take(u64 bytes, std::string const& what) override {
            hook_(what);
            return HostPlace::take(bytes, what);
        }
        std::function<void(std::string const&)> hook_;
    };
    PlainTable table = random_table(Schema{{"key", int64()}, {"x", int32()}}, 4000, 500, 9);
    for (std::size_t i = 0; i < table.rows.size(); ++i) table.rows[i][0].word = i % 500;
    Runtime runtime = runtime_of_cpus(1);
    std::vector<Endpoint> const endpoints{runtime.create_endpoint("cpu:0")};
    auto const processes = processes_of(runtime, endpoints);
    test::HostPool const pool;  // finds who writes beyond what was taken
    OperatorOptions options;
    options.gpu_allocator = pool.allocator();
    for (bool const changes : {false, true}) {
        std::vector<GpuTable> const parts{on_host(batch_of(table, 0, table.rows.size()))};
        int tables = 0;
        auto const hook = [&](std::string const& what) {
            if (what.rfind("a table of ", 0) != 0 || ++tables != 2 || !changes) return;
            auto* const keys = static_cast<i64*>(const_cast<void*>(parts[0].columns[0].values));
            std::fill(keys, keys + parts[0].rows, 7);
        };
        Operation operation(*processes, "group_by", runtime, endpoints, options,
                            [&](Device const&, PlaceOptions const& wanted) {
                                return std::make_unique<Hooked>(wanted, hook);
                            });
        auto const call = [&] {
            return operation.perform([&] {
                return group_by_on(operation, parts, {"key"},
                                   {{F::Sum, "x", "sum"}, {F::CountDistinct, "x", "n"}});
            });
        };
        if (changes) {
            test::expect_error(ErrorCode::InvalidArgument,
                               {"group_by: keys of the part at endpoint 0 changed while"},
                               [&] { (void)call(); });
        } else {
            EXPECT_EQ(call()[0].rows, 500);
        }
        EXPECT_EQ(tables, 2);
    }
    EXPECT_EQ(pool.out(), 0);
}

// Where nothing but different values is asked for no row moves, and none is counted for an endpoint.
TEST(GpuAggregatesOfPairsAlone, CountNoRowsForEndpoints) {
    static constexpr u32 kEndpoints = 7;
    struct Counting final : HostPlace {
        using HostPlace::HostPlace;
        void copy_out(void* to, void const* from, u64 bytes) override {
            counts += bytes == kEndpoints * sizeof(u64) ? 1 : 0;
            HostPlace::copy_out(to, from, bytes);
        }
        int counts = 0;
    };
    PlainTable const table =
        random_table(Schema{{"key", int64()}, {"x", int32()}}, 4000, 1u << 30, 10);
    Runtime runtime = runtime_of_cpus(1);
    std::vector<Endpoint> endpoints;
    for (u32 e = 0; e < kEndpoints; ++e) endpoints.push_back(runtime.create_endpoint("cpu:0"));
    std::vector<GpuTable> const parts(kEndpoints, on_host(batch_of(table, 0, 500)));
    auto const processes = processes_of(runtime, endpoints);
    auto const counts = [&](std::vector<Aggregate> const& wanted) {
        Operation operation(*processes, "group_by", runtime, endpoints, {},
                            [](Device const&, PlaceOptions const& options) {
                                return std::make_unique<Counting>(1, 1, options);
                            });
        (void)operation.perform([&] { return group_by_on(operation, parts, {"key"}, wanted); });
        return static_cast<Counting const&>(operation.place(0)).counts;
    };
    // One more for rows: as they are counted, and as they have been placed.
    EXPECT_EQ(counts({{F::CountDistinct, "x", "n"}}), 2);
    EXPECT_EQ(counts({{F::CountDistinct, "x", "n"}, {F::Sum, "x", "sum"}}), 4);
}

}  // namespace
}  // namespace mgi::operators::on_gpu
