#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstdint>
#include <limits>
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

RecordBatch with_values(RecordBatch const& like, std::string const& bytes,
                        std::vector<std::int64_t> const& ends) {
    RecordBatch batch = like;
    batch.rows = std::int64_t(ends.size()) - 1;
    Column column;
    column.encoding = Encoding::Offsets64;
    column.values = ends.data();
    column.bytes = reinterpret_cast<std::byte const*>(bytes.data());
    batch.columns = {column};
    return batch;
}

RecordBatch with_value(RecordBatch const& like, std::string const& bytes,
                       std::vector<std::int64_t>& ends) {
    ends = {0, std::int64_t(bytes.size())};
    return with_values(like, bytes, ends);
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
    std::vector<std::int64_t> ends;
    RecordBatch const batch = with_value(empty, bytes, ends);
    ArrowArray array{};
    expect_error(ErrorCode::InvalidArgument, {"value 0 holds no"},
                 [&] { export_batch(batch, &array); });
}

/// The most memory that this process had so far.
std::int64_t most_memory() {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return std::int64_t(usage.ru_maxrss) * 1024;
}

TEST(NestedValues, NoMemoryIsTakenForValuesThatAreNotThere) {
    std::int64_t const offsets[] = {0, 0};
    std::int32_t const ends_of_texts[] = {0};
    Part texts("u", 0, {nullptr, ends_of_texts, nullptr});
    Part lists("+L", 0, {nullptr, offsets}, {&texts});
    Part bools("b", 0, {nullptr, nullptr});
    Part numbers("l", 0, {nullptr, nullptr});
    Part coded("i", 0, {nullptr, nullptr});
    coded.schema.dictionary = &texts.schema;
    coded.array.dictionary = &texts.array;
    for (Part* const elements : {&texts, &lists, &bools, &numbers, &coded}) {
        Part list("+L", 1, {nullptr, offsets}, {elements});
        RecordBatch const empty = read(list);
        // A null, then rows of 2^32 - 1 values without any.
        std::string bytes = bytes_of({1, 0, 0, 0, 1, 0});
        if (elements == &lists) bytes += bytes_of({0});
        std::vector<std::int64_t> ends = {0, std::int64_t(bytes.size())};
        for (int row = 1; row < 64; ++row) {
            bytes += bytes_of({255, 255, 255, 255, 0});
            ends.push_back(std::int64_t(bytes.size()));
        }
        RecordBatch const batch = with_values(empty, bytes, ends);
        ArrowArray array{};
        std::int64_t const before = most_memory();
        expect_error(ErrorCode::InvalidArgument, {"value 1 holds no"},
                     [&] { export_batch(batch, &array); });
        EXPECT_LT(most_memory(), before + (std::int64_t{64} << 20)) << elements->text;
    }
}

TEST(NestedValues, LengthsThatNoBytesFollowAreDamaged) {
    std::int32_t const offsets[] = {0, 0};
    Part items("l", 0, {nullptr, nullptr});
    Part list("+l", 1, {nullptr, offsets}, {&items});
    RecordBatch const empty = read(list);
    std::vector<std::int64_t> ends;
    std::string const bytes = bytes_of({255, 255, 255, 255, 0});
    RecordBatch const batch = with_value(empty, bytes, ends);
    ArrowArray array{};
    expect_error(ErrorCode::InvalidArgument, {"value 0 holds no"},
                 [&] { export_batch(batch, &array); });
}

TEST(NestedValues, OffsetsThatSayAnythingAreRefused) {
    constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();
    constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
    std::int64_t const numbers[] = {1, 2};
    for (std::vector<std::int64_t> const& offsets :
         {std::vector<std::int64_t>{kLeast, kMost}, {kMost, kLeast}, {1, kLeast}, {kLeast, 1}}) {
        Part items("l", 2, {nullptr, numbers});
        Part list("+L", 1, {nullptr, offsets.data()}, {&items});
        expect_error(ErrorCode::InvalidArgument, {"column 'x'", "has a list of elements"},
                     [&] { read(list); });
        Part text("U", 1, {nullptr, offsets.data(), "ab"});
        Part record("+s", 1, {nullptr}, {&text});
        expect_error(ErrorCode::InvalidArgument, {"column 'x'", "has offsets that decrease"},
                     [&] { read(record); });
    }
}

TEST(NestedValues, ViewsBeyondTheirBufferAreRefused) {
    struct View {
        std::uint32_t length;
        char prefix[4];
        std::uint32_t buffer;
        std::uint32_t offset;
    };
    char const text[] = "thirteen characters and some";
    for (View const& view : {View{13, {}, 0, 8}, View{21, {}, 0, 0}, View{13, {}, 0, 0xfffffff8},
                             View{13, {}, 1, 0}, View{0x80000000, {}, 0, 0}}) {
        std::int64_t const sizes[] = {view.length < 100 ? 20 : std::int64_t{1} << 40};
        Part views("vu", 1, {nullptr, &view, text, sizes});
        Part record("+s", 1, {nullptr}, {&views});
        expect_error(ErrorCode::InvalidArgument, {"column 'x'"}, [&] { read(record); });
    }
    View const last{13, {'c', 'h', 'a', 'r'}, 0, 9};
    std::int64_t const sizes[] = {22};
    Part views("vu", 1, {nullptr, &last, text, sizes});
    Part record("+s", 1, {nullptr}, {&views});
    EXPECT_EQ(read(record).string_at(0, 0), bytes_of({0, 13, 0, 0, 0}) + "characters an");
    views.buffers.back() = nullptr;
    expect_error(ErrorCode::InvalidArgument, {"column 'x'", "has no sizes"}, [&] { read(record); });
}

TEST(NestedValues, AUnionsValueIsCopiedOnlyWhereItMayBe) {
    // Characters that are not there; nobody looks.
    std::int32_t const ends[] = {0, 1'500'000'000};
    Part one("u", 1, {nullptr, ends, "a"});
    Part other("u", 1, {nullptr, ends, "a"});
    Part record("+s", 1, {nullptr}, {&one, &other});
    std::int8_t const codes[] = {0};
    std::int32_t const places[] = {0};
    Part either("+ud:0", 1, {codes, places}, {&record});
    expect_error(ErrorCode::InvalidArgument, {"column 'x'", "2 GiB or more"},
                 [&] { read(either); });
}

TEST(NestedValues, BuffersNeedNotBeAligned) {
    std::string const begins("\0\0\0\0\0\1\0\0\0\2\0\0\0", 13);
    std::string const numbers("\0\7\0\10\0", 5);
    std::string const places("\0\1\0\0\0\0\0\0\0", 9);
    std::int8_t const codes[] = {0, 0};
    Part items("s", 2, {nullptr, numbers.data() + 1});
    Part list("+l", 2, {nullptr, begins.data() + 1}, {&items});
    Part text("u", 2, {nullptr, begins.data() + 1, "ab"});
    Part either("+ud:0", 2, {codes, places.data() + 1}, {&text});
    Part record("+s", 2, {nullptr}, {&list, &either});
    RecordBatch const batch = read(record);
    EXPECT_EQ(batch.string_at(0, 0), bytes_of({0, 1, 0, 0, 0, 0, 7, 0, 0, 0, 1, 0, 0, 0, 'b'}));
    EXPECT_EQ(batch.string_at(0, 1), bytes_of({0, 1, 0, 0, 0, 0, 8, 0, 0, 0, 1, 0, 0, 0, 'a'}));
}

TEST(NestedValues, ValuesThatTakeNoBytesAreCounted) {
    std::int64_t const offsets[] = {0, 0};
    Part nothing("n", 0, {});
    Part list("+L", 1, {nullptr, offsets}, {&nothing});
    RecordBatch const empty = read(list);
    std::vector<std::int64_t> ends;
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
