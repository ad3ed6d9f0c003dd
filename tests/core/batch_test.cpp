#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include <mgi/batch.hpp>
#include <mgi/error.hpp>

#include "support/expect_error.hpp"
#include "support/tables.hpp"

namespace mgi {
namespace {

using test::cell;
using test::expect_error;
using test::Random;
using test::Row;

Schema small_schema() {
    return {{"k", int64()}, {"flag", boolean(), true}, {"name", string(), true}};
}

std::vector<Row> small_rows() {
    return {{cell(std::int64_t(1)), cell(std::uint8_t(1)), "short"},
            {cell(std::int64_t(2)), std::nullopt, "longer than twelve characters"},
            {cell(std::int64_t(3)), cell(std::uint8_t(0)), std::nullopt},
            {cell(std::int64_t(4)), cell(std::uint8_t(1)), ""}};
}

TEST(Batch, GivesItsValues) {
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
        Random random(seed);
        RecordBatch const batch = test::make_batch(small_schema(), small_rows(), random);
        EXPECT_EQ(batch.values<std::int64_t>(0)[2], 3);
        EXPECT_TRUE(batch.bool_at(1, 0));
        EXPECT_FALSE(batch.bool_at(1, 2));
        EXPECT_FALSE(batch.is_valid(1, 1));
        EXPECT_TRUE(batch.is_valid(0, 1));
        EXPECT_EQ(batch.string_at(2, 0), "short");
        EXPECT_EQ(batch.string_at(2, 1), "longer than twelve characters");
        EXPECT_EQ(batch.string_at(2, 2), "");
        EXPECT_EQ(batch.string_at(2, 3), "");
    }
}

TEST(Batch, CountsPayloadWhateverTheEncoding) {
    // 4 x 8 bytes, two columns' validity and one of bits at a byte each, 5 + 29 characters.
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
        Random random(seed);
        EXPECT_EQ(test::make_batch(small_schema(), small_rows(), random).bytes(), 32 + 3 + 34);
    }
}

TEST(Batch, SlicesAreViews) {
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
        Random random(seed);
        auto const rows = small_rows();
        RecordBatch const batch = test::make_batch(small_schema(), rows, random);
        RecordBatch const part = batch.slice(1, 2).slice(0, 2);
        ASSERT_EQ(part.rows, 2);
        EXPECT_EQ(part.values<std::int64_t>(0), batch.values<std::int64_t>(0) + 1);
        EXPECT_EQ(part.owner, batch.owner);
        for (std::int64_t r = 0; r < 2; ++r) {
            EXPECT_EQ(test::encode_row(part, r), test::encode(rows[std::size_t(1 + r)]));
        }
        EXPECT_EQ(batch.slice(4, 0).bytes(), 0);
    }
}

TEST(Batch, RefusesRowsAndTypesItDoesNotHave) {
    RecordBatch const batch = test::make_batch(small_schema(), small_rows());
    expect_error(ErrorCode::InvalidArgument, {"of a batch of 4"}, [&] { (void)batch.slice(3, 2); });
    expect_error(ErrorCode::InvalidArgument, {"[5"}, [&] { (void)batch.slice(5, 0); });
    expect_error(ErrorCode::InvalidArgument, {"[-1"}, [&] { (void)batch.slice(-1, 1); });
    expect_error(ErrorCode::InvalidArgument, {"'k'", "int64", "4 bytes"},
                 [&] { (void)batch.values<std::int32_t>(0); });
    expect_error(ErrorCode::InvalidArgument, {"'name'", "string"},
                 [&] { (void)batch.values<device::StringView16>(2); });
    EXPECT_THROW((void)batch.is_valid(3, 0), std::out_of_range);
}

TEST(Batch, TablesAddUp) {
    RecordBatch const batch = test::make_batch(small_schema(), small_rows());
    Table const table{small_schema(), {batch, batch.slice(0, 1), batch.slice(2, 0)}};
    EXPECT_EQ(table.rows(), 5);
    EXPECT_EQ(table.bytes(), batch.bytes() + 8 + 3 + 5);
    EXPECT_EQ(Table{}.rows(), 0);
    EXPECT_EQ(Table{}.bytes(), 0);
}

}  // namespace
}  // namespace mgi
