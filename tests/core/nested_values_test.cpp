#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include <mgi/arrow_abi.hpp>
#include <mgi/batch.hpp>
#include <mgi/error.hpp>

#include "support/arrow_part.hpp"
#include "support/expect_error.hpp"

namespace mgi::nested_values {
namespace {

using test::expect_error;
using test::Part;
using test::read;

std::string bytes_of(std::vector<std::uint8_t> const& bytes) {
    return {bytes.begin(), bytes.end()};
}

TEST(NestedValues, LieAsTheirDescriptionSays) {
    std::int16_t const numbers[] = {7, 8, -1, 9};
    std::uint8_t const valid_numbers[] = {0b1011};
    std::int32_t const offsets[] = {0, 2, 4, 4, 4};
    std::uint8_t const valid[] = {0b1011};
    Part items("s", 4, {valid_numbers, numbers});
    Part lists("+l", 4, {valid, offsets}, {&items});
    RecordBatch const batch = read(lists);
    EXPECT_EQ(batch.schema.to_string(), "x: list<int16>?");
    // A length, no nulls, two numbers.
    EXPECT_EQ(batch.string_at(0, 0), bytes_of({2, 0, 0, 0, 0, 7, 0, 8, 0}));
    // A length, some nulls, which are not the first, one number.
    EXPECT_EQ(batch.string_at(0, 1), bytes_of({2, 0, 0, 0, 1, 0b10, 9, 0}));
    EXPECT_FALSE(batch.is_valid(0, 2));
    EXPECT_EQ(batch.string_at(0, 3), bytes_of({0, 0, 0, 0, 0}));
}

TEST(NestedValues, EqualOnesHaveTheSameBytesHoweverTheyAreStored) {
    std::int64_t const numbers[] = {5, 6, 5, 6, 0};
    std::int32_t const narrow[] = {0, 2};
    std::int64_t const wide[] = {2, 4};
    std::int32_t const starts[] = {1};
    std::int32_t const sizes[] = {2};
    std::int64_t const shifted[] = {0, 5, 6};
    Part a("l", 5, {nullptr, numbers});
    Part list("+l", 1, {nullptr, narrow}, {&a});
    Part b("l", 5, {nullptr, numbers});
    Part large("+L", 1, {nullptr, wide}, {&b});
    Part c("l", 3, {nullptr, shifted});
    Part view("+vl", 1, {nullptr, starts, sizes}, {&c});
    Part d("l", 2, {nullptr, numbers});
    Part fixed("+w:2", 1, {nullptr}, {&d});
    RecordBatch const first = read(list);
    for (Part* const other : {&large, &view, &fixed}) {
        RecordBatch const batch = read(*other);
        EXPECT_EQ(batch.string_at(0, 0), first.string_at(0, 0)) << other->text;
        EXPECT_TRUE(batch.schema[0].type.means_as(first.schema[0].type)) << other->text;
        EXPECT_EQ(batch.schema[0].type == first.schema[0].type, other != &fixed) << other->text;
    }
}

TEST(NestedValues, FloatsMapsAndUnionsAreNoKeys) {
    double const numbers[] = {1.0};
    std::int32_t const offsets[] = {0, 1};
    Part floats("g", 1, {nullptr, numbers});
    Part list("+l", 1, {nullptr, offsets}, {&floats});
    EXPECT_FALSE(read(list).schema[0].type.is_key());
    EXPECT_FALSE(read(list).schema[0].type.has_order());
    Part integers("l", 1, {nullptr, numbers});
    Part record("+s", 1, {nullptr}, {&integers});
    EXPECT_TRUE(read(record).schema[0].type.is_key());
    std::int8_t const codes[] = {3};
    Part one("l", 1, {nullptr, numbers});
    Part either("+us:3", 1, {codes}, {&one});
    EXPECT_FALSE(read(either).schema[0].type.is_key());
}

TEST(NestedValues, ArraysThatContradictThemselvesAreRefused) {
    std::int64_t const numbers[] = {1, 2};
    std::int32_t const beyond[] = {0, 3};
    std::int32_t const falling[] = {2, 1};
    for (std::int32_t const* const offsets : {beyond, falling}) {
        Part items("l", 2, {nullptr, numbers});
        Part list("+l", 1, {nullptr, offsets}, {&items});
        expect_error(ErrorCode::InvalidArgument, {"column 'x'"}, [&] { read(list); });
    }
    std::int8_t const codes[] = {5};
    Part one("l", 1, {nullptr, numbers});
    Part either("+us:3", 1, {codes}, {&one});
    expect_error(ErrorCode::InvalidArgument, {"no type"}, [&] { read(either); });
    Part few("l", 1, {nullptr, numbers});
    Part fixed("+w:2", 1, {nullptr}, {&few});
    expect_error(ErrorCode::InvalidArgument, {"fewer than it needs"}, [&] { read(fixed); });
}

TEST(NestedValues, BytesThatAreNoValueAreRefused) {
    std::int32_t const offsets[] = {0, 0};
    Part items("l", 0, {nullptr, nullptr});
    Part list("+l", 1, {nullptr, offsets}, {&items});
    RecordBatch batch = read(list);
    for (std::string const& bytes :
         {bytes_of({}), bytes_of({1, 0, 0, 0, 0}), bytes_of({0, 0, 0, 0, 0, 0}),
          bytes_of({0, 0, 0, 0, 2}), bytes_of({9, 0, 0, 0, 0, 1})}) {
        std::int64_t const ends[] = {0, std::int64_t(bytes.size())};
        Column column;
        column.encoding = Encoding::Offsets64;
        column.values = ends;
        column.bytes = reinterpret_cast<std::byte const*>(bytes.data());
        batch.columns = {column};
        ArrowArray array{};
        expect_error(ErrorCode::InvalidArgument, {"column 'x'", "value 0 holds no list<int64>"},
                     [&] { export_batch(batch, &array); });
    }
}

RecordBatch with_value(RecordBatch const& like, std::string const& bytes, std::int64_t (&ends)[2]) {
    ends[0] = 0;
    ends[1] = std::int64_t(bytes.size());
    RecordBatch batch = like;
    batch.rows = 1;
    Column column;
    column.encoding = Encoding::Offsets64;
    column.values = ends;
    column.bytes = reinterpret_cast<std::byte const*>(bytes.data());
    batch.columns = {column};
    return batch;
}

TEST(NestedValues, LengthsWhoseSumWrapsAroundAreRefused) {
    std::int64_t const offsets[] = {0, 0};
    Part items("w:65536", 0, {nullptr, nullptr});
    Part inner("+L", 0, {nullptr, offsets}, {&items});
    Part outer("+L", 1, {nullptr, offsets}, {&inner});
    RecordBatch const empty = read(outer);
    // 65537 lists of 2^48 values of 2^16 bytes in all.
    std::string bytes =
        bytes_of({1, 0, 1, 0, 0}) + std::string(4 * 65536, char(0xff)) + bytes_of({0, 0, 1, 0, 0});
    std::int64_t ends[2];
    RecordBatch const batch = with_value(empty, bytes, ends);
    ArrowArray array{};
    expect_error(ErrorCode::InvalidArgument, {"value 0 holds no"},
                 [&] { export_batch(batch, &array); });
}

TEST(NestedValues, ValuesThatTakeNoBytesAreCounted) {
    std::int64_t const offsets[] = {0, 0};
    Part nothing("n", 0, {});
    Part list("+L", 1, {nullptr, offsets}, {&nothing});
    RecordBatch const empty = read(list);
    std::int64_t ends[2];
    std::string const bytes = bytes_of({255, 255, 255, 255});
    RecordBatch const batch = with_value(empty, bytes, ends);
    ArrowArray array{};
    expect_error(ErrorCode::InvalidArgument, {"take no bytes"},
                 [&] { export_batch(batch, &array); });
}

TEST(NestedValues, PartsThatAreNeverNullAreNot) {
    std::int64_t const numbers[] = {1, 2};
    std::uint8_t const valid[] = {0b01};
    Part some("l", 2, {valid, numbers});
    some.schema.flags = 0;
    Part record("+s", 2, {nullptr}, {&some});
    expect_error(ErrorCode::InvalidArgument, {"column 'x'", "not nullable"}, [&] { read(record); });
    Part all("l", 2, {nullptr, numbers});
    all.schema.flags = 0;
    Part sound("+s", 2, {nullptr}, {&all});
    Part other("l", 2, {nullptr, numbers});
    Part nullable("+s", 2, {nullptr}, {&other});
    Type const never = read(sound).schema[0].type;
    Type const ever = read(nullable).schema[0].type;
    EXPECT_EQ(never.to_string(), "struct<x: int64 not null>");
    EXPECT_NE(never, ever);
    EXPECT_TRUE(never.means_as(ever));
}

TEST(NestedValues, ANameIsNoPartOfTheType) {
    std::int64_t const numbers[] = {1};
    Part a("l", 1, {nullptr, numbers}, {}, "a");
    Part b("l", 1, {nullptr, numbers}, {}, "b");
    Part two("+s", 1, {nullptr}, {&a, &b});
    Part odd("l", 1, {nullptr, numbers}, {}, "a: int64, b");
    Part one("+s", 1, {nullptr}, {&odd});
    EXPECT_NE(read(two).schema[0].type, read(one).schema[0].type);
}

TEST(NestedValues, ANullUnionIsANull) {
    std::int8_t const codes[] = {0};
    std::int32_t const offsets[] = {0};
    std::int64_t const numbers[] = {1};
    Part never("l", 1, {nullptr, numbers});
    never.schema.flags = 0;
    Part ever("l", 1, {nullptr, numbers});
    Part either("+ud:0,1", 1, {codes, offsets}, {&never, &ever});
    RecordBatch batch = read(either);
    std::uint8_t const none[] = {0};
    batch.columns[0].validity = none;
    ArrowArray array{};
    export_batch(batch, &array);
    ArrowArray const& column = *array.children[0];
    EXPECT_EQ(static_cast<std::int8_t const*>(column.buffers[0])[0], 1);
    EXPECT_EQ(column.children[1]->null_count, 1);
    array.release(&array);
}

}  // namespace
}  // namespace mgi::nested_values
