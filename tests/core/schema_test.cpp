#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <mgi/device/batch_view.hpp>
#include <mgi/error.hpp>
#include <mgi/schema.hpp>

#include "support/expect_error.hpp"

namespace mgi {
namespace {

using test::expect_error;

TEST(Schema, TypesHaveArrowsNamesAndWidths) {
    struct Case {
        Type type;
        char const* name;
        std::uint32_t width;
    };
    std::vector<Case> const cases{{boolean(), "bool", 0},
                                  {int8(), "int8", 1},
                                  {uint16(), "uint16", 2},
                                  {int32(), "int32", 4},
                                  {uint64(), "uint64", 8},
                                  {float32(), "float", 4},
                                  {float64(), "double", 8},
                                  {date32(), "date32[day]", 4},
                                  {decimal128(15, 2), "decimal128(15, 2)", 16},
                                  {fixed_size_binary(7), "fixed_size_binary[7]", 7},
                                  {string(), "string", 16},
                                  {binary(), "binary", 16}};
    for (Case const& c : cases) {
        EXPECT_EQ(c.type.to_string(), c.name);
        EXPECT_EQ(c.type.row_width(), c.width) << c.name;
    }
}

TEST(Schema, PrintsItsColumns) {
    Schema const schema{{"l_orderkey", int64()}, {"l_comment", string(), true}};
    EXPECT_EQ(schema.to_string(), "l_orderkey: int64, l_comment: string?");
}

TEST(Schema, FindsColumnsAndListsThemWhenItDoesNot) {
    Schema const schema{{"a", int64()}, {"b", int32()}};
    EXPECT_EQ(schema.index_of("b"), 1u);
    expect_error(ErrorCode::InvalidArgument, {"'c'", "a, b"}, [&] { (void)schema.index_of("c"); });
    expect_error(ErrorCode::InvalidArgument, {"there are none"},
                 [] { (void)Schema{}.index_of("c"); });
}

TEST(Schema, NamesMayBeMissingOrStandTwice) {
    Schema const schema{{"a", int64()}, {"b", int8()}, {"a", int32()}, {"", int32()}};
    EXPECT_EQ(schema.index_of("b"), 1u);
    expect_error(ErrorCode::InvalidArgument, {"columns 0 and 2", "'a'"},
                 [&] { (void)schema.index_of("a"); });
    expect_error(ErrorCode::InvalidArgument, {"zero byte"},
                 [] { Schema({{std::string("a\0b", 3), int64()}}); });
}

TEST(Schema, TypesAreEqualThatMeanTheSame) {
    Type const instant = timestamp(TimeUnit::Micro, "UTC");
    EXPECT_EQ(instant.to_string(), "timestamp[us, tz=UTC]");
    EXPECT_EQ(instant, timestamp(TimeUnit::Micro, "UTC"));
    EXPECT_NE(instant, timestamp(TimeUnit::Micro, "Europe/Berlin"));
    EXPECT_TRUE(instant.means_as(timestamp(TimeUnit::Micro, "Europe/Berlin")));
    EXPECT_FALSE(instant.means_as(timestamp(TimeUnit::Micro)));
    EXPECT_FALSE(instant.means_as(int64()));
    EXPECT_NE(instant, int64());
    EXPECT_FALSE(instant.is_number());
    EXPECT_TRUE(int64().is_number());
    EXPECT_EQ(time_of_day(TimeUnit::Milli).row_width(), 4u);
    EXPECT_EQ(time_of_day(TimeUnit::Nano).to_string(), "time64[ns]");
    EXPECT_EQ(duration(TimeUnit::Second).to_string(), "duration[s]");
    EXPECT_EQ(date64().to_string(), "date64[ms]");
}

TEST(Schema, RefusesImpossibleTypes) {
    expect_error(ErrorCode::InvalidArgument, {"precision"}, [] { decimal128(39, 0); });
    expect_error(ErrorCode::InvalidArgument, {"precision"}, [] { decimal128(0, 0); });
    expect_error(ErrorCode::InvalidArgument, {"width"}, [] { fixed_size_binary(0); });
    expect_error(ErrorCode::InvalidArgument, {"width"}, [] { fixed_size_binary(65537); });
    expect_error(ErrorCode::InvalidArgument, {"column 'd'", "precision"},
                 [] { Schema({{"d", Type{TypeId::Decimal128}}}); });
    expect_error(ErrorCode::InvalidArgument, {"column 'x'", "200"},
                 [] { Schema({{"x", Type{TypeId(200)}}}); });
    expect_error(ErrorCode::InvalidArgument, {"column 'x'", "width"},
                 [] { Schema({{"x", Type{TypeId::Int64, 8}}}); });
    std::vector<Field> wide;
    for (int i = 0; i < 300; ++i)
        wide.push_back({"c" + std::to_string(i), fixed_size_binary(65536)});
    expect_error(ErrorCode::InvalidArgument, {"19660800 bytes"}, [&] { Schema{wide}; });
}

TEST(Schema, HoldsWhateverTheNullability) {
    Schema const a{{"k", int64()}, {"v", int32(), true}};
    EXPECT_TRUE(a.holds({{"k", int64(), true}, {"v", int32()}}));
    EXPECT_FALSE(a.holds({{"k", int64()}}));
    EXPECT_FALSE(a.holds({{"k", int64()}, {"w", int32()}}));
    EXPECT_FALSE(a.holds({{"k", int64()}, {"v", uint32()}}));
    EXPECT_NE(a, (Schema{{"k", int64()}, {"v", int32()}}));
}

TEST(Schema, RowStructsAreLaidOutAsTheCompilerDoes) {
    struct Mixed {
        bool flag;
        std::int16_t small;
        char code[3];
        double price;
        std::uint8_t tag;
        device::RowBytes text;
        std::int32_t day;
    };
    Schema const schema{{"flag", boolean()},  {"small", int16()}, {"code", fixed_size_binary(3)},
                        {"price", float64()}, {"tag", uint8()},   {"text", string()},
                        {"day", date32()}};
    std::vector<std::uint32_t> const expected{offsetof(Mixed, flag), offsetof(Mixed, small),
                                              offsetof(Mixed, code), offsetof(Mixed, price),
                                              offsetof(Mixed, tag),  offsetof(Mixed, text),
                                              offsetof(Mixed, day)};
    EXPECT_EQ(schema.row_offsets(), expected);
    EXPECT_EQ(schema.row_bytes(), sizeof(Mixed));

    struct Decimal {
        std::int64_t key;
        __int128 amount;
        std::int32_t day;
    };
    Schema const decimal{{"key", int64()}, {"amount", decimal128(38, 2)}, {"day", date32()}};
    EXPECT_EQ(decimal.row_offsets()[1], offsetof(Decimal, amount));
    EXPECT_EQ(decimal.row_bytes(), sizeof(Decimal));
}

TEST(Schema, AnEmptyOneHasNoRowBytes) {
    EXPECT_EQ(Schema{}.row_bytes(), 0u);
    EXPECT_TRUE(Schema{}.row_offsets().empty());
}

}  // namespace
}  // namespace mgi
