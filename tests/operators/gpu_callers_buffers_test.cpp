// Results of operators in buffers of the caller's, on threads of the host.
#include <gtest/gtest.h>

#include <memory>

#include "operators/gpu/callers_buffers.hpp"
#include "operators/gpu/move_rows.hpp"
#include "operators/host_tables.hpp"
#include "operators/job.hpp"
#include "support/expect_error.hpp"

namespace mgi::operators::on_gpu::callers_buffers_test {
namespace {

using namespace mgi::test::plain;
using test::expect_error;
using test::Job;
using test::ThreadAsProcess;

Schema const kSchema{
    {"key", int64()},           {"x", int32(), true},           {"flag", boolean()},
    {"maybe", boolean(), true}, {"code", fixed_size_binary(3)}, {"price", decimal128(20, 2), true}};

/// Buffers for so many rows, filled with what no result has left there.
GpuTable buffer_of(Schema const& schema, i64 rows, bool validity = true) {
    auto const memory = std::make_shared<std::vector<std::vector<u64>>>();
    auto const take = [&](u64 bytes) {
        memory->emplace_back(bytes / 8 + 2, 0xa5a5a5a5a5a5a5a5u);
        return reinterpret_cast<u8*>(memory->back().data());
    };
    GpuTable table;
    table.schema = schema;
    table.rows = rows;
    table.gpu = -1;
    for (Field const& field : schema.fields()) {
        GpuColumn column;
        column.values = take(std::max<u64>(field.type.row_width(), 1) * u64(rows));
        if (validity) column.validity = take(u64(rows) / 8 + 1);
        table.columns.push_back(column);
    }
    table.owner = memory;
    return table;
}

class CallersBuffers : public ::testing::Test {
protected:
    std::vector<GpuTable> fill(std::vector<GpuTable> const& results) {
        auto const processes = processes_of(runtime_, all_);
        Operation operation(*processes, "exchange", runtime_, all_, options_, places_on_host(2),
                            &report_);
        return operation.perform([&] { return in_callers_buffers_of(operation, results); });
    }
    void expect_refused(std::string const& why) {
        expect_error(ErrorCode::InvalidArgument, {why}, [&] { fill(results_); });
    }

    PlainTable const table_ = random_table(kSchema, 1000, 300, 3);
    std::vector<GpuTable> results_{on_host(batch_of(table_, 0, 600)),
                                   on_host(batch_of(table_, 600, 400))};
    Runtime runtime_ = runtime_of_cpus(2);
    std::vector<Endpoint> all_{runtime_.create_endpoint("cpu:0"),
                               runtime_.create_endpoint("cpu:1")};
    OperatorOptions options_;
    OperatorReport report_;
};

TEST_F(CallersBuffers, HaveTheRowsAndNothingBehindThem) {
    // Results that begin anywhere, as a part does that does not move.
    std::vector<GpuTable> const results{results_[0].slice(13, 500), results_[1].slice(5, 0)};
    options_.gpu_out = {buffer_of(kSchema, 700), buffer_of(kSchema, 0)};
    auto const filled = fill(results);
    for (std::size_t e = 0; e < 2; ++e) {
        EXPECT_EQ(filled[e].rows, results[e].rows);
        EXPECT_EQ(filled[e].owner, options_.gpu_out[e].owner);
        expect_same(rows_of(batch_of_result(filled[e])), rows_of(batch_of_result(results[e])));
        for (std::size_t c = 0; c < kSchema.size(); ++c) {
            EXPECT_EQ(filled[e].columns[c].values, options_.gpu_out[e].columns[c].values);
        }
    }
    auto const* const keys = static_cast<u64 const*>(options_.gpu_out[0].columns[0].values);
    EXPECT_EQ(keys[500], 0xa5a5a5a5a5a5a5a5u);
    EXPECT_EQ(report_.phases.at(0).name, "copy");
}

TEST_F(CallersBuffers, NeedValidityOnlyWhereThereIsSome) {
    Schema const schema{{"key", int64()}, {"flag", boolean()}};
    PlainTable const table = random_table(schema, 50, 20, 4);
    results_ = {on_host(batch_of(table, 0, 50)), on_host(batch_of(table, 0, 0))};
    options_.gpu_out = {buffer_of(schema, 50, false), buffer_of(schema, 1, false)};
    expect_same(rows_of(batch_of_result(fill(results_)[0])), table.rows);
}

TEST_F(CallersBuffers, RefuseWhatHasNoRoom) {
    auto const good = [&] {
        return std::vector<GpuTable>{buffer_of(kSchema, 600), buffer_of(kSchema, 600)};
    };
    options_.gpu_out = {good()[0]};
    expect_refused("exchange: gpu_out has 1 tables for 2 endpoints");
    options_.gpu_out = good();
    options_.gpu_out[0].rows = 599;
    expect_refused("exchange: gpu_out[0]: has room for 599 rows, and the result has 600");
    options_.gpu_out = good();
    options_.gpu_out[1].gpu = 3;
    expect_refused("gpu_out[1]: lies on cuda:3, and its endpoint is on the host");
    options_.gpu_out = good();
    options_.gpu_out[1] = buffer_of(kSchema, 600, false);
    expect_refused("gpu_out[1]: column 'x' has no validity, which the result has");
    options_.gpu_out = good();
    options_.gpu_out[0].columns[2].offset = 1;
    expect_refused("gpu_out[0]: column 'flag' does not begin at its first row");
    options_.gpu_out = good();
    options_.gpu_out[0].columns[0].values = nullptr;
    expect_refused("gpu_out[0]: column 'key' has no address");
    options_.gpu_out = {buffer_of(Schema{{"key", int64()}}, 600), good()[1]};
    expect_refused("gpu_out[0]: has 1 columns, and the result has 6");
    Schema other = kSchema;
    std::vector<Field> fields = other.fields();
    fields[1].type = float32();
    options_.gpu_out = {buffer_of(Schema(fields), 600), good()[1]};
    expect_refused("gpu_out[0]: has column 'x' of float where the result has 'x' of int32");
    Schema const texts{{"s", string()}};
    PlainTable const table = random_table(texts, 10, 5, 1);
    results_ = {on_host(batch_of(table, 0, 5)), on_host(batch_of(table, 5, 5))};
    options_.gpu_out = {buffer_of(texts, 5), buffer_of(texts, 5)};
    expect_refused("]: cannot take column 's': how many characters");
}

TEST(CallersBuffersOfProcesses, FailInAllWhereOneHasNoRoom) {
    PlainTable const table = random_table(kSchema, 100, 30, 3);
    Job job(2, {0, 1});
    auto came = job.run([&](ThreadAsProcess& process, std::size_t me) {
        std::vector<GpuTable> results(2);
        results[me] = on_host(batch_of(table, 0, 100));
        OperatorOptions options;
        options.gpu_out.resize(2);
        options.gpu_out[me] = buffer_of(kSchema, me == 0 ? 100 : 99);
        Operation operation(process, "join", job.runtime(), job.endpoints(), options,
                            places_on_host(1));
        return tables_of(
            operation.perform([&] { return in_callers_buffers_of(operation, results); }));
    });
    for (std::string const& text : test::texts_of(came, ErrorCode::InvalidArgument)) {
        test::expect_words(text, {"gpu_out[1]", "99", "100"});
    }
}

}  // namespace
}  // namespace mgi::operators::on_gpu::callers_buffers_test
