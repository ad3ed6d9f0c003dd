// Operators on a GPU against the same done plainly on the host. Needs CUDA and libmgi, no test framework.
//
//   operators [--small]      small: few rows and endpoints, for compute-sanitizer
//
// Prints what fails, tests that take more than a second, and "N passed, N failed"; the exit status is 1 if any did.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <functional>
#include <string>
#include <vector>

#include <mgi/arrow_device_abi.hpp>

#include "gpu/operators_bed.hpp"

namespace {

using namespace mgi;
using namespace mgi::test::on_gpu;
using F = AggregateFunction;

std::vector<Aggregate> every(std::string const& column) {
    return {{F::Count, "", "rows"},  {F::Count, column, "count"}, {F::Sum, column, "sum"},
            {F::Avg, column, "avg"}, {F::Min, column, "min"},     {F::Max, column, "max"}};
}

std::vector<Aggregate> more(std::string const& column) {
    return {{F::Variance, column, "var"},
            {F::StdDev, column, "std"},
            {F::First, column, "any"},
            {F::CountDistinct, column, "different"}};
}

class Tests {
public:
    // `wanted`: a part of the names of those that are run.
    Tests(Runtime runtime, bool small, std::string wanted)
        : runtime_(std::move(runtime)), rows_(small ? 600 : 20'000), wanted_(std::move(wanted)) {}

    void run(std::uint32_t endpoints) {
        endpoints_ = endpoints;
        test("group_by: keys of each type", [this](Bed& bed) { keys_of_each_type(bed); });
        test("group_by: values of each type", [this](Bed& bed) { values_of_each_type(bed); });
        test("group_by: several keys", [this](Bed& bed) { several_keys(bed); });
        test("group_by: one hot key", [this](Bed& bed) { hot_key(bed); });
        test("group_by: wide sums", [](Bed& bed) { wide_sums(bed); });
        test("group_by: variances and different values", [this](Bed& bed) { variances(bed); });
        test("group_by: values far from 0 and odd ones", [this](Bed& bed) { odd_values(bed); });
        test("group_by: several columns' different values", [this](Bed& bed) { distinct(bed); });
        test("group_by: beside a channel", [this](Bed& bed) { beside_a_channel(bed); });
        test("join: keys of types that differ", [this](Bed& bed) { join_types(bed); });
        test("join: unique, several, hot and no keys", [this](Bed& bed) { join_shapes(bed); });
        test("texts: groups and joins", [this](Bed& bed) { texts(bed); });
        test("exchange: every row to its owner", [this](Bed& bed) { exchanged(bed); });
        test("empty tables", [](Bed& bed) { empty(bed); });
        test("errors", [this](Bed& bed) { errors(bed); });
        test("Arrow device arrays", [this](Bed& bed) { arrow(bed); });
        for (GpuTest const& one : caller_tests(rows_ < 1000)) test(one.name, one.body);
        for (GpuTest const& one : host_tests(rows_)) test(one.name, one.body);
        for (GpuTest const& one : sort_tests(rows_)) test(one.name, one.body);
        for (GpuTest const& one : long_value_tests(rows_)) test(one.name, one.body);
    }

    [[nodiscard]] int failed() const { return failed_; }
    [[nodiscard]] int passed() const { return passed_; }

private:
    void test(char const* name, std::function<void(Bed&)> const& body) {
        if (std::string(name).find(wanted_) == std::string::npos) return;
        if (!wanted_.empty()) std::printf("%s, %u endpoints\n", name, endpoints_);
        std::fflush(stdout);
        auto const start = std::chrono::steady_clock::now();
        try {
            Bed bed(runtime_, endpoints_);
            body(bed);
            ++passed_;
        } catch (std::exception const& error) {
            ++failed_;
            std::printf("FAILED %s, %u endpoints: %s\n", name, endpoints_, error.what());
        }
        double const seconds =
            std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
        if (seconds > 1) std::printf("%5.1f s %s, %u endpoints\n", seconds, name, endpoints_);
        std::fflush(stdout);
    }

    void keys_of_each_type(Bed& bed) const {
        for (Type const& type : {boolean(), int8(), uint16(), int32(), uint64(), int64(), float32(),
                                 float64(), date32(), decimal128(15, 2), fixed_size_binary(3),
                                 fixed_size_binary(8), fixed_size_binary(20), string(), binary()}) {
            Schema const schema{{"key", type, true}, {"value", int64(), true}};
            bed.groups(random_table(schema, rows_, rows_ / 4, 1, true), {"key"},
                       {{F::Count, "", "rows"}, {F::Min, "value", "min"}});
        }
    }
    void values_of_each_type(Bed& bed) const {
        for (Type const& type :
             {int8(), uint16(), int32(), int64(), float32(), float64(), decimal128(15, 2)}) {
            for (u64 const groups : {u64{4}, u64(rows_ / 2)}) {
                PlainTable table =
                    random_table(Schema{{"key", int32()}, {"value", type, true}}, rows_, 5000, 2);
                for (Row& row : table.rows) row[0].word = device::murmur3_mix(row[0].word) % groups;
                bed.groups(table, {"key"}, every("value"));
            }
        }
    }
    void several_keys(Bed& bed) const {
        Schema const schema{{"a", int64(), true},
                            {"b", uint8(), true},
                            {"c", float64()},
                            {"d", boolean(), true},
                            {"value", int32()}};
        PlainTable const table = random_table(schema, rows_, 8, 4, true);
        bed.groups(table, {"a", "b", "c", "d"}, every("value"));
        bed.groups(table, {"b", "d"}, every("value"));
        bed.groups(random_table(schema, rows_, 1u << 20, 5), {"a", "c"}, {});
    }
    // Half of the rows have one key, among few and among many.
    void variances(Bed& bed) const {
        for (Type const& type :
             {int8(), uint16(), int32(), uint64(), float32(), float64(), decimal128(20, 3)}) {
            for (u64 const groups : {u64{4}, u64(rows_ / 2)}) {
                PlainTable table =
                    random_table(Schema{{"key", int32()}, {"value", type, true}}, rows_, 90, 20);
                for (std::size_t i = 0; i < table.rows.size(); ++i) {
                    table.rows[i][0].word = i % 2 == 0 ? 1 : device::murmur3_mix(i) % groups;
                }
                bed.groups(table, {"key"}, more("value"));
            }
        }
    }
    void odd_values(Bed& bed) const {
        PlainTable table{Schema{{"key", int32()}, {"value", float64(), true}}, {}};
        for (u64 const groups : {u64{6}, u64(rows_ / 4)}) {
            table.rows.clear();
            for (u64 i = 0; i < rows_; ++i) {
                double value = 1e9 + double(device::murmur3_mix(i) % 4096) / 1024;
                u64 const key = device::murmur3_mix(i + 7) % groups;
                if (key == 1) value = 2.5;                      // all the same
                if (key == 2 && i % 5 == 0) value = 0.0 / 0.0;  // some are no numbers
                if (key == 3 && i % 5 == 0) value = 1.0 / 0.0;  // some are infinite
                if (key == 4) value = i % 3 == 0 ? 0.0 : i % 3 == 1 ? -0.0 : 1;
                bool const valid = key != 0 && i % 8 != 0;
                if (value != value) {
                    table.rows.push_back({{true, key}, {valid, valid ? 0x7ff8000000000000ULL : 0}});
                } else {
                    table.rows.push_back({{true, key}, {valid, valid ? bits_of(value) : 0}});
                }
            }
            bed.groups(table, {"key"},
                       {{F::Variance, "value", "var"},
                        {F::StdDev, "value", "std"},
                        {F::CountDistinct, "value", "different"}});
        }
    }
    void distinct(Bed& bed) const {
        Schema const schema{{"key", int64(), true},
                            {"a", int32(), true},
                            {"b", float64(), true},
                            {"c", uint8()},
                            {"d", boolean(), true}};
        std::vector<Aggregate> const wanted{
            {F::CountDistinct, "a", "as"}, {F::Variance, "c", "var"},
            {F::CountDistinct, "b", "bs"}, {F::Sum, "c", "sum"},
            {F::CountDistinct, "d", "ds"}, {F::Count, "", "rows"},
            {F::First, "d", "any"},        {F::CountDistinct, "key", "keys"}};
        for (bool const by_reference : {true, false}) {
            bed.options.by_reference = by_reference;
            for (u64 const values : {u64{20}, u64(rows_ * 2)}) {
                PlainTable const table = random_table(schema, rows_, values, 21, true);
                bed.groups(table, {"key"}, wanted);
                bed.groups(table, {"key", "c"}, wanted);
                bed.groups(table, {"key"}, {{F::CountDistinct, "a", "as"}});
            }
        }
        bed.groups(PlainTable{schema, {}}, {"key"}, wanted);
    }
    // A kernel has the shared memory that any channel of its endpoint needs, so fewer groups of it fit.
    void beside_a_channel(Bed& bed) const {
        ChannelSpec spec;
        spec.sources = spec.destinations = bed.endpoints();
        spec.schema = Schema{{"key", int64()}, {"value", fixed_size_binary(120)}};
        spec.routing = Routing::partition("key");
        spec.options.tile_rows = 1024;
        Channel const channel = bed.runtime().create_channel(spec);
        std::exception_ptr failure;
        try {
            Schema const schema{{"key", int64()}, {"value", int32()}};
            bed.groups(random_table(schema, rows_, 1u << 20, 19), {"key"}, every("value"));
        } catch (...) {
            failure = std::current_exception();
        }
        bed.runtime().delete_channel(channel);
        if (failure) std::rethrow_exception(failure);
    }
    void hot_key(Bed& bed) const {
        PlainTable table =
            random_table(Schema{{"key", int64()}, {"value", int32()}}, rows_, 1u << 30, 5);
        for (std::size_t i = 0; i < table.rows.size(); i += 2) table.rows[i][0].word = 7;
        bed.options.segment_bytes = 8192;  // far more rows than all segments hold
        bed.groups(table, {"key"}, every("value"));
        for (Row& row : table.rows) row[0].word = 7;
        bed.groups(table, {"key"}, every("value"));
    }
    static void wide_sums(Bed& bed) {
        PlainTable table{Schema{{"key", int32()}, {"value", int64()}}, {}};
        for (u64 i = 0; i < 4000; ++i) {
            i64 const large = i % 2 == 0 ? 0x7000000000000000LL : -0x7000000000000000LL;
            table.rows.push_back({{true, i % 14 / 2}, {true, u64(large) + i % 5}});
        }
        bed.groups(table, {"key"}, {{F::Sum, "value", "sum"}});
        for (Row& row : table.rows) row[1].word = 0x7000000000000000ULL;
        expect_error(ErrorCode::InvalidArgument, "a sum of column 'value' does not fit", [&] {
            (void)group_by(bed.runtime(), bed.endpoints(), bed.parts_of(table), {"key"},
                           {{F::Sum, "value", "sum"}});
        });
    }
    void join_types(Bed& bed) const {
        struct {
            Type left, right;
        } const cases[] = {{int32(), int32()},
                           {int64(), int64()},
                           {int32(), uint64()},
                           {int8(), int64()},
                           {float32(), float64()},
                           {date32(), date32()},
                           {decimal128(9, 2), decimal128(30, 2)},
                           {fixed_size_binary(21), fixed_size_binary(21)},
                           {string(), string()}};
        std::size_t const rows = rows_ / 8;
        for (auto const& [a, b] : cases) {
            u64 const values = a == int8() ? 120 : rows / 2;
            bed.joins(
                random_table(Schema{{"key", a, true}, {"x", int16(), true}}, rows, values, 6, true),
                random_table(Schema{{"id", b, true}, {"y", boolean(), true}}, rows / 2, values, 7,
                             true),
                {{"key"}, {"id"}, {"key", "x"}, {"id", "y"}});
        }
    }
    void join_shapes(Bed& bed) const {
        Schema const schema{{"a", int64(), true}, {"b", int32()}, {"c", float64(), true}};
        bed.joins(random_table(schema, rows_ / 10, 40, 8), random_table(schema, rows_ / 20, 40, 9),
                  {{"a", "b"}, {"a", "b"}, {"a", "c"}, {"c"}});
        PlainTable unique{Schema{{"id", int64()}, {"name", int32()}}, {}};
        for (u64 i = 0; i < rows_ / 2; ++i) unique.rows.push_back({{true, i * 3}, {true, i}});
        PlainTable left =
            random_table(Schema{{"key", int64()}, {"x", float32()}}, rows_, rows_, 10);
        bed.options.segment_bytes = 8192;
        bed.joins(left, unique, {{"key"}, {"id"}, {"x"}, {"name"}});
        PlainTable hot = random_table(Schema{{"key", int64()}, {"x", float32()}}, 400, 5, 10);
        for (Row& row : hot.rows) row[0].word = 6;
        PlainTable other{unique.schema, {}};
        for (u64 i = 0; i < 300; ++i) other.rows.push_back({{true, 6}, {true, i}});
        bed.joins(hot, other, {{"key"}, {"id"}, {"x"}, {"name"}});
    }
    void texts(Bed& bed) const {
        Schema const schema{{"s", string(), true},
                            {"n", int16(), true},
                            {"t", binary()},
                            {"x", int32(), true},
                            {"y", string(), true}};
        for (u64 const values : {u64{5}, u64(rows_ / 5)}) {
            PlainTable const left = random_table(schema, rows_, values, 21);
            PlainTable right = random_table(schema, rows_ / 40, values, 22);
            right.schema = Schema{{"s2", string(), true},
                                  {"n2", int64(), true},
                                  {"t2", binary()},
                                  {"x2", int32(), true},
                                  {"y2", string(), true}};
            for (bool const by_reference : {true, false}) {
                bed.options.by_reference = by_reference;
                bed.groups(left, {"s"}, every("x"));
                bed.groups(left, {"s", "n"}, {{F::Count, "y", "n2"}, {F::Max, "x", "max"}});
                bed.joins(left, right, {{"t", "n"}, {"t2", "n2"}, {"s", "x", "y"}, {"y2", "t2"}});
            }
            bed.options.by_reference = true;
        }
    }
    void exchanged(Bed& bed) const {
        Schema const schema{{"key", int32(), true},
                            {"a", int8()},
                            {"b", boolean(), true},
                            {"c", float64(), true},
                            {"d", uint16()},
                            {"e", boolean()},
                            {"f", decimal128(15, 2), true},
                            {"g", fixed_size_binary(12)},
                            {"h", string(), true},
                            {"i", binary()}};
        PlainTable table = random_table(schema, rows_ + 7, rows_ / 10, 13);
        for (char const* const key : {"key", "f", "g", "h"}) bed.exchanges(table, key);
        bed.options.hash = Hash::Modulo;
        bed.exchanges(table, "key");
        bed.options.hash = Hash::Murmur3;
        bed.options.by_reference = false;
        bed.options.segment_bytes = 8192;
        for (char const* const key : {"key", "f", "g", "h"}) bed.exchanges(table, key);
        bed.options.by_reference = true;
        for (Row& row : table.rows) row[0] = {true, 3};
        bed.exchanges(table, "key");
    }
    static void empty(Bed& bed) {
        PlainTable const none{Schema{{"key", int64()}, {"x", int32()}}, {}};
        PlainTable const right{Schema{{"key", int64()}, {"y", int32()}}, {}};
        bed.groups(none, {"key"}, every("x"));
        bed.joins(none, right, {{"key"}, {"key"}, {"x"}, {"y"}});
        bed.exchanges(none, "key");
    }
    void errors(Bed& bed) const {
        PlainTable const table =
            random_table(Schema{{"key", int64()}, {"x", date32()}}, rows_, 1u << 30, 15);
        auto const parts = bed.parts_of(table);
        auto const call = [&](std::vector<Aggregate> const& wanted) {
            (void)group_by(bed.runtime(), bed.endpoints(), parts, {"key"}, wanted, bed.options);
        };
        expect_error(ErrorCode::InvalidArgument, "sum of column 'x', which is date32",
                     [&] { call({{F::Sum, "x", "s"}}); });
        bed.options.receive_limit = 3000;
        for (u64 const spill_limit : {u64{0}, u64{1}}) {
            bed.options.spill_limit = spill_limit;
            expect_error(ErrorCode::OutOfMemory, "receive_limit",
                         [&] { call({{F::Count, "", "n"}}); });
        }
        bed.options.spill_limit = 0;
        bed.options.receive_limit = 0;
        std::atomic<bool> const cancel{true};
        bed.options.cancel = &cancel;
        expect_error(ErrorCode::Interrupted, "stopped", [&] { call({{F::Count, "", "n"}}); });
        bed.options.cancel = nullptr;
        expect_error(ErrorCode::InvalidArgument, "column 'text' is string", [&] {
            (void)gpu_table(0, 1, {{"text", string(), nullptr, nullptr, 0, Encoding::Views}},
                            nullptr);
        });
    }
    void arrow(Bed& bed) const {
        Schema const schema{{"key", int32(), true},
                            {"flag", boolean(), true},
                            {"text", string(), true},
                            {"price", decimal128(12, 2)}};
        PlainTable const table = random_table(schema, rows_, 50, 16);
        GpuTable const whole = copy_to_gpu(batch_of(table, 0, table.rows.size()), 0);
        GpuTable const cut = whole.slice(37, i64(table.rows.size()) - 37);
        ArrowDeviceArray array = {};
        ArrowSchema arrow_schema = {};
        export_gpu_table(cut, &array);
        export_schema(cut, &arrow_schema);
        if (array.device_type != ARROW_DEVICE_CUDA || array.device_id != 0) throw Wrong("device");
        GpuTable const back = import_gpu_table(&array, &arrow_schema);
        if (array.array.release != nullptr || arrow_schema.release != nullptr) {
            throw Wrong("not taken over");
        }
        PlainTable const expected{schema, {table.rows.begin() + 37, table.rows.end()}};
        expect_same(sorted(rows_of(copy_to_host(back))), sorted(expected.rows));
        if (bed.endpoints().size() != 1) return;
        std::vector<Aggregate> const wanted{{F::Max, "flag", "any"}};
        expect_same(
            Bed::all_rows(group_by(bed.runtime(), bed.endpoints(), {back}, {"key"}, wanted)),
            sorted(test::plain::group_by(expected, {"key"}, wanted)));
    }

    Runtime runtime_;
    std::size_t rows_;
    std::string wanted_;
    std::uint32_t endpoints_ = 1;
    int failed_ = 0;
    int passed_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
    bool const small = argc > 1 && std::strcmp(argv[1], "--small") == 0;
    if (argc > (small ? 3 : 2)) {
        std::fprintf(stderr, "usage: operators [--small] [PART OF A TEST'S NAME]\n");
        return 2;
    }
    std::string const wanted = argc > (small ? 2 : 1) ? argv[argc - 1] : "";
    // Before CUDA starts: streams that share a hardware queue wait for one another.
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
    auto const start = std::chrono::steady_clock::now();
    try {
        RuntimeOptions options;
        options.cpu_devices = 1;
        Tests tests(Runtime::local(options), small, wanted);
        for (std::uint32_t const endpoints : {1u, 2u, 3u, 4u, 8u}) {
            if (!small || endpoints <= 3) tests.run(endpoints);
        }
        double const seconds =
            std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
        std::printf("%.1f s in all\n%d passed, %d failed\n", seconds, tests.passed(),
                    tests.failed());
        return tests.failed() == 0 ? 0 : 1;
    } catch (std::exception const& error) {
        std::printf("FAILED: %s\n", error.what());
        return 1;
    }
}
