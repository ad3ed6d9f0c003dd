#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <mgi/arrow_abi.hpp>
#include <mgi/batch.hpp>

#include "core/views.hpp"
#include "support/tables.hpp"

namespace mgi {
namespace {

using test::Random;
using test::Row;

std::vector<std::string> encoded(RecordBatch const& batch) {
    std::vector<std::string> rows;
    for (std::int64_t r = 0; r < batch.rows; ++r) rows.push_back(test::encode_row(batch, r));
    return rows;
}

std::vector<std::string> encoded(Table const& table) {
    std::vector<std::string> rows;
    for (RecordBatch const& batch : table.batches) {
        for (std::string& row : encoded(batch)) rows.push_back(std::move(row));
    }
    return rows;
}

RecordBatch there_and_back(RecordBatch const& batch) {
    ArrowSchema schema;
    ArrowArray array;
    export_schema(batch, &schema);
    export_batch(batch, &array);
    RecordBatch result = import_batch(&array, &schema);
    EXPECT_EQ(schema.release, nullptr);
    EXPECT_EQ(array.release, nullptr);
    return result;
}

Table there_and_back(Table const& table) {
    ArrowArrayStream stream;
    export_stream(table, &stream);
    Table result = import_stream(&stream);
    EXPECT_EQ(stream.release, nullptr);
    return result;
}

TEST(ArrowRoundTrip, AnyBatch) {
    for (std::uint64_t seed = 0; seed < 300; ++seed) {
        SCOPED_TRACE(seed);
        Random random(seed);
        Schema const schema = test::random_schema(random, 8);
        auto const rows = test::random_rows(schema, random.below(200), random);
        RecordBatch batch = test::make_batch(schema, rows, random);
        std::vector<std::string> const expected = test::encode_all(rows);
        RecordBatch const back = there_and_back(batch);
        EXPECT_EQ(back.schema, schema);
        EXPECT_EQ(encoded(back), expected);
        EXPECT_EQ(back.bytes(), batch.bytes());
        for (std::size_t c = 0; c < schema.size(); ++c) {
            EXPECT_EQ(back.columns[c].encoding, batch.columns[c].encoding);
            EXPECT_EQ(back.columns[c].values, batch.columns[c].values) << "copied";
        }
        // The imported batch alone keeps the memory.
        batch = {};
        EXPECT_EQ(encoded(back), expected);
    }
}

TEST(ArrowRoundTrip, AnySlice) {
    for (std::uint64_t seed = 0; seed < 100; ++seed) {
        SCOPED_TRACE(seed);
        Random random(seed);
        Schema const schema = test::random_schema(random, 5);
        auto const rows = test::random_rows(schema, 1 + random.below(100), random);
        RecordBatch const batch = test::make_batch(schema, rows, random);
        auto const first = std::int64_t(random.below(rows.size() + 1));
        auto const count = std::int64_t(random.below(rows.size() + 1 - std::size_t(first)));
        std::vector<Row> const part(rows.begin() + first, rows.begin() + first + count);
        EXPECT_EQ(encoded(there_and_back(batch.slice(first, count))), test::encode_all(part));
    }
}

TEST(ArrowRoundTrip, AnyTableWhateverItsEncodings) {
    for (std::uint64_t seed = 0; seed < 200; ++seed) {
        SCOPED_TRACE(seed);
        Random random(seed);
        Table table;
        table.schema = test::random_schema(random, 5);
        std::vector<std::string> expected;
        for (std::uint64_t b = random.below(6); b > 0; --b) {
            auto const rows = test::random_rows(table.schema, random.below(40), random);
            table.batches.push_back(test::make_batch(table.schema, rows, random));
            for (std::string& row : test::encode_all(rows)) expected.push_back(std::move(row));
        }
        Table back = there_and_back(table);
        EXPECT_EQ(back.schema, table.schema);
        EXPECT_EQ(back.batches.size(), table.batches.size());
        EXPECT_EQ(encoded(back), expected);
        table = {};
        EXPECT_EQ(encoded(back), expected);
    }
}

TEST(ArrowRoundTrip, AColumnMayOutliveItsBatch) {
    Random random(7);
    Schema const schema{{"k", int64()}, {"t", string(), true}};
    auto const rows = test::random_rows(schema, 50, random);
    ArrowArray array;
    {
        RecordBatch const batch = test::make_batch(schema, rows);
        export_batch(batch, &array);
    }
    // As the interface allows: move a child out, release the parent, then use the child.
    ArrowArray moved = *array.children[0];
    array.children[0]->release = nullptr;
    array.release(&array);
    EXPECT_EQ(array.release, nullptr);
    ASSERT_EQ(moved.length, 50);
    auto const* const keys = static_cast<std::int64_t const*>(moved.buffers[1]) + moved.offset;
    EXPECT_EQ(test::cell(keys[49]), rows[49][0]);
    moved.release(&moved);
    EXPECT_EQ(moved.release, nullptr);
}

TEST(ArrowRoundTrip, AStreamAgreesWithItsSchema) {
    Schema const schema{{"t", string(), true}, {"b", binary()}};
    Random random(3);
    auto const rows = test::random_rows(schema, 20, random);
    RecordBatch const offsets = test::make_batch(schema, rows);
    RecordBatch const views = arrow::with_views(offsets, {0});
    ASSERT_EQ(views.columns[0].encoding, Encoding::Views);
    ArrowArrayStream stream;
    export_stream({schema, {offsets, views, offsets.slice(0, 0)}}, &stream);
    ArrowSchema described;
    ASSERT_EQ(stream.get_schema(&stream, &described), 0);
    EXPECT_STREQ(described.children[0]->format, "vu");
    EXPECT_STREQ(described.children[1]->format, "z");
    EXPECT_EQ(described.children[0]->flags, ARROW_FLAG_NULLABLE);
    EXPECT_EQ(described.children[1]->flags, 0);
    described.release(&described);
    for (int i = 0; i < 3; ++i) {
        ArrowArray array;
        ASSERT_EQ(stream.get_next(&stream, &array), 0);
        EXPECT_GE(array.children[0]->n_buffers, 3);
        EXPECT_EQ(array.children[1]->n_buffers, 3);
        array.release(&array);
    }
    ArrowArray end;
    ASSERT_EQ(stream.get_next(&stream, &end), 0);
    EXPECT_EQ(end.release, nullptr);
    ASSERT_EQ(stream.get_next(&stream, &end), 0);
    EXPECT_EQ(end.release, nullptr);
    stream.release(&stream);
}

TEST(ArrowRoundTrip, NullableWhereAnyBatchIs) {
    Random random(5);
    Schema const strict{{"k", int32()}};
    Schema const nullable{{"k", int32(), true}};
    RecordBatch const one = test::make_batch(strict, {{test::cell(std::int32_t(4))}});
    RecordBatch const none = test::make_batch(nullable, {{std::nullopt}});
    Table const back = there_and_back(Table{strict, {one, none}});
    EXPECT_EQ(back.schema, nullable);
    EXPECT_TRUE(back.batches[0].is_valid(0, 0));
    EXPECT_FALSE(back.batches[1].is_valid(0, 0));
}

TEST(ArrowRoundTrip, NoBatchAndNoRow) {
    Schema const schema{{"k", int64()}, {"t", string()}, {"z", binary(), true}};
    Table const back = there_and_back(Table{schema, {}});
    EXPECT_EQ(back.schema, schema);
    EXPECT_TRUE(back.batches.empty());

    RecordBatch nothing;
    nothing.schema = schema;
    nothing.columns.resize(3);
    nothing.columns[1].encoding = Encoding::Offsets32;
    nothing.columns[2].encoding = Encoding::Views;
    EXPECT_EQ(there_and_back(nothing).rows, 0);
    EXPECT_EQ(there_and_back(Table{schema, {nothing}}).rows(), 0);
}

TEST(ArrowRoundTrip, SchemasWithoutBatchesHaveViews) {
    ArrowSchema out;
    export_schema(Schema{{"t", string()}, {"b", binary(), true}, {"d", decimal128(12, -2)}}, &out);
    EXPECT_STREQ(out.children[0]->format, "vu");
    EXPECT_STREQ(out.children[1]->format, "vz");
    EXPECT_STREQ(out.children[2]->format, "d:12,-2");
    EXPECT_EQ(import_schema(&out),
              (Schema{{"t", string()}, {"b", binary(), true}, {"d", decimal128(12, -2)}}));
}

TEST(ArrowRoundTrip, ManyThreadsMayReleaseColumns) {
    Random random(11);
    Schema const schema = {{"a", int64()}, {"b", string()}, {"c", float64(), true}};
    RecordBatch batch = test::make_batch(schema, test::random_rows(schema, 10, random));
    std::weak_ptr<void const> const memory = batch.owner;
    std::vector<ArrowArray> arrays(16);
    for (ArrowArray& array : arrays) export_batch(batch, &array);
    batch = {};
    std::vector<std::jthread> threads;
    for (ArrowArray& array : arrays) {
        threads.emplace_back([&array] { array.release(&array); });
    }
    threads.clear();
    EXPECT_TRUE(memory.expired());
}

}  // namespace
}  // namespace mgi
