// Tables in the memory of a GPU that is made up: copied, shared as Arrow's device arrays, and on GPUs that are not
// there.
#include <gtest/gtest.h>

#include <mgi/arrow_device_abi.hpp>
#include <mgi/gpu_table.hpp>

#include <thread>

#include "operators/plain.hpp"
#include "support/expect_error.hpp"
#include "support/fake_driver.hpp"

namespace mgi::gpu {
namespace {

RecordBatch some_rows(std::vector<std::int32_t> const& keys) {
    RecordBatch batch;
    batch.schema = Schema{{"key", int32()}};
    batch.rows = std::int64_t(keys.size());
    Column column;
    column.values = keys.data();
    batch.columns.push_back(column);
    return batch;
}

void expect_no_such_gpu(std::int64_t gpu, std::function<void()> const& call) {
    test::expect_error(ErrorCode::InvalidArgument,
                       {"there is no cuda:" + std::to_string(gpu), "sees 2 GPUs"}, call);
}

TEST(GpuTables, AreCopiedThereAndBack) {
    test::FakeDriver const gpus({{"DEVICES", "2"}});
    std::vector<std::int32_t> const keys{7, -1, 5};
    GpuTable const table = copy_to_gpu(some_rows(keys), 1);
    RecordBatch const back = copy_to_host(table.slice(1, 2));
    ASSERT_EQ(back.rows, 2);
    auto const* const values =
        static_cast<std::int32_t const*>(back.columns[0].values) + back.columns[0].offset;
    EXPECT_EQ(values[0], -1);
    EXPECT_EQ(values[1], 5);
}

// Many pieces, by several threads, to and from two GPUs at the same time.
class GpuTableCopies : public ::testing::TestWithParam<char const*> {
protected:
    test::plain::PlainTable const table_ =
        test::plain::random_table(Schema{{"a", int64(), true},
                                         {"b", string(), true},
                                         {"c", boolean()},
                                         {"d", fixed_size_binary(90)}},
                                  50'000, 5000, 1);

    [[nodiscard]] Table batches() const {
        return {table_.schema,
                {test::plain::batch_of(table_, 0, 20'001),
                 test::plain::batch_of(table_, 20'001, 29'999)}};
    }
    void expect_rows(RecordBatch const& batch, std::size_t first, std::size_t count) const {
        auto const begin = table_.rows.begin() + std::ptrdiff_t(first);
        EXPECT_TRUE(test::plain::rows_of(batch) ==
                    test::plain::Rows(begin, begin + std::ptrdiff_t(count)));
    }
};

TEST_P(GpuTableCopies, ComeWhole) {
    test::FakeDriver const gpus({{"DEVICES", "2"}, {"STREAMS", GetParam()}});
    Table const table = batches();
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
        threads.emplace_back([&, t] {
            GpuTable const there = copy_to_gpu(table, t % 2);
            expect_rows(copy_to_host(there), 0, 50'000);
            expect_rows(copy_to_host(there.slice(1003, 30'000)), 1003, 30'000);
        });
    }
    for (std::thread& thread : threads) thread.join();
}

TEST_P(GpuTableCopies, ThatFailHarmNoOthers) {
    test::FakeDriver const gpus({{"STREAMS", GetParam()}});
    Table const table = batches();
    GpuTable const there = copy_to_gpu(table, 0);
    for (char const* const call : {"cuMemcpyHtoDAsync:3:2", "cuEventRecord:2:2"}) {
        gpus.fail(call);
        test::expect_error(ErrorCode::OutOfMemory, {"cuda:0"}, [&] { copy_to_gpu(table, 0); });
    }
    gpus.fail("cuMemcpyDtoHAsync:4:2");
    test::expect_error(ErrorCode::OutOfMemory, {"copy a table to the host"},
                       [&] { copy_to_host(there); });
    gpus.fail("");
    expect_rows(copy_to_host(copy_to_gpu(table, 0)), 0, 50'000);
}

INSTANTIATE_TEST_SUITE_P(Streams, GpuTableCopies, ::testing::Values("at once", "late:3", "threads"),
                         [](auto const& of) {
                             std::string name = of.param;
                             std::erase_if(name, [](char c) { return c == ' ' || c == ':'; });
                             return name;
                         });

TEST(GpuTables, OnGpusThatAreNotThereAreRefusedByName) {
    test::FakeDriver const gpus({{"DEVICES", "2"}});
    std::vector<std::int32_t> const keys{1, 2};
    GpuTable table = copy_to_gpu(some_rows(keys), 0);
    for (std::int64_t const gpu : {std::int64_t{-1}, std::int64_t{2}, std::int64_t{1} << 32}) {
        ArrowDeviceArray array;
        ArrowSchema schema;
        export_gpu_table(table, &array);
        export_schema(table.schema, &schema);
        array.device_id = gpu;
        expect_no_such_gpu(gpu, [&] { import_gpu_table(&array, &schema); });
        EXPECT_EQ(array.array.release, nullptr) << "an import takes over what it refuses, too";
        EXPECT_EQ(schema.release, nullptr);
    }
    table.gpu = 7;
    expect_no_such_gpu(7, [&] { copy_to_host(table); });
    expect_no_such_gpu(7, [&] { copy_to_gpu(some_rows(keys), 7); });
    expect_no_such_gpu(-1, [&] { wait_for_gpu_stream(-1, nullptr); });
}

}  // namespace
}  // namespace mgi::gpu
