// Hashing and routing of keys.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include <mgi/device/hash.hpp>

#include "memory/segment_layout.hpp"
#include "support/tables.hpp"

namespace mgi::device {
namespace {

u64 hash_text(std::string const& text) {
    return murmur3_bytes(text.data(), u32(text.size()));
}

// First 64 bits of MurmurHash3_x64_128 with seed 0, as the reference implementation gives them.
TEST(DeviceHash, KnownVectorsOfMurmur3) {
    EXPECT_EQ(hash_text(""), 0x0000000000000000ULL);
    EXPECT_EQ(hash_text("hello"), 0xcbd8a7b341bd9b02ULL);
    EXPECT_EQ(hash_text("hello, world"), 0x342fac623a5ebc8eULL);
    EXPECT_EQ(hash_text("19 Jan 2038 at 3:14:07 AM"), 0xb89e5988b737affcULL);
    EXPECT_EQ(hash_text("The quick brown fox jumps over the lazy dog."), 0xcd99481f9ee902c9ULL);
}

TEST(DeviceHash, EveryLengthOfTailCounts) {
    std::string text;
    u64 last = hash_text(text);
    for (int i = 0; i < 40; ++i) {
        text.push_back('x');
        EXPECT_NE(hash_text(text), last) << text.size();
        last = hash_text(text);
    }
}

TEST(DeviceHash, EmptyValueMayHaveNoAddress) {
    EXPECT_EQ(murmur3_bytes(nullptr, 0), hash_text(""));
}

/// One column of one value, hashed.
struct Key {
    Key(Type const& type, test::Cell const& value)
        : schema({{"k", type, true}}),
          layout(schema, Layout::Columns, 64, 1024),
          batch(test::make_batch(schema, {{value}})) {}
    u64 hash() { return hash_value(batch.slice(0, 1), layout.get().columns[0], 0, 0); }
    u32 modulo(u32 n) {
        return destination_of_modulo(batch.slice(0, 1), layout.get().columns[0], 0, 0, n);
    }
    Schema schema;
    memory::ChannelLayout layout;
    test::DeviceBatch batch;
};

TEST(DeviceHash, EqualIntegersOfAnyWidthHashAlike) {
    for (std::int64_t value : {0LL, 1LL, 7LL, 127LL}) {
        u64 const expected = Key(int64(), test::cell(value)).hash();
        EXPECT_EQ(Key(int8(), test::cell(std::int8_t(value))).hash(), expected);
        EXPECT_EQ(Key(int16(), test::cell(std::int16_t(value))).hash(), expected);
        EXPECT_EQ(Key(int32(), test::cell(std::int32_t(value))).hash(), expected);
        EXPECT_EQ(Key(date32(), test::cell(std::int32_t(value))).hash(), expected);
        EXPECT_EQ(Key(uint8(), test::cell(std::uint8_t(value))).hash(), expected);
        EXPECT_EQ(Key(uint16(), test::cell(std::uint16_t(value))).hash(), expected);
        EXPECT_EQ(Key(uint32(), test::cell(std::uint32_t(value))).hash(), expected);
        EXPECT_EQ(Key(uint64(), test::cell(std::uint64_t(value))).hash(), expected);
    }
    u64 const negative = Key(int64(), test::cell(std::int64_t{-5})).hash();
    EXPECT_EQ(Key(int8(), test::cell(std::int8_t{-5})).hash(), negative);
    EXPECT_EQ(Key(int32(), test::cell(std::int32_t{-5})).hash(), negative);
    EXPECT_NE(Key(uint8(), test::cell(std::uint8_t{251})).hash(), negative);
}

TEST(DeviceHash, EveryNaNAndBothZerosHashAlike) {
    double const nan = std::numeric_limits<double>::quiet_NaN();
    u64 odd_bits = 0xfff8000000001234ULL;
    double odd = 0;
    memcpy(&odd, &odd_bits, 8);
    ASSERT_TRUE(std::isnan(odd));
    EXPECT_EQ(Key(float64(), test::cell(nan)).hash(), Key(float64(), test::cell(odd)).hash());
    EXPECT_EQ(Key(float64(), test::cell(nan)).hash(), Key(float64(), test::cell(-nan)).hash());
    EXPECT_EQ(Key(float64(), test::cell(0.0)).hash(), Key(float64(), test::cell(-0.0)).hash());
    EXPECT_EQ(Key(float32(), test::cell(0.0F)).hash(), Key(float64(), test::cell(-0.0)).hash());
    EXPECT_EQ(Key(float32(), test::cell(1.5F)).hash(), Key(float64(), test::cell(1.5)).hash());
    EXPECT_NE(Key(float64(), test::cell(1.5)).hash(), Key(float64(), test::cell(nan)).hash());
}

TEST(DeviceHash, NullsHashAlikeWhateverLiesBehindThem) {
    EXPECT_EQ(Key(int64(), std::nullopt).hash(), kNullHash);
    EXPECT_EQ(Key(string(), std::nullopt).hash(), kNullHash);
    EXPECT_EQ(Key(boolean(), std::nullopt).hash(), kNullHash);
}

TEST(DeviceHash, TextHashesAlikeInEveryEncoding) {
    for (std::string const& text :
         {std::string(), std::string("short"), std::string("exactly 12 c"), std::string(50, 'l')}) {
        test::Random random(text.size());
        for (int i = 0; i < 20; ++i) {
            Schema const schema{{"k", string(), true}};
            memory::ChannelLayout const layout(schema, Layout::Columns, 64, 1024);
            test::DeviceBatch batch(test::make_batch(schema, {{text}}, random));
            EXPECT_EQ(hash_value(batch.slice(0, 1), layout.get().columns[0], 0, 0),
                      hash_text(text));
        }
    }
}

TEST(DeviceHash, ModuloIsNeverNegative) {
    for (u32 n : {1U, 2U, 3U, 7U}) {
        for (std::int64_t value :
             {std::int64_t{0}, std::int64_t{5}, std::int64_t{-1}, std::int64_t{-7},
              std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max()}) {
            std::int64_t const wide = n;
            EXPECT_EQ(Key(int64(), test::cell(value)).modulo(n), ((value % wide) + wide) % wide);
        }
        EXPECT_EQ(Key(uint64(), test::cell(~u64{0})).modulo(n), ~u64{0} % n);
        EXPECT_EQ(Key(int8(), test::cell(std::int8_t{-128})).modulo(n), (n - 128 % n) % n);
        EXPECT_EQ(Key(boolean(), test::cell(u8{1})).modulo(n), 1 % n);
        EXPECT_EQ(Key(int64(), std::nullopt).modulo(n), 0U) << "nulls go to destination 0";
    }
}

TEST(DeviceHash, DestinationsAreInRangeAndAllUsed) {
    for (u32 n : {1U, 2U, 3U, 5U, 16U, 1000U}) {
        std::vector<u32> hits(n);
        for (u64 key = 0; key < u64(n) * 100; ++key) {
            u32 const to = destination_of_hash(murmur3_mix(key), n);
            ASSERT_LT(to, n);
            ++hits[to];
        }
        for (u32 count : hits) EXPECT_GT(count, 30U) << n << " destinations";
    }
    EXPECT_EQ(destination_of_hash(~u64{0}, 3), 2U);
    EXPECT_EQ(destination_of_hash(0, 3), 0U);
}

}  // namespace
}  // namespace mgi::device
