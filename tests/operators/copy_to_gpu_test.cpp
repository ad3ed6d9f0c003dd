// Rows of host tables laid out as a GPU's table, in the host's memory.
#include <gtest/gtest.h>

#include <mgi/gpu_copies.hpp>

#include "operators/host_tables.hpp"
#include "support/expect_error.hpp"
#include "support/random.hpp"

namespace mgi::operators::on_gpu {
namespace {

using test::Random;

Schema every_type(bool nullable) {
    return Schema{{"a", boolean(), nullable},
                  {"b", int8(), nullable},
                  {"c", int16(), nullable},
                  {"d", float32(), nullable},
                  {"e", int64(), nullable},
                  {"f", decimal128(15, 2), nullable},
                  {"g", fixed_size_binary(3), nullable},
                  {"h", fixed_size_binary(40), nullable},
                  {"i", string(), nullable},
                  {"j", binary(), nullable}};
}

GpuTable copied(Schema const& schema, std::vector<HostRows> const& rows) {
    CopyToGpu const copy(schema, rows);
    auto memory = std::make_shared<std::vector<u64>>(copy.bytes() / 8 + 1);
    void* const at = memory->data();
    return copy.copy(-1, std::shared_ptr<void>(std::move(memory), at));
}

/// The same texts, as Arrow's views; all characters of a column lie in one buffer.
RecordBatch with_views(RecordBatch const& batch) {
    struct Memory {
        std::shared_ptr<void const> before;
        std::vector<std::vector<device::StringView16>> views;
    };
    auto memory = std::make_shared<Memory>();
    memory->before = batch.owner;
    RecordBatch made = batch;
    for (std::size_t c = 0; c < made.schema.size(); ++c) {
        if (!made.schema[c].type.is_variable()) continue;
        auto& views = memory->views.emplace_back(std::size_t(batch.rows));
        for (i64 row = 0; row < batch.rows; ++row) {
            std::string_view const text = batch.string_at(c, row);
            auto& view = views[std::size_t(row)];
            if (!batch.is_valid(c, row)) {
                std::memset(static_cast<void*>(&view), 0xa5, sizeof(view));
                continue;
            }
            view.length = u32(text.size());
            if (text.size() <= device::StringView16::kInline) {
                std::memcpy(view.text, text.data(), text.size());
                continue;
            }
            view.ref.buffer = 0;
            view.ref.offset =
                u32(text.data() - reinterpret_cast<char const*>(batch.columns[c].bytes));
        }
        made.columns[c].encoding = Encoding::Views;
        made.columns[c].values = views.data();
        made.columns[c].buffers = {batch.columns[c].bytes};
        made.columns[c].buffer_sizes = {1 << 30};
    }
    made.owner = memory;
    return made;
}

class CopyToGpuProperty : public ::testing::TestWithParam<int> {};

// Batches with offsets, with and without validity, texts of each encoding; consecutive rows and some of them.
TEST_P(CopyToGpuProperty, RowsAreThoseOfTheBatches) {
    Random random{u64(GetParam())};
    std::vector<RecordBatch> batches;
    std::vector<std::vector<std::uint16_t>> numbers;
    std::size_t const count = random.below(6);
    for (std::size_t b = 0; b < count; ++b) {
        bool const large = GetParam() == 0;
        std::size_t const rows = large ? 40'000 : random.below(700);
        PlainTable const table =
            random_table(every_type(random.below(2) == 0), rows, 5000, random.below(1000), true);
        RecordBatch batch = batch_of(table, 0, rows);
        if (random.below(2) == 0) batch = with_views(batch);
        i64 const cut = i64(random.below(rows + 1));
        batches.push_back(random.below(2) == 0 ? batch : batch.slice(cut, batch.rows - cut));
    }
    numbers.reserve(2 * count);
    std::vector<HostRows> runs;
    Rows expected;
    for (RecordBatch const& batch : batches) {
        Rows const all = rows_of(batch);
        for (i64 first = 0; first < batch.rows;) {
            i64 const some = std::min<i64>(batch.rows - first, i64(1 + random.below(65'000)));
            HostRows run{&batch, first, some, nullptr};
            if (random.below(2) == 0) {
                auto& chosen = numbers.emplace_back();
                for (i64 i = 0; i < some; ++i) {
                    if (random.below(3) == 0) chosen.push_back(std::uint16_t(i));
                }
                run.rows = i64(chosen.size());
                run.numbers = chosen.data();
            }
            for (i64 i = 0; i < run.rows; ++i) {
                i64 const row = run.numbers != nullptr ? run.numbers[i] : i;
                expected.push_back(all[std::size_t(first + row)]);
            }
            runs.push_back(run);
            first += some;
            if (numbers.size() == numbers.capacity()) break;
        }
    }
    GpuTable const table = copied(every_type(true), runs);
    EXPECT_EQ(table.rows, i64(expected.size()));
    // In the same order.
    expect_same(rows_of(batch_of_result(table)), expected);
}

INSTANTIATE_TEST_SUITE_P(Seeds, CopyToGpuProperty, ::testing::Range(0, 40));

TEST(CopyToGpu, TextsHaveOffsetsEvenWithoutRows) {
    GpuTable const table = copied(Schema{{"name", string()}}, {});
    ASSERT_EQ(table.rows, 0);
    EXPECT_EQ(*static_cast<std::int32_t const*>(table.columns[0].values), 0);
}

TEST(CopyToGpu, BatchesHaveTheTablesColumns) {
    RecordBatch batch;
    batch.rows = 1;
    test::expect_error(ErrorCode::InvalidArgument, {"0 columns in place of 1"},
                       [&] { (void)CopyToGpu(Schema{{"a", int8()}}, {{&batch, 0, 1, nullptr}}); });
}

}  // namespace
}  // namespace mgi::operators::on_gpu
