// Tables in the memory of a GPU that is made up: copied, shared as Arrow's device arrays, and on GPUs that are not
// there.
#include <gtest/gtest.h>

#include <mgi/arrow_device_abi.hpp>
#include <mgi/gpu_table.hpp>

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
