#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include <mgi/arrow_abi.hpp>
#include <mgi/batch.hpp>
#include <mgi/error.hpp>

#include "core/arrow_format.hpp"
#include "core/arrow_stored.hpp"
#include "operators/schema_message.hpp"
#include "support/expect_error.hpp"

namespace mgi::arrow_types {
namespace {

using arrow::Stored;
using test::expect_error;

template <class T>
T at(void const* values, std::size_t i) {
    T value;
    std::memcpy(&value, static_cast<std::byte const*>(values) + i * sizeof value, sizeof value);
    return value;
}

TEST(ArrowTypes, EachFloat16IsAFloat) {
    std::vector<std::uint16_t> halves(65536);
    for (std::size_t i = 0; i < halves.size(); ++i) halves[i] = std::uint16_t(i);
    arrow::Room room;
    void const* const floats = arrow::typed_values(Stored::Half, halves.data(), 0, 65536, room);
    EXPECT_EQ(at<float>(floats, 0x3c00), 1.0f);
    EXPECT_EQ(at<float>(floats, 0xc000), -2.0f);
    EXPECT_EQ(at<float>(floats, 0x0001), 0x1p-24f);
    EXPECT_EQ(at<float>(floats, 0x7bff), 65504.0f);
    EXPECT_TRUE(std::isinf(at<float>(floats, 0x7c00)));
    EXPECT_TRUE(std::signbit(at<float>(floats, 0x8000)));
    void const* const back = arrow::stored_values(Stored::Half, floats, 0, 65536, room);
    for (std::size_t i = 0; i < halves.size(); ++i) {
        bool const is_nan = (i & 0x7c00u) == 0x7c00u && (i & 0x3ffu) != 0;
        if (is_nan) {
            EXPECT_TRUE(std::isnan(at<float>(floats, i)));
        }
        ASSERT_EQ(at<std::uint16_t>(back, i), i);
    }
}

TEST(ArrowTypes, FloatsAreRoundedToTheNearestFloat16) {
    float const values[] = {1.0f + 0x1p-11f, 1.0f + 0x3p-11f, 65519.9f,
                            65520.0f,        0x1p-25f,        0x1.8p-25f};
    arrow::Room room;
    void const* const halves = arrow::stored_values(Stored::Half, values, 0, 6, room);
    std::uint16_t const wanted[] = {0x3c00, 0x3c02, 0x7bff, 0x7c00, 0, 1};
    for (std::size_t i = 0; i < 6; ++i) EXPECT_EQ(at<std::uint16_t>(halves, i), wanted[i]) << i;
}

TEST(ArrowTypes, DecimalsKeepTheirSign) {
    std::int64_t const values[] = {0, 1, -1, std::numeric_limits<std::int64_t>::min(),
                                   std::numeric_limits<std::int64_t>::max()};
    arrow::Room room;
    void const* const typed = arrow::typed_values(Stored::Decimal64, values, 1, 4, room);
    EXPECT_EQ(at<std::uint64_t>(typed, 0), 1u);
    EXPECT_EQ(at<std::uint64_t>(typed, 1), 0u);
    EXPECT_EQ(at<std::int64_t>(typed, 3), -1);
    void const* const wide = arrow::stored_values(Stored::Decimal256, typed, 0, 4, room);
    EXPECT_EQ(at<std::int64_t>(wide, 7), -1);
    EXPECT_EQ(at<std::int64_t>(wide, 15), 0);
    void const* const narrow = arrow::typed_values(Stored::Decimal256, wide, 0, 4, room);
    void const* const back = arrow::stored_values(Stored::Decimal64, narrow, 0, 4, room);
    for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(at<std::int64_t>(back, i), values[i + 1]);
}

TEST(ArrowTypes, SchemasTravelBetweenProcesses) {
    auto extension = std::make_shared<ArrowField>();
    extension->format = "w:16";
    extension->metadata = std::string("\1\0\0\0\1\0\0\0k\1\0\0\0v", 14);
    Type id = fixed_size_binary(16);
    id.arrow = extension;
    Schema schema{{"t", timestamp(TimeUnit::Nano, "UTC"), true}, {"id", id}};
    schema.set_metadata(extension->metadata);
    operators::MessageWriter to;
    operators::say_schema(to, schema);
    std::string const said = to.take();
    operators::MessageReader from(said);
    Schema const heard = operators::hear_schema(from);
    EXPECT_EQ(heard, schema);
    EXPECT_EQ(heard.metadata(), extension->metadata);
    EXPECT_EQ(heard[0].type.to_string(), "timestamp[ns, tz=UTC]");
    EXPECT_EQ(heard[1].type.arrow->metadata, extension->metadata);
    for (std::size_t size = 0; size < said.size(); ++size) {
        std::string const cut = said.substr(0, size);
        operators::MessageReader reader(cut);
        EXPECT_THROW((void)operators::hear_schema(reader), Error) << size;
    }
}

TEST(ArrowTypes, WhatContradictsItselfIsRefused) {
    Type type = int8();
    type.arrow = timestamp(TimeUnit::Nano).arrow;
    operators::MessageWriter to;
    operators::say_schema(to, Schema{{"t", type}});
    std::string const said = to.take();
    operators::MessageReader from(said);
    expect_error(ErrorCode::InvalidArgument, {"'t'", "'tsn:'"},
                 [&] { (void)operators::hear_schema(from); });
}

TEST(ArrowTypes, MetadataThatEndsTooSoonHasNoValues) {
    std::string const whole("\1\0\0\0\3\0\0\0key\5\0\0\0value", 20);
    EXPECT_EQ(arrow::copy_metadata(whole.c_str()), whole);
    EXPECT_EQ(arrow::copy_metadata(nullptr), "");
    EXPECT_EQ(arrow::metadata_value(whole, "key"), "value");
    EXPECT_EQ(arrow::metadata_value(whole, "other"), std::nullopt);
    EXPECT_TRUE(arrow::is_metadata(whole));
    EXPECT_TRUE(arrow::is_metadata(""));
    EXPECT_FALSE(arrow::is_metadata(whole + "more"));
    for (std::size_t size = 0; size < whole.size(); ++size) {
        EXPECT_EQ(arrow::metadata_value(whole.substr(0, size), "key"), std::nullopt) << size;
        EXPECT_EQ(arrow::is_metadata(whole.substr(0, size)), size == 0) << size;
    }
    std::string const many("\0\0\0\x40", 4);
    EXPECT_EQ(arrow::metadata_value(many, "key"), std::nullopt);
    expect_error(ErrorCode::InvalidArgument, {"metadata"},
                 [&] { (void)arrow::copy_metadata(many.c_str()); });
    std::string const negative("\1\0\0\0\xff\xff\xff\xff", 8);
    expect_error(ErrorCode::InvalidArgument, {"metadata"},
                 [&] { (void)arrow::copy_metadata(negative.c_str()); });
}

/// A column of int8 indices of a dictionary of three texts, made by hand.
struct Words {
    Words() {
        schema.format = "+s";
        schema.n_children = 1;
        schema.children = &column_schema_at;
        schema.release = [](ArrowSchema* s) { s->release = nullptr; };
        column_schema.format = "c";
        column_schema.name = "word";
        column_schema.flags = ARROW_FLAG_NULLABLE | ARROW_FLAG_DICTIONARY_ORDERED;
        column_schema.dictionary = &dictionary_schema;
        dictionary_schema.format = "u";
        dictionary.length = 3;
        dictionary.n_buffers = 3;
        dictionary.buffers = dictionary_buffers;
        column.length = 5;
        column.null_count = 1;
        column.n_buffers = 2;
        column.buffers = column_buffers;
        column.dictionary = &dictionary;
        array.length = 5;
        array.n_buffers = 1;
        array.buffers = array_buffers;
        array.n_children = 1;
        array.children = &column_at;
        array.release = [](ArrowArray* a) { a->release = nullptr; };
    }

    std::int32_t offsets[4] = {0, 3, 6, 21};
    char const* text = "onetwothree and so on";
    std::int8_t indices[5] = {2, 99, 0, 2, 0};
    std::uint8_t valid[1] = {0b11101};
    void const* dictionary_buffers[3] = {nullptr, offsets, text};
    void const* column_buffers[2] = {valid, indices};
    void const* array_buffers[1] = {nullptr};
    ArrowArray dictionary{}, column{}, array{};
    ArrowSchema dictionary_schema{}, column_schema{}, schema{};
    ArrowArray* column_at = &column;
    ArrowSchema* column_schema_at = &column_schema;
};

TEST(ArrowTypes, DictionariesComeBackWhole) {
    Words words;
    RecordBatch const batch = import_batch(&words.array, &words.schema);
    EXPECT_EQ(batch.schema[0].type, string());
    EXPECT_EQ(batch.string_at(0, 0), "three and so on");
    EXPECT_FALSE(batch.is_valid(0, 1));
    ArrowSchema described{};
    export_schema(batch, &described);
    EXPECT_STREQ(described.children[0]->format, "c");
    EXPECT_TRUE(described.children[0]->flags & ARROW_FLAG_DICTIONARY_ORDERED);
    EXPECT_STREQ(described.children[0]->dictionary->format, "u");
    ArrowArray exported{};
    export_batch(batch.slice(1, 4), &exported);
    ArrowArray const& indices = *exported.children[0];
    EXPECT_EQ(indices.dictionary->length, 3);
    EXPECT_EQ(at<std::int8_t>(indices.buffers[1], std::size_t(indices.offset) + 2), 2);
    RecordBatch const again = import_batch(&exported, &described);
    EXPECT_EQ(again.string_at(0, 1), "one");
    EXPECT_EQ(again.string_at(0, 2), "three and so on");
    EXPECT_FALSE(again.is_valid(0, 0));
}

TEST(ArrowTypes, AnIndexBeyondTheDictionaryIsRefused) {
    Words words;
    words.indices[0] = 3;
    expect_error(ErrorCode::InvalidArgument, {"'word'", "index 3", "3 values"},
                 [&] { (void)import_batch(&words.array, &words.schema); });
}

}  // namespace
}  // namespace mgi::arrow_types
